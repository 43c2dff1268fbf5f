"""A new object is pruned, defaulted and validated. test_new_object_on_server.py compares all of it with the API
server.
"""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.schema.new_object import RULES_NOT_CHECKED, NewObject, new_object

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
