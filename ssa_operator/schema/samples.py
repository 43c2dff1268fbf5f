"""A sample object of a CRD: every field that its schema declares, with a value of its type.

Promises:
- The sample has a field's default, or else the first of its allowed values.
- A schema that refers to no type, or preserves unknown fields, gives an empty mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.schema.crd_schema import object_schema

_DEPTH_LIMIT = 12

_SCALARS: Mapping[str, Any] = {"boolean": True, "integer": 1, "number": 1, "string": "sample"}


def sample_object(definition: Mapping[str, Any], version: str) -> dict[str, Any]:
    """A sample parent. It has no status."""
    spec = definition["spec"]
    schema = object_schema(definition, version) or {}
    body = {"apiVersion": f"{spec['group']}/{version}", "kind": spec["names"]["kind"], "metadata": {"name": "sample"}}
    fields = {"spec": {}} | (_sample(schema, 0) if schema.get("properties") else {})
    return {**body, **{name: value for name, value in fields.items() if name not in (*body, "status")}}


def _sample(schema: Mapping[str, Any], depth: int) -> Any:
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type", "object")
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 1), 1)
    if kind in _SCALARS or depth > _DEPTH_LIMIT:
        return _SCALARS.get(kind, {})
    if kind == "array":
        return [_sample(schema.get("items", {}), depth + 1)]
    additional = schema.get("additionalProperties")
    fields = {name: _sample(field, depth + 1) for name, field in (schema.get("properties") or {}).items()}
    return fields | ({"sample": _sample(additional, depth + 1)} if isinstance(additional, Mapping) else {})
