"""Does to a new custom resource what the API server does: prunes, defaults and validates it by its CRD.

Promises:
- The result and the verdict are those of a create request.
- Every error is reported at once. Checks that need an API server are named, and refuse nothing.
- The replicas that `specReplicasPath` names are a number from 0 to 2147483647, even if the schema allows others.

Admission webhooks and admission policies need a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.crd_schema import has_status, object_schema, replicas_path
from ssa_operator.schema.defaults import defaulted
from ssa_operator.schema.field_errors import NO_FIELD, ErrorType, FieldError, number_text
from ssa_operator.schema.metadata_validation import validate_embedded, validate_metadata
from ssa_operator.schema.pruning import prune
from ssa_operator.schema.rule_validation import has_rules, validate_rules
from ssa_operator.schema.schema_validation import validate, validate_lists

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


BLOCKING = frozenset(
    {ErrorType.NOT_SUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE}
)
"""Errors after which the API server runs no validation rules (CEL)."""

RULES_NOT_CHECKED = FieldError(
    path=(),
    field=NO_FIELD,
    type=ErrorType.INVALID,
    value=None,
    detail="some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation",
)


class NewObject(Struct, frozen=True, kw_only=True):
    """A custom resource as the API server would store it, or why it would refuse it."""

    body: dict[str, Any]
    """The object without undeclared fields, with defaults."""
    pruned: tuple[FieldPath, ...] = ()
    """The fields that the CRD doesn't declare."""
    errors: tuple[FieldError, ...] = ()
    """Why the API server refuses it."""
    unchecked: tuple[str, ...] = ()
    """The checks that were not made, as the field and the rule."""


def new_object(body: Mapping[str, Any], definition: Mapping[str, Any], version: str) -> NewObject:
    """A custom resource as a create request in this version gives it. A status that the request sets is kept, because
    a command that reads an object of a file wants it; it is validated only where the CRD has no status subresource.
    """
    schema = object_schema(definition, version)
    pruned_body, pruned = prune(_whole_numbers(body), schema)
    result = defaulted(pruned_body, schema)
    if schema is None:
        return NewObject(body=result, pruned=pruned, errors=tuple(validate_metadata(result)))
    validated = {key: item for key, item in result.items() if key != "status" or not has_status(definition, version)}
    found = validate(schema, validated)
    errors = [*validate_metadata(validated), *found.errors, *validate_embedded(schema, validated)]
    errors += [*validate_scale(definition, version, validated), *validate_lists(schema, validated)]
    unchecked = [*found.unchecked]
    if has_rules(schema):
        if any(error.type in BLOCKING for error in errors):
            errors.append(RULES_NOT_CHECKED)
        else:
            rules = validate_rules(schema, validated)
            errors += rules.errors
            unchecked += rules.unchecked
    return NewObject(body=result, pruned=pruned, errors=tuple(errors), unchecked=tuple(unchecked))


def _whole_numbers(value: Any) -> Any:
    """The value with integers for numbers like 1.0, as the API server returns and kubectl sends them."""
    if isinstance(value, Mapping):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value
