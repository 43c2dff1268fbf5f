"""Whether the values of a manifest have the types that the schema of its kind wants.

Promises:
- Unknown fields don't count, and of a kind without a schema only `metadata` does.
- A null field is a missing one, and a null item of a list an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.schema.kubernetes_schemas import METADATA, QUANTITY, KubernetesSchemas, Schema


def has_type(value: Any, wanted: str) -> bool:
    """Whether a value has a type of OpenAPI."""
    match wanted:
        case "array":
            return isinstance(value, list)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, float) and value.is_integer()
            )
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "object":
            return isinstance(value, Mapping)
    return isinstance(value, str)


def has_types(body: Mapping[str, Any], schemas: KubernetesSchemas) -> bool:
    """Whether a manifest has the types of its kind, so that rules can read it."""
    schema = schemas.schema(body["apiVersion"], body["kind"]) or _UNKNOWN
    return _has_types(body, schema, schemas)


_UNKNOWN: Schema = {"properties": {"metadata": {"$ref": METADATA}}}
"""The schema of all that is known of a kind without a schema."""


def _has_types(value: Any, schema: Schema, schemas: KubernetesSchemas) -> bool:
    schema = schemas.resolved(schema)
    wanted = str(schema.get("type"))
    if schema.get("x-kubernetes-int-or-string") or wanted == QUANTITY:
        return value is None or not isinstance(value, (bool, Mapping, list))
    if value is None:
        return True
    if wanted in _TYPES and not has_type(value, wanted):
        return False
    if isinstance(value, Mapping):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            inner = properties.get(name, additional)
            if isinstance(inner, Mapping) and not _has_types(item, inner, schemas):
                return False
        return True
    if isinstance(value, list):
        items = schema.get("items", {})
        return all(_has_types(item, items, schemas) for item in value)
    return True


_TYPES = frozenset({"array", "boolean", "integer", "number", "object", "string"})
