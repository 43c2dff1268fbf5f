"""Validates an object by the rules of its CRD (`x-kubernetes-validations`), as the API server does for a new object.

Promises:
- A failed rule gives its message: that of its messageExpression, or its message, or the rule itself, with its reason
  and fieldPath.
- A transition rule (oldSelf) doesn't run for a new object, unless it has `optionalOldSelf`.
- A rule that can't be evaluated offline is named, and refuses nothing.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules.
The cost limits of the API server are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.core.objects.cel.evaluation import evaluate
from ssa_operator.core.objects.cel.syntax import CELSyntaxError, Node, names, parse
from ssa_operator.core.objects.cel.values import (
    NONE,
    EvaluationError,
    NoSuchOverloadError,
    UncheckedError,
    to_cel,
    with_own_fields,
)
from ssa_operator.core.objects.field_errors import NO_FIELD, OMITTED, ErrorType, FieldError, error_field
from ssa_operator.core.objects.field_pruning import Schema
from ssa_operator.core.objects.source_location import FieldPath, parse_field

_MESSAGE_LIMIT = 5 * 1024
_REASONS = {
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueRequired": ErrorType.REQUIRED,
    "FieldValueDuplicate": ErrorType.DUPLICATE,
}


@dataclass(slots=True)
class RuleResult:
    """What the rules find."""

    errors: list[FieldError] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    """The rules that could not be evaluated, with the reasons."""


def has_rules(schema: Schema) -> bool:
    """Whether a schema or a part of it has rules."""
    return any(True for _ in _with_rules(schema))


def _with_rules(schema: Schema) -> Iterator[Schema]:
    if schema.get("x-kubernetes-validations"):
        yield schema
    for part in (*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, Mapping):
            yield from _with_rules(part)


def validate_rules(schema: Schema, value: Any) -> RuleResult:
    """The result of all rules for a new object."""
    result = RuleResult()
    if has_rules(schema):
        _validate(schema, schema, value, (), result, root=True)
    return result


def _validate(
    schema: Schema, rules: Schema, value: Any, path: FieldPath, result: RuleResult, *, root: bool = False
) -> None:
    """Evaluates the rules of `rules`, which is the schema or a part of its allOf, for a value of the schema."""
    if value is None:
        return
    for rule in rules.get("x-kubernetes-validations") or ():
        own = with_own_fields(schema) if root or schema.get("x-kubernetes-embedded-resource") else schema
        _evaluate(rule, own, value, path, result)
    for part in rules.get("allOf") or ():
        _validate(schema, part, value, path, result, root=root)
    if isinstance(value, (list, tuple)):
        items, item_rules = schema.get("items"), rules.get("items")
        if isinstance(items, Mapping) and isinstance(item_rules, Mapping):
            for position, item in enumerate(value):
                _validate(items, item_rules, item, (*path, position), result)
    elif isinstance(value, Mapping):
        _of_fields(schema, rules, value, path, result)


def _of_fields(schema: Schema, rules: Schema, value: Mapping[str, Any], path: FieldPath, result: RuleResult) -> None:
    for part, of_key in (("properties", True), ("additionalProperties", False)):
        declared, with_rules = schema.get(part), rules.get(part)
        if not isinstance(declared, Mapping) or not isinstance(with_rules, Mapping):
            continue
        for key, item in value.items():
            own, own_rules = (declared.get(key), with_rules.get(key)) if of_key else (declared, with_rules)
            if isinstance(own, Mapping) and isinstance(own_rules, Mapping):
                _validate(own, own_rules, item, (*path, key), result)


def _evaluate(rule: Mapping[str, Any], schema: Schema, value: Any, path: FieldPath, result: RuleResult) -> None:
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
        result.unchecked.append(f"{error_field(path)}: the rule {text!r} ({error})")
        return
    except NoSuchOverloadError as error:
        words = f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: "
        result.errors.append(_error(path, error_field(path), ErrorType.INVALID, kind, f"{words}{shown}"))
        return
    except EvaluationError as error:
        words = f"{error} evaluating rule: {shown}"
        result.errors.append(_error(path, error_field(path), ErrorType.INVALID, kind, words))
        return
    detail = _message(rule, variables) or str(rule.get("message") or "").strip() or f"failed rule: {text}"
    result.errors.append(_failed(rule, schema, value, path, detail))


def _failed(rule: Mapping[str, Any], schema: Schema, value: Any, path: FieldPath, detail: str) -> FieldError:
    error_type = _REASONS.get(str(rule.get("reason")), ErrorType.INVALID)
    below = str(rule.get("fieldPath") or "").removeprefix(".")
    names_below = tuple(str(part).strip("'") for part in parse_field(below))
    name = error_field(path)
    if below:
        shown = "".join(_step(part) for part in _steps(str(rule["fieldPath"]), schema))
        name = shown.removeprefix(".") if name == NO_FIELD else f"{name}{shown}"
    structured = schema.get("type") in ("object", "array")
    return _error(
        (*path, *names_below),
        name,
        error_type,
        OMITTED if structured else value,
        "" if error_type is ErrorType.DUPLICATE else detail,
    )


def _steps(text: str, schema: Schema) -> Iterator[tuple[str, bool]]:
    """The parts of a fieldPath, and whether each is a declared field (and no key of a map)."""
    node: Any = schema
    for part in parse_field(text.removeprefix(".")):
        name = str(part).strip("'")
        properties = node.get("properties") if isinstance(node, Mapping) else None
        declared = isinstance(properties, Mapping)
        node = properties.get(name) if isinstance(properties, Mapping) else (node or {}).get("additionalProperties")
        yield name, declared


def _step(part: tuple[str, bool]) -> str:
    name, declared = part
    return f".{name}" if declared else f"[{name}]"


def _message(rule: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
    """The text of the rule's messageExpression; '' where it has none, or none that the API server would show."""
    if not rule.get("messageExpression"):
        return ""
    try:
        node: Node = parse(str(rule["messageExpression"]))
        found = evaluate(node, variables)
    except (UncheckedError, EvaluationError, CELSyntaxError, TypeError, ValueError, ArithmeticError):
        return ""
    text = found.strip() if isinstance(found, str) else ""
    return "" if len(text.encode()) > _MESSAGE_LIMIT or "\n" in text else text


def _error(path: FieldPath, name: str, kind: ErrorType, value: Any, detail: str) -> FieldError:
    return FieldError(path=path, field=name, type=kind, value=value, detail=detail)
