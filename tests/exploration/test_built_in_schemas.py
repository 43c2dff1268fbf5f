"""The schemas of built-in kinds that an exploration draws changes from."""

from __future__ import annotations

from typing import Any

from tests.exploration.built_in_schemas import DEPTH_LIMIT, kind_schema


def reference(name: str) -> dict[str, Any]:
    return {"description": "a type", "allOf": [{"$ref": f"#/components/schemas/{name}"}], "default": {}}


TREE = {"type": "object", "properties": {"name": {"type": "string"}, "left": reference("Tree")}}
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": reference("Quantity"),
        "port": {"type": "string", "format": "int-or-string"},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "tree": reference("Tree"),
        "labels": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
    },
}
CLAIM = {
    "type": "object",
    "properties": {"spec": reference("Spec"), "status": {"type": "object"}},
    "x-kubernetes-group-version-kind": [{"group": "a.k8s.io", "version": "v1", "kind": "Claim"}],
}
QUANTITY = {"oneOf": [{"type": "string"}, {"type": "number"}]}
DOCUMENT = {"components": {"schemas": {"Claim": CLAIM, "Spec": SPEC, "Tree": TREE, "Quantity": QUANTITY}}}


def test_references_are_replaced_and_only_a_user_s_fields_are_left() -> None:
    schema = kind_schema(DOCUMENT, "a.k8s.io", "v1", "Claim")
    assert schema is not None
    assert schema["properties"].keys() == {"spec"}
    spec = schema["properties"]["spec"]
    assert spec["required"] == ["size"]
    assert spec["properties"].keys() == {"size", "port", "tree", "labels"}
    assert spec["properties"]["size"] == spec["properties"]["port"] == {"x-kubernetes-int-or-string": True}
    assert spec["properties"]["labels"]["additionalProperties"] == {"type": "string", "default": ""}
    assert "$ref" not in str(schema)


def test_a_type_that_contains_itself_ends() -> None:
    schema: Any = kind_schema(DOCUMENT, "a.k8s.io", "v1", "Claim")
    depth = 0
    while "properties" in schema:
        inner = schema["properties"]
        schema, depth = inner.get("spec") or inner.get("tree") or inner["left"], depth + 1
    assert depth == DEPTH_LIMIT + 1
    assert schema == {"x-kubernetes-preserve-unknown-fields": True}


def test_a_kind_that_the_document_lacks_has_no_schema() -> None:
    assert kind_schema(DOCUMENT, "a.k8s.io", "v1", "Other") is None
    assert kind_schema({}, "", "v1", "ConfigMap") is None
