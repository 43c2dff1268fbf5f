"""Does to a new custom resource what the API server does: prunes, defaults and validates it by its CRD.

Promises:
- The result and the verdict are those of a create request.
- Every error is reported at once. Checks that need an API server are named, and refuse nothing.

Admission webhooks and admission policies need a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.crd_schema import has_status, object_schema
from ssa_operator.schema.defaults import defaulted
from ssa_operator.schema.field_errors import NO_FIELD, ErrorType, FieldError
from ssa_operator.schema.metadata_validation import validate_embedded, validate_metadata
from ssa_operator.schema.pruning import prune
from ssa_operator.schema.rule_validation import has_rules, validate_rules
from ssa_operator.schema.scale_validation import validate_scale
from ssa_operator.schema.schema_validation import validate, validate_lists

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
