"""A short schema gives the CRD that its author means."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.schema.crd_schema import unreported
from ssa_operator.schema.short_schema.expanded_crd import ShortSchema, short_schema
from ssa_operator.schema.short_schema.field_texts import MARKERS, Mistake, markers

SPEC = ("versions", 0, "schema", "openAPIV3Schema", "properties", "spec")


def crd_of(**fields: Any) -> dict[str, Any]:
    found: ShortSchema = short_schema("sites.example.com", {"kind": "Site", **fields})
    assert found.mistakes == ()
    return dict(found.crd)


def spec_of(spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    version = crd_of(spec=spec, **fields)["spec"]["versions"][0]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


FIELDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("string", {"type": "string"}),
    ("float", {"type": "number"}),
    ("object", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    ("[]string", {"type": "array", "items": {"type": "string"}}),
    ("map[string]integer", {"type": "object", "additionalProperties": {"type": "integer"}}),
    ("[][]boolean", {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}}),
    ("integer | default=3 minimum=1 maximum=5", {"type": "integer", "minimum": 1, "maximum": 5, "default": 3}),
    ("number | default=0.5", {"type": "number", "default": 0.5}),
    ("boolean | default=true", {"type": "boolean", "default": True}),
    ("string | default=3", {"type": "string", "default": "3"}),
    ('string | default=""', {"type": "string", "default": ""}),
    ('string | description="a \\"b\\" c"', {"type": "string", "description": 'a "b" c'}),
    ("string | default='d e'", {"type": "string", "default": "d e"}),
    ('string | pattern="^\\d+$"', {"type": "string", "pattern": r"^\d+$"}),
    ("string | enum=a,b default=a", {"type": "string", "enum": ["a", "b"], "default": "a"}),
    ('string | enum="a, b"', {"type": "string", "enum": ["a", "b"]}),
    ("[]string | minLength=1", {"type": "array", "items": {"type": "string", "minLength": 1}}),
    ("integer | enum=[1,2]", {"type": "integer", "enum": [1, 2]}),
    (
        '[]string | uniqueItems=true minItems=1 maxItems=2 enum=a,b default=["a"]',
        {
            "type": "array",
            "items": {"type": "string", "enum": ["a", "b"]},
            "x-kubernetes-list-type": "set",
            "minItems": 1,
            "maxItems": 2,
            "default": ["a"],
        },
    ),
    (
        "string | immutable=true default=a",
        {
            "type": "string",
            "default": "a",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
        },
    ),
)  # fmt: skip


@pytest.mark.parametrize(("text", "schema"), FIELDS, ids=[text for text, _ in FIELDS])
def test_a_field_has_the_schema_of_its_type_and_markers(text: str, schema: dict[str, Any]) -> None:
    assert spec_of({"a": text})["properties"]["a"] == schema


def test_nested_defaults_hold_without_the_mappings_around_them() -> None:
    spec = spec_of({"tls": {"enabled": "boolean | default=false"}, "plain": {"name": "string"}})
    assert spec["default"] == {}
    assert spec["properties"]["tls"]["default"] == {}
    assert "default" not in spec["properties"]["plain"]
    assert (
        "default"
        not in spec_of({"tls": {"on": "boolean | default=true", "a": "string | required"}})["properties"]["tls"]
    )


def test_a_type_is_used_by_its_name_with_markers_of_the_field() -> None:
    types = {
        "Level": "string | enum=low,high",
        "Port": {"number": "integer | required", "level": "Level | default=low"},
    }
    spec = spec_of({"port": 'Port | required description="The port"', "more": "map[string]Port"}, types=types)
    port = {
        "type": "object",
        "required": ["number"],
        "properties": {
            "number": {"type": "integer"},
            "level": {"type": "string", "enum": ["low", "high"], "default": "low"},
        },
    }
    assert spec["required"] == ["port"]
    assert spec["properties"]["port"] == {**port, "description": "The port"}
    assert spec["properties"]["more"]["additionalProperties"] == port


def test_an_immutable_field_without_a_default_can_not_be_removed() -> None:
    rules = spec_of({"storage-class": "string | immutable", "zone": "string | immutable required"})[
        "x-kubernetes-validations"
    ]
    assert [rule["rule"] for rule in rules] == ["!has(oldSelf.storage__dash__class) || has(self.storage__dash__class)"]


def test_the_status_has_the_fields_and_columns_of_the_operator() -> None:
    crd = crd_of(status={"address": "string"}, columns=[{"name": "Age", "path": ".status.address"}])
    version = crd["spec"]["versions"][0]
    assert unreported(crd, "v1alpha1") is None
    assert {"address", "observedGeneration"} < version["schema"]["openAPIV3Schema"]["properties"]["status"][
        "properties"
    ].keys()
    assert [each["name"] for each in version["additionalPrinterColumns"]] == ["Age", "Ready", "Reason", "Message"]


def test_rules_hold_for_a_spec_that_has_only_defaults() -> None:
    fields = {"pods": "integer | default=3", "tls": {"on": "boolean | default=true"}, "zone": "string"}
    assert spec_of(fields, validation=[{"rule": "self.tls.on"}])["default"] == {"pods": 3, "tls": {"on": True}}
    for rule in ("self.pods < 3", "self.zone == 'a'"):
        found = short_schema("sites.example.com", {"kind": "Site", "spec": fields, "validation": [{"rule": rule}]})
        [mistake] = found.mistakes
        assert mistake.path == ("validation", 0, "rule")
        assert "refuses a spec without fields" in mistake.message
    assert spec_of(fields, validation=[{"rule": "!has(self.zone) || self.zone == 'a'"}])


def test_an_older_version_has_the_same_fields_and_may_be_deprecated() -> None:
    spec = {"a": 'string | description="new words"'}
    older = {"v1beta1": {"spec": {"a": "string"}, "deprecated": "use v1"}, "v1alpha1": None}
    versions = crd_of(version="v1", spec=spec, versions=older)["spec"]["versions"]
    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1", True, True),
        ("v1beta1", True, False),
        ("v1alpha1", True, False),
    ]
    assert (versions[1]["deprecated"], versions[1]["deprecationWarning"]) == (True, "use v1")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("string, required", "string | required"),
        ("string (required)", "string | required"),
        ("string required minLength: 3", "string | required minLength=3"),
        ("string!", "string | required"),
        ("int=1", "integer | default=1"),
        ("integer | default : 1", "integer | default=1"),
        ("integer | default:1", "integer | default=1"),
        ("string | required | minLength=3", "string | required minLength=3"),
        ("string | enum=small|large", "string | enum=small,large"),
        ("string | enum=small | large", "string | enum=small,large"),
        ("string | enum=small, large default=small", "string | enum=small,large default=small"),
        ("string | enum=small;large;", "string | enum=small,large"),
        ('[]string, uniqueItems, description="a, b"', '[]string | uniqueItems description="a, b"'),
    ],
)
def test_a_field_in_another_form_is_refused_with_the_right_form(text: str, right: str) -> None:
    (mistake,) = short_schema("sites.example.com", {"kind": "Site", "spec": {"a": text}}).mistakes
    assert str(mistake).endswith(f"; write {right}")
    assert short_schema("sites.example.com", {"kind": "Site", "spec": {"a": right}}).mistakes == ()


def test_a_value_with_a_bar_is_written_in_json() -> None:
    assert spec_of({"a": 'string | enum=["a|b","c"]'})["properties"]["a"]["enum"] == ["a|b", "c"]


def test_types_that_multiply_are_refused_before_they_fill_the_memory() -> None:
    types = {f"T{at}": {"a": f"T{at + 1}", "b": f"T{at + 1}"} for at in range(40)} | {"T40": "string"}
    found = short_schema("sites.example.com", {"kind": "Site", "types": types, "spec": {"a": "T0"}})
    assert any("more than 5000 fields" in each.message for each in found.mistakes)


@given(st.text(max_size=40))
def test_any_text_of_markers_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Mistake):
        assert markers(text).keys() <= set(MARKERS)


@given(st.text(max_size=20))
def test_any_text_can_be_a_default(text: str) -> None:
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert spec_of({"a": f"string | default={quoted}"})["properties"]["a"]["default"] == text
