"""The defaults of a CRD's schema. tests/schema/test_new_object_on_server.py compares them with the API server's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.schema.metadata_validation import validate_metadata
from ssa_operator.schema.new_object import RULES_NOT_CHECKED, NewObject, defaulted, new_object

THREE = {"type": "integer", "default": 3}
PORT = {"type": "object", "properties": {"port": THREE, "name": {"type": "string", "nullable": True, "default": "x"}}}


@pytest.mark.parametrize(
    ("schema", "given", "wanted"),
    [
        pytest.param(THREE, {}, {"a": 3}, id="a missing field gets its default"),
        pytest.param(THREE, {"a": 0}, {"a": 0}, id="a field that is there keeps its value"),
        pytest.param(THREE, {"a": None}, {"a": 3}, id="a null that may not be gets the default"),
        pytest.param(THREE | {"nullable": True}, {"a": None}, {"a": None}, id="a null that may be stays"),
        pytest.param(THREE | {"nullable": True}, {}, {"a": 3}, id="a nullable field that is missing gets its default"),
        pytest.param({"type": "integer"}, {"a": None}, {}, id="a null without a default is dropped"),
        pytest.param({"type": "integer", "default": None}, {}, {}, id="a default of null is none"),
        pytest.param({"type": "boolean", "default": False}, {}, {"a": False}, id="false is a default"),
        pytest.param(PORT, {}, {}, id="a missing object without a default stays missing"),
        pytest.param(PORT, {"a": {}}, {"a": {"port": 3, "name": "x"}}, id="an object that is there is filled"),
        pytest.param(PORT, {"a": {"name": None}}, {"a": {"name": None, "port": 3}}, id="its own nullable null stays"),
        pytest.param(PORT | {"default": {}}, {}, {"a": {"port": 3, "name": "x"}}, id="an object's default is filled"),
        pytest.param(
            PORT | {"default": {"port": 4}}, {"a": None}, {"a": {"port": 4, "name": "x"}}, id="also where it was null"
        ),
        pytest.param(
            {"type": "array", "items": PORT},
            {"a": [{}, {"port": 1}]},
            {"a": [{"port": 3, "name": "x"}, {"port": 1, "name": "x"}]},
            id="each item of a list is filled",
        ),
        pytest.param(
            {"type": "array", "items": THREE}, {"a": [None, 1]}, {"a": [3, 1]}, id="a null item gets its default"
        ),
        pytest.param({"type": "array", "items": {"type": "integer"}}, {"a": [None]}, {"a": [None]}, id="or it stays"),
        pytest.param(
            {"type": "array", "items": PORT, "default": [{}]},
            {},
            {"a": [{"port": 3, "name": "x"}]},
            id="a list's default is filled",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": PORT},
            {"a": {"k": {}, "l": None}},
            {"a": {"k": {"port": 3, "name": "x"}}},
            id="each value of a map is filled",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": THREE},
            {"a": {"k": None}},
            {"a": {"k": 3}},
            id="a null value of a map gets its default",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True}, {"a": {"k": None}}, {"a": {"k": None}}, id="any map"
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"b": THREE}},
            {"a": {"c": None}},
            {"a": {"c": None, "b": 3}},
            id="unknown fields that are preserved stay as they are",
        ),
        pytest.param({"x-kubernetes-int-or-string": True, "default": "50%"}, {}, {"a": "50%"}, id="int or string"),
        pytest.param(PORT, {"a": "text"}, {"a": "text"}, id="what has another type stays"),
    ],
)
def test_a_field_is_defaulted_as_the_api_server_does_it(
    schema: dict[str, Any], given: dict[str, Any], wanted: dict[str, Any]
) -> None:
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": schema}}}}
    assert defaulted({"kind": "Echo", "spec": given}, whole) == {"kind": "Echo", "spec": wanted}


def test_without_a_schema_an_object_stays_as_it_is() -> None:
    assert defaulted({"spec": {"a": None}}, None) == {"spec": {"a": None}}


@pytest.mark.parametrize(
    ("api_version", "valid"),
    [("v1", True), ("apps/v1", True), ("/v1", True), ("v1/", False), ("", False), ("/", False), ("a/b/c", False)],
)
def test_the_api_version_of_an_owner_has_a_version(api_version: str, valid: bool) -> None:
    owner = {"apiVersion": api_version, "kind": "A", "name": "a", "uid": "b"}
    errors = validate_metadata({"metadata": {"name": "a", "ownerReferences": [owner]}})
    place = f'metadata.ownerReferences.apiVersion: Invalid value: "{api_version}": version must not be empty'
    assert [str(each) for each in errors] == ([] if valid else [place])


def test_the_schema_does_not_default_the_metadata() -> None:
    schema = {"properties": {"metadata": {"properties": {"name": {"type": "string"}}}, "spec": {"default": {}}}}
    body = {"metadata": {"creationTimestamp": None, "name": "web", "labels": {"a": None}}}
    assert defaulted(body, schema) == body | {"spec": {}}


def test_the_given_object_is_not_changed() -> None:
    schema = {"properties": {"spec": {"default": {"list": [{}]}, "properties": {"list": {"items": PORT}}}}}
    body: dict[str, Any] = {"spec": None}
    first, second = defaulted(body, schema), defaulted(body, schema)
    assert first == second == {"spec": {"list": [{"port": 3, "name": "x"}]}}
    assert body == {"spec": None}
    assert schema["properties"]["spec"]["default"] == {"list": [{}]}


NAMES = st.sampled_from("abc")
VALUES = st.recursive(
    st.none() | st.integers(0, 3), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3)
)


def _with(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "items": inner,
            "additionalProperties": inner | st.booleans(),
            "nullable": st.booleans(),
            "default": st.just({}) | st.integers(4, 6),
        },
    )


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(st.just({}), _with, max_leaves=8)
BODIES = st.dictionaries(NAMES, VALUES, max_size=3)


@given(BODIES, SCHEMAS)
def test_defaulting_twice_changes_nothing_more(body: dict[str, Any], schema: dict[str, Any]) -> None:
    once = defaulted(body, schema)
    assert defaulted(once, schema) == once


@given(BODIES, SCHEMAS)
def test_no_value_but_null_is_replaced_or_dropped(body: dict[str, Any], schema: dict[str, Any]) -> None:
    def kept(old: Any, new: Any) -> bool:
        if old is None:
            return True
        if isinstance(old, dict):
            return all(value is None or (key in new and kept(value, new[key])) for key, value in old.items())
        if isinstance(old, list):
            return len(old) == len(new) and all(map(kept, old, new))
        return bool(old == new)

    assert kept(body, defaulted(body, schema))


STRING = {"type": "string"}


def created(spec: Any, status: Any = None, **fields: dict[str, Any]) -> NewObject:
    """What is made of a Thing with a spec, whose fields have these schemas."""
    properties = {"spec": {"type": "object", "properties": fields}, "status": {"type": "object", "properties": fields}}
    version = {
        "name": "v1",
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    definition = {"metadata": {"name": "things.example.com"}, "spec": {"versions": [version]}}
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}
    return new_object(body | ({"status": status} if status is not None else {}), definition, "v1")


def test_undeclared_fields_go_and_are_named() -> None:
    found = created({"a": "x", "b": {"c": 1}, "l": [{"a": 1, "x": 2}]}, a=STRING, l={
        "type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}
    })  # fmt: skip
    assert found.body["spec"] == {"a": "x", "l": [{"a": 1}]}
    assert found.pruned == (("spec", "b"), ("spec", "l", 0, "x"))
    assert found.errors == ()


def test_a_default_comes_before_the_validation() -> None:
    found = created({}, a=STRING | {"default": "x", "enum": ["x"]})
    assert (found.body["spec"], found.errors) == ({"a": "x"}, ())


def test_a_whole_number_is_an_integer_as_kubectl_sends_it() -> None:
    found = created({"a": 1.0}, a={"type": "integer"})
    assert isinstance(found.body["spec"]["a"], int)


def test_a_status_that_the_api_server_drops_is_not_validated() -> None:
    found = created({"a": "x"}, {"a": 1}, a=STRING)
    assert (found.errors, found.body["status"]) == ((), {"a": 1})


@pytest.mark.parametrize(
    ("value", "schema", "error"),
    [
        (1, STRING, 'spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer"'),
        ("b", STRING | {"enum": ["a"]}, 'spec.a: Unsupported value: "b": supported values: "a"'),
        ("é", STRING | {"minLength": 2}, 'spec.a: Invalid value: "é": spec.a in body should be at least 2 chars long'),
        (0, {"type": "integer", "minimum": 1}, "spec.a: Invalid value: 0: spec.a in body should be greater than or"),
        ([1, 1], {"type": "array", "x-kubernetes-list-type": "set"}, "spec.a[1]: Duplicate value: 1"),
        ("x", STRING | {"x-kubernetes-validations": [{"rule": "self == 'y'"}]}, "failed rule: self == 'y'"),
        (
            "x",
            STRING | {"x-kubernetes-validations": [{"rule": "false", "messageExpression": "'not ' + self"}]},
            'spec.a: Invalid value: "x": not x',
        ),
    ],
)
def test_an_error_has_the_words_of_the_api_server(value: Any, schema: dict[str, Any], error: str) -> None:
    (found,) = created({"a": value}, a=schema).errors
    assert error in str(found)
    assert found.path[:2] == ("spec", "a")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (STRING | {"pattern": "a(?=b)"}, "spec.a: the pattern a(?=b)"),
        (STRING | {"x-kubernetes-validations": [{"rule": "self.future()"}]}, "(the function future)"),
        (STRING | {"x-kubernetes-validations": [{"rule": "authorizer.path('/')"}]}, "the function authorizer.path"),
        (STRING | {"x-kubernetes-validations": [{"rule": "self =="}]}, "unexpected end of the expression"),
    ],
)
def test_what_is_unknown_offline_is_named_and_refuses_nothing(schema: dict[str, Any], words: str) -> None:
    found = created({"a": "x"}, a=schema)
    assert found.errors == ()
    (unchecked,) = found.unchecked
    assert words in unchecked


def test_rules_are_not_evaluated_while_the_schema_is_broken() -> None:
    rules = {"x-kubernetes-validations": [{"rule": "false"}]}
    found = created({"a": 1, "b": "x"}, a=STRING, b=STRING | rules)
    assert [str(error) for error in found.errors if error.field == "<nil>"] == [str(RULES_NOT_CHECKED)]
