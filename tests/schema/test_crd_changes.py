"""The changes of a CRD that can refuse or lose objects."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.schema.crd_changes import crd_changes
from ssa_operator.schema.new_object import prune
from ssa_operator.schema.schema_validation import validate

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "name": {"type": "string", "maxLength": 9},
        "note": {"type": "string", "nullable": True},
        "ports": {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer"}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "target": {"x-kubernetes-int-or-string": True},
    },
}


def crd(spec: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    names = {"kind": "Shop", "listKind": "ShopList", "plural": "shops"}
    return {
        "metadata": {"name": "shops.example.com"},
        "spec": {"scope": "Namespaced", "names": names, "versions": [version], **more},
    }


def edited(path: str, value: Any) -> dict[str, Any]:
    """The schema with another value at a path, or without it if the value is `...`."""
    spec = copy.deepcopy(SPEC)
    *parents, last = path.split("/")
    place: Any = spec
    for name in parents:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return spec


@pytest.mark.parametrize(
    ("path", "value", "code", "words"),
    [
        ("properties/name", ..., "crd-field-removed", "spec.name of version v1 is gone"),
        ("properties/ports/items/properties/port", ..., "crd-field-removed", "spec.ports.*.port of version v1 is gone"),
        ("properties/labels/additionalProperties", ..., "crd-field-removed", "spec.labels of version v1"),
        ("properties/free/x-kubernetes-preserve-unknown-fields", ..., "crd-field-removed", "spec.free"),
        ("properties/size/type", "string", "crd-type-changed", "was integer and is string"),
        ("properties/target", {"type": "string"}, "crd-type-changed", "was integer or string and is string"),
        ("properties/labels/additionalProperties/type", "integer", "crd-type-changed", "spec.labels.*"),
        ("required", ["size", "name"], "crd-field-required", "spec.name of version v1 is required now"),
        ("properties/mode/enum", ["a"], "crd-narrowed", "may not be b any more"),
        ("properties/name/enum", ["a"], "crd-narrowed", "has an enum now"),
        ("properties/size/minimum", 2, "crd-narrowed", "has minimum 2, before 1"),
        ("properties/size/maximum", 8, "crd-narrowed", "has maximum 8, before 9"),
        ("properties/size/exclusiveMaximum", True, "crd-narrowed", "has an exclusive maximum 9"),
        ("properties/name/maxLength", 8, "crd-narrowed", "has maxLength 8, before 9"),
        ("properties/name/minLength", 1, "crd-narrowed", "has minLength 1, before 0"),
        ("properties/ports/maxItems", 3, "crd-narrowed", "has maxItems 3, before none"),
        ("properties/name/pattern", "^a", "crd-narrowed", "has a pattern now"),
        ("properties/note/nullable", ..., "crd-narrowed", "may not be null any more"),
        ("properties/mode/default", ..., "crd-default-changed", "had the default a, which is gone"),
        ("properties/mode/default", "b", "crd-default-changed", "had the default a, which is b"),
        ("x-kubernetes-validations", [{"rule": "self.size > 1"}], "crd-rule-added", "has a new rule, self.size > 1"),
        ("properties/ports/x-kubernetes-list-type", "set", "crd-list-type-changed", "atomic, now set"),
    ],
)  # fmt: skip
def test_each_change_that_refuses_or_loses_is_found_once(path: str, value: Any, code: str, words: str) -> None:
    (found,) = crd_changes(crd(SPEC), crd(edited(path, value)))
    assert found.code == code
    assert words in found.message


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("properties/more", {"type": "string"}),
        ("required", []),
        ("properties/size/type", "number"),
        ("properties/size/minimum", 0),
        ("properties/size/minimum", ...),
        ("properties/name/maxLength", ...),
        ("properties/mode/enum", ["a", "b", "c"]),
        ("properties/mode/enum", ...),
        ("properties/name/nullable", True),
        ("properties/name/default", "x"),
        ("properties/name/description", "words"),
        ("properties/ports/x-kubernetes-list-type", "atomic"),
        ("properties/labels/x-kubernetes-preserve-unknown-fields", True),
    ],
)
def test_a_change_that_permits_more_is_none(path: str, value: Any) -> None:
    assert [*crd_changes(crd(SPEC), crd(edited(path, value)))] == []


def test_a_required_field_with_a_default_refuses_nothing() -> None:
    spec = edited("properties/name/default", "x")
    spec["required"] = ["size", "name"]
    assert [*crd_changes(crd(SPEC), crd(spec))] == []


def test_versions_names_and_the_status_subresource() -> None:
    before = crd(SPEC)
    (version,) = before["spec"]["versions"]
    newer = {**version, "name": "v2"}
    for versions, code, words in (
        ([newer], "crd-version-removed", "version v1 is gone"),
        ([{**version, "served": False}, newer], "crd-version-removed", "version v1 is no longer served"),
        ([{**version, "storage": False}, newer], "crd-version-removed", "version v1 is no longer the stored one"),
        ([{**version, "subresources": {}}], "crd-status-removed", "version v1 has no status subresource"),
    ):
        (found,) = crd_changes(before, crd(SPEC, versions=versions))
        assert found.code == code
        assert words in found.message
    (found,) = crd_changes(before, crd(SPEC, scope="Cluster"))
    assert (found.code, found.path) == ("crd-names-changed", ("spec", "scope"))
    assert "its scope was Namespaced and is Cluster" in found.message


SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.just("integer")},
        optional={"minimum": st.integers(0, 3), "maximum": st.integers(2, 5), "nullable": st.booleans()},
    )
    | st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"enum": st.lists(st.sampled_from("abc"), min_size=1, unique=True), "maxLength": st.integers(0, 2)},
    ),
    lambda below: (
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("xyz"), below, max_size=3)},
            optional={"required": st.lists(st.sampled_from("xyz"), unique=True, max_size=2)},
        )
        | st.fixed_dictionaries({"type": st.just("array"), "items": below}, optional={"maxItems": st.integers(0, 2)})
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.none() | st.integers(0, 5) | st.sampled_from(["", "a", "b", "c", "ab"]),
    lambda below: st.dictionaries(st.sampled_from("xyz"), below, max_size=3) | st.lists(below, max_size=3),
    max_leaves=6,
)


@given(SCHEMAS)
def test_a_crd_that_is_the_same_has_no_change(spec: dict[str, Any]) -> None:
    assert [*crd_changes(crd(spec), crd(spec))] == []


@given(SCHEMAS, SCHEMAS, VALUES)
def test_what_was_stored_is_refused_or_lost_by_a_named_change_only(
    before: dict[str, Any], after: dict[str, Any], value: Any
) -> None:
    stored = kept(before, {"spec": value})
    if not refused(before, stored) and (refused(after, kept(after, stored)) or kept(after, stored) != stored):
        assert [*crd_changes(crd(before), crd(after))]


def whole(spec: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": spec}}


def kept(spec: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    return prune(body, whole(spec))[0]


def refused(spec: dict[str, Any], body: dict[str, Any]) -> bool:
    return bool(validate(whole(spec), body).errors)
