"""Validates the replicas of an object whose CRD has the scale subresource, as the API server does.

Promises:
- The replicas that `specReplicasPath` names are a number from 0 to 2147483647, even if the schema allows others.

The rules are those of k8s.io/apiextensions-apiserver (pkg/registry/customresource).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.schema.crd_schema import replicas_path
from ssa_operator.schema.field_errors import ErrorType, FieldError, number_text

_LIMIT = 2**31 - 1


def validate_scale(definition: Mapping[str, Any], version: str, body: Mapping[str, Any]) -> list[FieldError]:
    """The errors of the replicas in the spec."""
    for served in definition.get("spec", {}).get("versions", ()):
        if served.get("name") == version and (fields := replicas_path(served)):
            return _of_replicas(fields, body)
    return []


def _of_replicas(fields: tuple[str, ...], body: Mapping[str, Any]) -> list[FieldError]:
    path = f".{'.'.join(fields)}"
    value: Any = body
    for depth, field in enumerate(fields, 1):
        if value is None:
            return []
        if not isinstance(value, Mapping):
            return [_error(fields, path, 0, _wrong(value, fields[:depth], "map[string]interface{}"))]
        if field not in value:
            return []
        value = value[field]
    if not isinstance(value, int) or isinstance(value, bool):
        return [_error(fields, path, 0, _wrong(value, fields, "int64"))]
    if value < 0:
        return [_error(fields, path, value, "should be a non-negative integer")]
    return [_error(fields, path, value, f"should be less than or equal to {_LIMIT}")] if value > _LIMIT else []


def _error(fields: tuple[str, ...], path: str, value: int, detail: str) -> FieldError:
    return FieldError(path=fields, field=path, type=ErrorType.INVALID, value=value, detail=detail)


def _wrong(value: Any, fields: tuple[str, ...], wanted: str) -> str:
    return f".{'.'.join(fields)} accessor error: {_text(value)} is of the type {_type(value)}, expected {wanted}"


def _text(value: Any) -> str:
    """The value as Go's `%v` writes it."""
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(map(_text, value))}]"
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else number_text(value)


_TYPES = ((bool, "bool"), (int, "int64"), (float, "float64"), (str, "string"), (Mapping, "map[string]interface {}"))


def _type(value: Any) -> str:
    """The name of the value's type in Go."""
    if value is None:
        return "<nil>"
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "[]interface {}")
