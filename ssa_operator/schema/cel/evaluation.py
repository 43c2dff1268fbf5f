"""Evaluates CEL expressions.

Promises:
- `&&`, `||`, `all` and `exists` absorb errors: one operand that decides is enough.
- An expression ends: CEL has no loops but over its values, and no recursion. The result of an expression that takes too
  long is unknown (`cel.values`).
- A function that is not known offline makes the result unknown, never false.

https://github.com/google/cel-spec/blob/master/doc/langdef.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ssa_operator.objects.json_schema import is_number
from ssa_operator.schema.cel.cel_functions import FUNCTIONS, METHODS, NAMESPACES
from ssa_operator.schema.cel.syntax import Expression, Uint
from ssa_operator.schema.cel.values import (
    INT_LIMIT,
    NONE,
    UINT_LIMIT,
    Duration,
    EvaluationError,
    NoSuchOverloadError,
    Optional,
    Timestamp,
    TypedList,
    TypedMap,
    TypeValue,
    UncheckedError,
    compare,
    equal,
    is_list,
    is_map,
    map_get,
    map_has,
    spend,
    spend_reading,
)

Variables = Mapping[str, Any]


def evaluate(node: Expression, variables: Variables) -> Any:
    """The value of an expression. Raises EvaluationError, and UncheckedError if it is unknown offline."""
    spend()
    try:
        return _RULES.get(node.kind, _binary)(node, variables)
    except RecursionError as error:
        raise UncheckedError("an expression that is nested too deeply") from error


def _literal(node: Expression, _variables: Variables) -> Any:
    return node.value


_TYPE_NAMES = frozenset(
    {"bool", "bytes", "double", "duration", "int", "list", "map", "null_type", "optional_type", "string", "timestamp"}
) | {"type", "uint"}
_LONG_TYPE_NAMES = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}


def _name(node: Expression, variables: Variables) -> Any:
    if node.value in variables:
        found = variables[node.value]
        if isinstance(found, EvaluationError):
            raise found
        return found
    if node.value in _TYPE_NAMES:
        return TypeValue(_LONG_TYPE_NAMES.get(node.value, node.value))
    raise UncheckedError(f"the variable {node.value}")


def _select(node: Expression, variables: Variables) -> Any:
    assert node.target is not None
    if (dotted := _dotted(node)) is not None and dotted in _LONG_TYPE_NAMES.values():
        return TypeValue(dotted)
    target = evaluate(node.target, variables)
    if isinstance(target, Optional) or node.optional:
        return _optional_get(target, lambda inner: _key(inner, node.value))
    key = _key(target, node.value)
    if not map_has(target, key):
        raise EvaluationError(f"no such key: {node.value}")
    return map_get(target, key)


def _key(target: Any, name: str) -> str:
    if not is_map(target):
        raise NoSuchOverloadError
    return target.key_of(name) if isinstance(target, TypedMap) else name


def _index(node: Expression, variables: Variables) -> Any:
    assert node.target is not None
    target, key = evaluate(node.target, variables), evaluate(node.parts[0], variables)
    if isinstance(target, Optional) or node.optional:
        return _optional_get(target, lambda _: key)
    return _at(target, key)


def _at(target: Any, key: Any) -> Any:
    if is_map(target):
        return map_get(target, key)
    if not is_list(target) or not is_number(key):
        raise NoSuchOverloadError
    if not float(key).is_integer() or not 0 <= key < len(target):
        raise EvaluationError(f"index out of bounds: {key}")
    return target.get(int(key)) if isinstance(target, TypedList) else target[int(key)]


def _optional_get(target: Any, key_of: Callable[[Any], Any]) -> Optional:
    if isinstance(target, Optional):
        if not target.present:
            return NONE
        target = target.value
    key = key_of(target)
    there = map_has(target, key) if is_map(target) else is_number(key) and 0 <= key < len(target)
    return Optional(_at(target, key), True) if there else NONE


def _not(node: Expression, variables: Variables) -> Any:
    return not _boolean(evaluate(node.parts[0], variables))


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NoSuchOverloadError
    return value


def _negate(node: Expression, variables: Variables) -> Any:
    value = evaluate(node.parts[0], variables)
    if isinstance(value, Duration):
        return Duration(-value.nanoseconds)
    if not is_number(value) or isinstance(value, Uint):
        raise NoSuchOverloadError
    return in_range(-value)


def _conditional(node: Expression, variables: Variables) -> Any:
    condition, yes, no = node.parts
    return evaluate(yes if _boolean(evaluate(condition, variables)) else no, variables)


def _list(node: Expression, variables: Variables) -> Any:
    found = []
    for position, part in enumerate(node.parts):
        value = evaluate(part, variables)
        if position not in node.optional:
            found.append(value)
        elif value.present:
            found.append(value.value)
    return found


def _map(node: Expression, variables: Variables) -> Any:
    found: dict[Any, Any] = {}
    for position, (key_node, value_node) in enumerate(zip(node.parts[::2], node.parts[1::2], strict=True)):
        key, value = evaluate(key_node, variables), evaluate(value_node, variables)
        if key in found:
            raise EvaluationError(f"Failed with repeated key: {key}")
        if position not in node.optional:
            found[key] = value
        elif value.present:
            found[key] = value.value
    return found


# ---- operators


def _and(node: Expression, variables: Variables) -> bool:
    return _decided((_lazily(part, variables) for part in node.parts), by=False)


def _or(node: Expression, variables: Variables) -> bool:
    return _decided((_lazily(part, variables) for part in node.parts), by=True)


def _lazily(node: Expression, variables: Variables) -> Callable[[], Any]:
    return lambda: evaluate(node, variables)


def _decided(operands: Iterator[Callable[[], Any]], *, by: bool) -> bool:
    """`by` if an operand is it, whatever errors the others have. Raises the first of these errors otherwise."""
    fault: EvaluationError | None = None
    for operand in operands:
        try:
            if _boolean(operand()) is by:
                return by
        except EvaluationError as error:
            fault = fault or error
    if fault is not None:
        raise fault
    return not by


def in_range(value: Any) -> Any:
    """The number. Raises EvaluationError if its type has no such number."""
    if isinstance(value, float):
        return value
    low, high = (0, UINT_LIMIT) if isinstance(value, Uint) else (-INT_LIMIT, INT_LIMIT)
    if not low <= value < high:
        raise EvaluationError("unsigned integer overflow" if isinstance(value, Uint) else "integer overflow")
    return value


def _binary(node: Expression, variables: Variables) -> Any:
    left, right = (evaluate(part, variables) for part in node.parts)
    match node.kind:
        case "==":
            return equal(left, right)
        case "!=":
            return not equal(left, right)
        case "in":
            return contained(left, right)
        case "<" | "<=" | ">" | ">=":
            if any(isinstance(each, float) and math.isnan(each) for each in (left, right)):
                return False
            order = compare(left, right)
            return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[node.kind]
        case "+":
            return _sum(left, right)
        case "-" if isinstance(left, (Duration, Timestamp)):
            return _earlier(left, right)
    return _arithmetic(node.kind, left, right)


def contained(item: Any, container: Any) -> bool:
    """Whether a list has an item, or a map a key."""
    if is_map(container):
        return map_has(container, item)
    if not is_list(container):
        raise NoSuchOverloadError
    return any(equal(item, each) for each in container)


def _sum(left: Any, right: Any) -> Any:
    spend_reading(left, right)
    if isinstance(left, (str, bytes)) and type(left) is type(right):
        return left + right  # type: ignore[operator]
    if is_list(left) and is_list(right):
        return _joined(left, right)
    if isinstance(left, Duration) and isinstance(right, Timestamp):
        left, right = right, left
    if isinstance(left, (Duration, Timestamp)) and isinstance(right, Duration):
        return type(left)(left.nanoseconds + right.nanoseconds)
    return _arithmetic("+", left, right)


def _joined(left: Any, right: Any) -> Any:
    """The concatenation; lists of type set and map are merged by their keys."""
    if not isinstance(left, TypedList) or left.list_type == "atomic":
        return [*left, *right]
    if not isinstance(right, TypedList):
        raise UncheckedError(f"the sum of a list of type {left.list_type} and another list")
    merged = {left.key_of(item): item for item in left.raw}
    merged |= {left.key_of(item): item for item in right.raw}
    return TypedList(list(merged.values()), left.schema)


def _earlier(left: Duration | Timestamp, right: Any) -> Any:
    if isinstance(right, Duration):
        return type(left)(left.nanoseconds - right.nanoseconds)
    if isinstance(left, Timestamp) and isinstance(right, Timestamp):
        return Duration(left.nanoseconds - right.nanoseconds)
    raise NoSuchOverloadError


def _arithmetic(operator: str, left: Any, right: Any) -> Any:
    if not is_number(left) or type(left) is not type(right) or (operator == "%" and isinstance(left, float)):
        raise NoSuchOverloadError
    kind = type(left)
    match operator:
        case "+":
            return in_range(kind(left + right))
        case "-":
            if kind is Uint and right > left:
                raise EvaluationError("unsigned integer overflow")
            return in_range(kind(left - right))
        case "*":
            return in_range(kind(left * right))
        case "/" if kind is float:
            return _float_quotient(left, right)
        case "/" | "%":
            if right == 0:
                raise EvaluationError("division by zero" if operator == "/" else "modulus by zero")
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return in_range(kind(quotient if operator == "/" else left - quotient * right))
    raise NoSuchOverloadError


def _float_quotient(left: float, right: float) -> float:
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


# ---- calls and macros


def _dotted(node: Expression | None) -> str | None:
    """`a.b` for names joined by dots; None for anything else."""
    if node is None:
        return None
    if node.kind == "name":
        return str(node.value)
    if node.kind == "select" and not node.optional and (inner := _dotted(node.target)):
        return f"{inner}.{node.value}"
    return None


def _call(node: Expression, variables: Variables) -> Any:
    name, target = node.value, node.target
    if target is None:
        if name == "has":
            return _has(node, variables)
        if name not in FUNCTIONS:
            raise UncheckedError(f"the function {name}")
        return _applied(FUNCTIONS[name], [evaluate(part, variables) for part in node.parts])
    dotted = _dotted(target)
    if dotted and dotted.partition(".")[0] not in variables:
        full = f"{dotted}.{name}"
        if full in NAMESPACES:
            return _applied(NAMESPACES[full], [evaluate(part, variables) for part in node.parts])
        raise UncheckedError(f"the function {full}")
    if (macro := _MACROS.get((name, len(node.parts)))) is not None:
        return macro(node, variables)
    if name not in METHODS:
        raise UncheckedError(f"the function {name}")
    return _applied(METHODS[name], [evaluate(each, variables) for each in (target, *node.parts)])


def _applied(function: Callable[..., Any], arguments: list[Any]) -> Any:
    spend_reading(*arguments)
    found = function(*arguments)
    spend_reading(found)
    return found


def _has(node: Expression, variables: Variables) -> bool:
    if len(node.parts) != 1 or node.parts[0].kind != "select":
        raise UncheckedError("has without a field")
    selected = node.parts[0]
    assert selected.target is not None
    target = evaluate(selected.target, variables)
    if isinstance(target, Optional):
        return target.present and map_has(target.value, _key(target.value, selected.value))
    return map_has(target, _key(target, selected.value))


def _entries(node: Expression, variables: Variables) -> Iterator[Variables]:
    """The variables for each item of the range."""
    assert node.target is not None
    target = evaluate(node.target, variables)
    if node.parts[0].kind != "name":
        raise UncheckedError("a macro without a variable")
    if not is_map(target) and not is_list(target):
        raise NoSuchOverloadError
    spend_reading(target)
    for each in [*target.keys()] if is_map(target) else range(len(target)):
        yield {**variables, node.parts[0].value: each if is_map(target) else _held(target, each)}


def _held(target: Any, key: Any) -> Any:
    """The value of a key, or its error, which the expression that reads the variable raises."""
    try:
        return _at(target, key)
    except EvaluationError as error:
        return error


def _quantifier(by: bool) -> Callable[[Expression, Variables], bool]:
    def apply(node: Expression, variables: Variables) -> bool:
        return _decided((_lazily(node.parts[1], each) for each in _entries(node, variables)), by=by)

    return apply


def _exactly_one(node: Expression, variables: Variables) -> bool:
    return sum(_boolean(evaluate(node.parts[1], each)) for each in _entries(node, variables)) == 1


def _filter(node: Expression, variables: Variables) -> list[Any]:
    entries = _entries(node, variables)
    return [evaluate(node.parts[0], each) for each in entries if _boolean(evaluate(node.parts[1], each))]


def _mapped(node: Expression, variables: Variables) -> list[Any]:
    """The results of the last expression, for each item that fits the one before, if there is one."""
    return [
        evaluate(node.parts[-1], each)
        for each in _entries(node, variables)
        if len(node.parts) == 2 or _boolean(evaluate(node.parts[1], each))
    ]


def _optional_map(*, flat: bool) -> Callable[[Expression, Variables], Any]:
    def apply(node: Expression, variables: Variables) -> Any:
        assert node.target is not None
        target = evaluate(node.target, variables)
        if not isinstance(target, Optional):
            raise NoSuchOverloadError
        if not target.present:
            return NONE
        value = evaluate(node.parts[1], {**variables, node.parts[0].value: target.value})
        return value if flat else Optional(value, True)

    return apply


def _sort_by(node: Expression, variables: Variables) -> list[Any]:
    from_keys = [(evaluate(node.parts[1], each), each[node.parts[0].value]) for each in _entries(node, variables)]
    return [item for _, item in sorted(from_keys, key=_ordered_key)]


def _ordered_key(pair: tuple[Any, Any]) -> Any:
    compare(pair[0], pair[0])
    return pair[0]


_MACROS: Mapping[tuple[str, int], Callable[[Expression, Variables], Any]] = {
    ("all", 2): _quantifier(False),
    ("exists", 2): _quantifier(True),
    ("exists_one", 2): _exactly_one,
    ("existsOne", 2): _exactly_one,
    ("filter", 2): _filter,
    ("map", 2): _mapped,
    ("map", 3): _mapped,
    ("optMap", 2): _optional_map(flat=False),
    ("optFlatMap", 2): _optional_map(flat=True),
    ("sortBy", 2): _sort_by,
}
"""The macros by name and number of arguments. Those with two variables are not known."""

_RULES: Mapping[str, Callable[[Expression, Variables], Any]] = {
    "literal": _literal,
    "name": _name,
    "select": _select,
    "index": _index,
    "not": _not,
    "negate": _negate,
    "conditional": _conditional,
    "list": _list,
    "map": _map,
    "&&": _and,
    "||": _or,
    "call": _call,
}
