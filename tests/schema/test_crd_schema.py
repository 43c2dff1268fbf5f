"""Which part of a status a CRD's schema declares, and what the operator can't report without it."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.schema.crd_schema import (
    declared,
    field_options,
    has_status,
    reports_status,
    status_schema,
    undeclared_reports,
    unreported,
    wrong_parts,
)

SCHEMA = {
    "type": "object",
    "properties": {"phase": {"type": "string"}, "items": {"type": "array", "items": {"properties": {"a": {}}}}},
}


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        (None, {"phase": "x", "more": 1, "items": [{"a": 1, "b": 2}]}),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"phase": "x", "more": 1, "items": [{"a": 1, "b": 2}]}),
        (SCHEMA, {"phase": "x", "items": [{"a": 1}]}),
        ({"type": "object"}, {}),
        ({"properties": {"phase": {"type": "integer"}, "items": {"type": "object"}}}, {}),
        ({"properties": {"phase": {}, "items": {"items": {"type": "string"}}}}, {"phase": "x"}),
        ({"properties": {"more": {"x-kubernetes-int-or-string": True}}}, {"more": 1}),
        ({"additionalProperties": True}, {"phase": "x", "more": 1, "items": [{"a": 1, "b": 2}]}),
    ],
)
def test_only_declared_fields_are_kept(schema: dict[str, Any] | None, kept: dict[str, Any]) -> None:
    assert declared({"phase": "x", "more": 1, "items": [{"a": 1, "b": 2}]}, schema) == kept


def test_the_schema_of_the_status_is_that_of_the_version() -> None:
    versions = [
        {
            "name": "v1",
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"properties": {"status": SCHEMA}}},
        },
        {"name": "v2", "schema": {"openAPIV3Schema": {"x-kubernetes-preserve-unknown-fields": True}}},
    ]
    definition = {"spec": {"versions": versions}}
    assert status_schema(definition, "v1") == SCHEMA
    assert status_schema(definition, "v2") is None
    assert (has_status(definition, "v1"), has_status(definition, "v2"), has_status(definition, "v3")) == (
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("status", "subresource", "found"),
    [
        ({"properties": {"conditions": {"type": "array"}}}, True, True),
        ({"properties": {"observedGeneration": {"type": "integer"}}}, True, True),
        ({"properties": {"conditions": {"type": "array"}}}, False, False),
        ({"properties": {"phase": {"type": "string"}}}, True, False),
        ({"x-kubernetes-preserve-unknown-fields": True}, True, False),
        ({}, True, False),
    ],
)
def test_a_controller_writes_the_status_if_a_schema_declares_conditions_or_an_observed_generation(
    status: dict[str, Any], subresource: bool, found: bool
) -> None:
    schema = {"openAPIV3Schema": {"properties": {"status": status}}}
    version = {"name": "v1", "schema": schema, "subresources": {"status": {}} if subresource else {}}
    assert reports_status({"spec": {"versions": [version]}}) is found
    assert not reports_status({"spec": {"versions": [{"name": "v1", "subresources": {"status": {}}}]}})


STRING = {"type": "string"}
CONDITIONS = {"type": "array", "items": {"properties": dict.fromkeys(("type", "status", "reason", "message"), STRING)}}
RESOURCES = {
    "type": "array",
    "items": {
        "properties": dict.fromkeys(("group", "kind", "namespace", "name", "uid", "state", "message"), STRING),
    },
}
LISTS = {"conditions": CONDITIONS, "resources": RESOURCES}


def crd(status: dict[str, Any] | None, **version: Any) -> dict[str, Any]:
    """A CRD whose version v1 has the status subresource and this schema of it."""
    schema = {"type": "object", "properties": {"spec": {}} | ({"status": status} if status is not None else {})}
    served = {"name": "v1", "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}} | version
    return {"metadata": {"name": "gadgets.example.com"}, "spec": {"versions": [served]}}


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (crd({"properties": LISTS}), ""),
        (crd({"x-kubernetes-preserve-unknown-fields": True}), ""),
        (crd(None), "no status.conditions and status.resources in v1"),
        (crd({"properties": {**LISTS, "conditions": {"type": "string"}}}), "no status.conditions in v1"),
        (crd({"properties": {"conditions": CONDITIONS}}), "no status.resources in v1"),
        (crd({"properties": LISTS}, subresources={}), "no status subresource in v1"),
    ],
)
def test_the_message_names_what_a_crd_keeps_the_operator_from_reporting(definition: dict[str, Any], words: str) -> None:
    sentence = unreported(definition, "v1")
    assert words in (sentence or "")
    assert bool(words) == bool(sentence)


@pytest.mark.parametrize(
    ("status", "missing"),
    [
        ({"properties": {"conditions": CONDITIONS, "resources": RESOURCES}}, ()),
        ({"properties": {"conditions": CONDITIONS}}, ("resources",)),
        ({"properties": {"resources": RESOURCES}}, ("conditions",)),
        ({"properties": {"phase": STRING}}, ("conditions", "resources")),
        ({"properties": {"conditions": CONDITIONS, "resources": {"type": "array", "items": STRING}}}, ("resources",)),
        ({"properties": {"conditions": CONDITIONS, "resources": {"type": "object"}}}, ("resources",)),
        (
            {"properties": {"conditions": CONDITIONS, "resources": {"items": {"properties": {"name": STRING}}}}},
            ("resources",),
        ),
        ({"x-kubernetes-preserve-unknown-fields": True}, ()),
        ({"type": "string"}, ("conditions", "resources")),
    ],
)
def test_conditions_and_resources_are_undeclared_unless_the_schema_declares_all_of_their_fields(
    status: dict[str, Any], missing: tuple[str, ...]
) -> None:
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"status": status}}}}
    assert undeclared_reports({"spec": {"versions": [version]}}, "v1") == ("conditions", "resources")
    assert undeclared_reports({"spec": {"versions": [version | {"subresources": {"status": {}}}]}}, "v1") == missing


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (("spec", "kind"), {"A", "B"}),
        (("spec", "free"), None),
        (("spec", "count"), None),
        (("spec", "kind", "more"), None),
        (("status",), None),
    ],
)
def test_the_values_of_a_field_are_those_that_its_schema_lists(path: tuple[str, ...], options: set[str] | None) -> None:
    fields = {"kind": {"type": "string", "enum": ["A", "B"]}, "free": {"type": "string"}, "count": {"enum": [1, 2]}}
    schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": fields}}}}
    found = field_options({"spec": {"versions": [{"name": "v1", "schema": schema}]}}, "v1", path)
    assert found == options
    assert field_options({}, "v1", path) is None


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        (5, (), "a mapping"),
        ({"properties": []}, ("properties",), "a mapping"),
        ({"properties": {"a": 5}}, ("properties", "a"), "a mapping"),
        ({"items": {"items": {"type": ["string"]}}}, ("items", "items", "type"), "a text"),
        ({"items": [{}]}, ("items",), "a mapping"),
        ({"additionalProperties": {"pattern": 5}}, ("additionalProperties", "pattern"), "a text"),
        ({"additionalProperties": "a"}, ("additionalProperties",), "a mapping"),
        ({"required": "a"}, ("required",), "a list"),
        ({"required": ["a", 5]}, ("required", 1), "a text"),
        ({"maximum": "5"}, ("maximum",), "a number"),
        ({"nullable": 1}, ("nullable",), "true or false"),
        ({"anyOf": [{}, 5]}, ("anyOf", 1), "a mapping"),
        ({"not": {"enum": "a"}}, ("not", "enum"), "a list"),
    ],
)
def test_a_part_of_a_schema_of_another_type_is_found(schema: Any, path: tuple[str | int, ...], words: str) -> None:
    assert list(wrong_parts(schema)) == [(path, words)]


def test_a_null_and_additional_properties_of_any_kind_are_no_wrong_parts() -> None:
    assert list(wrong_parts({"items": None, "required": None, "additionalProperties": True, "default": [5]})) == []
