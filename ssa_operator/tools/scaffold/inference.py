"""Infers a structural schema from the values of an example.

Promises:
- The example is valid by the schema.
- Mappings that users fill with keys of their own (labels, resource limits) accept other keys.
- If the example shows too little (null, an empty list), the schema accepts anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ssa_operator.objects.quantity import amount
from ssa_operator.tools.scaffold.fields import PRESERVED, QUANTITY

_OPEN = frozenset({"annotations", "data", "labels", "limits", "matchLabels", "nodeSelector", "requests", "stringData"})
"""Fields whose keys the user chooses."""

_QUANTITIES = frozenset({"cpu", "ephemeral-storage", "memory", "size", "storage"})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BINARY = re.compile(r".*[KMGTPE]i")
_ANYTHING: Mapping[str, Any] = {PRESERVED: True}


def infer(value: Any, name: str = "") -> dict[str, Any]:
    """The schema of a value; `name` is that of its field."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer"}
    if isinstance(value, float):
        return {"type": "number"}
    if isinstance(value, str):
        is_quantity = (name in _QUANTITIES or _BINARY.fullmatch(value)) and amount(value) is not None
        return dict(QUANTITY) if is_quantity else {"type": "string"}
    if isinstance(value, Mapping):
        return _mapping(value, name)
    if isinstance(value, Sequence):
        items = [infer(item, name) for item in value]
        return {"type": "array", "items": _merged(items) if items else dict(_ANYTHING)}
    return {**_ANYTHING, "nullable": True}


def _mapping(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not value:
        return {"type": "object", PRESERVED: True}
    if name in _OPEN or not all(_IDENTIFIER.fullmatch(key) for key in value):
        schemas = [infer(item, key) for key, item in value.items()]
        if name in ("limits", "requests"):
            schemas.append(dict(QUANTITY))
        return {"type": "object", "additionalProperties": _merged(schemas)}
    return {"type": "object", "properties": {key: infer(item, key) for key, item in value.items()}}


def _merged(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A schema for the values of all schemas."""
    first, *rest = schemas
    merged = dict(first)
    for schema in rest:
        merged = _both(merged, schema)
    return merged


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    if one == other:
        return dict(one)
    kinds = {one.get("type"), other.get("type")}
    int_or_string = "x-kubernetes-int-or-string"
    if int_or_string in one or int_or_string in other:
        if all(int_or_string in each or each.get("type") in ("integer", "string") for each in (one, other)):
            same = int_or_string in one and int_or_string in other
            return dict(one) if same else {key: item for key, item in QUANTITY.items() if key != "pattern"}
    elif kinds == {"integer", "number"}:
        return {"type": "number"}
    elif kinds == {"integer", "string"}:
        return {key: item for key, item in QUANTITY.items() if key != "pattern"}
    elif kinds == {"object"} and "properties" in one and "properties" in other:
        fields: dict[str, Any] = dict(one["properties"])
        for key, schema in other["properties"].items():
            fields[key] = _both(fields[key], schema) if key in fields else schema
        return {"type": "object", "properties": fields}
    elif kinds == {"object"}:
        return {"type": "object", PRESERVED: True}
    elif kinds == {"array"}:
        return {"type": "array", "items": _both(one["items"], other["items"])}
    nullable = {"nullable": True} if one.get("nullable") or other.get("nullable") else {}
    return {**_ANYTHING, **nullable}
