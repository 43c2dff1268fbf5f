"""Validates an object by the rules of its CRD (`x-kubernetes-validations`), as the API server does for a new object.

Promises:
- A failed rule gives its message: that of its messageExpression, or its message, or the rule itself, with its reason
  and fieldPath.
- A transition rule (oldSelf) doesn't run for a new object, unless it has `optionalOldSelf`.
- A rule that can't be evaluated offline is named, and refuses nothing.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules.
The cost limits of the API server are not checked; the rules of one object have one of their own (`cel.values`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.objects.json_schema import RULES, Schema, fields, part_schema, schema_parts
from ssa_operator.objects.source_location import parse_field
from ssa_operator.schema.cel.evaluation import evaluate
from ssa_operator.schema.cel.syntax import CELSyntaxError, Expression, names, parse
from ssa_operator.schema.cel.values import (
    NONE,
    EvaluationError,
    NoSuchOverloadError,
    UncheckedError,
    limited,
    to_cel,
    with_own_fields,
)
from ssa_operator.schema.field_errors import OMITTED, REASONS, ErrorType, FieldError, Place, walk

_MESSAGE_LIMIT = 5 * 1024


@dataclass(slots=True)
class RuleResult:
    """The result of the rules."""

    errors: list[FieldError] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    """The rules that could not be evaluated, with the reasons."""


def has_rules(schema: Schema) -> bool:
    """Whether a schema or a part of it has rules."""
    return bool(schema.get(RULES)) or any(has_rules(inner) for _, inner in schema_parts(schema))


def validate_rules(schema: Schema, value: Any) -> RuleResult:
    """The result of all rules for a new object."""
    result = RuleResult()
    if has_rules(schema):
        with limited():
            for inner, item, place in walk(schema, value):
                own = with_own_fields(inner) if not place.path or inner.get("x-kubernetes-embedded-resource") else inner
                for rule in (inner.get(RULES) or ()) if item is not None else ():
                    _evaluate(rule, own, item, place, result)
    return result


def _evaluate(rule: Mapping[str, Any], schema: Schema, value: Any, place: Place, result: RuleResult) -> None:
    text = str(rule.get("rule") or "").strip()
    shown = str(rule.get("message") or "").strip() or text
    kind = str(schema.get("type") or "")
    try:
        node = parse(text)
        transition = "oldSelf" in set(names(node))
        if transition and not rule.get("optionalOldSelf"):
            return
        variables = {"self": to_cel(value, schema)} | ({"oldSelf": NONE} if transition else {})
        if evaluate(node, variables) is True:
            return
    except (UncheckedError, CELSyntaxError, TypeError, ValueError, ArithmeticError) as error:
        result.unchecked.append(f"{place}: the rule {text!r} ({error})")
        return
    except NoSuchOverloadError as error:
        words = f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: "
        result.errors.append(place.error(ErrorType.INVALID, kind, f"{words}{shown}"))
        return
    except EvaluationError as error:
        result.errors.append(place.error(ErrorType.INVALID, kind, f"{error} evaluating rule: {shown}"))
        return
    detail = _message(rule, variables) or str(rule.get("message") or "").strip() or f"failed rule: {text}"
    result.errors.append(_failed(rule, schema, value, place, detail))


def _failed(rule: Mapping[str, Any], schema: Schema, value: Any, place: Place, detail: str) -> FieldError:
    error_type = REASONS.get(str(rule.get("reason")), ErrorType.INVALID)
    if rule.get("fieldPath"):
        below = _field_below(str(rule["fieldPath"]), schema)
        # The API server writes a key of a map after a dot here, too.
        place = Place((*place.path, *below.path), f"{place.text}.{below.text}".removeprefix("."))
    shown = OMITTED if schema.get("type") in ("object", "array") else value
    return place.error(error_type, shown, "" if error_type is ErrorType.DUPLICATE else detail)


def _field_below(text: str, schema: Schema) -> Place:
    """The place of a rule's fieldPath."""
    node, place = schema, Place()
    for part in parse_field(text.removeprefix(".")):
        name = str(part).strip("'")
        place = place.field(name) if fields(node) else place.key(name)
        node = part_schema(node, name) or {}
    return place


def _message(rule: Mapping[str, Any], variables: Mapping[str, Any]) -> str | None:
    """The text of the rule's messageExpression; None if it has none, or none that the API server would show."""
    if not rule.get("messageExpression"):
        return None
    try:
        node: Expression = parse(str(rule["messageExpression"]))
        found = evaluate(node, variables)
    except (UncheckedError, EvaluationError, CELSyntaxError, TypeError, ValueError, ArithmeticError):
        return None
    text = found.strip() if isinstance(found, str) else ""
    return None if len(text.encode()) > _MESSAGE_LIMIT or "\n" in text else text
