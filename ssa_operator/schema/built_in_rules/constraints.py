"""The constraints that the tables of this room are made of: each takes a value and its path, and gives errors.

Promises:
- A constraint says nothing of a value of another type: the schema does.
- A value that is null, and an empty one where Kubernetes doesn't tell it from a missing one, is missing.
- Each error has the path of its field, and the API server's type and words of it.

The words are those of k8s.io/apimachinery (pkg/api/validation, pkg/util/validation).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeAlias, TypeGuard

from ssa_operator.objects.scalars import amount
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.field_errors import ErrorType, FieldError, as_json, error_at

Constraint: TypeAlias = Callable[[Any, FieldPath], Iterator[FieldError]]
Faults: TypeAlias = Callable[[str], list[str]]

MAX_INT32 = 2**31 - 1


def every(*constraints: Constraint) -> Constraint:
    """Several constraints on one value."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for constraint in constraints:
            yield from constraint(value, path)

    return check


def fields(table: Mapping[str, Constraint], *whole: Constraint, structs: Iterable[str] = ()) -> Constraint:
    """A mapping: constraints on its fields, and on the whole of it. Of `structs` the API server checks a missing one as
    if it were empty.
    """

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if not isinstance(value, Mapping):
            return
        for name, inner in value.items():
            constraint = table.get(name)
            if constraint is not None and inner is not None:
                yield from constraint(inner, (*path, name))
        for name in structs:
            if value.get(name) is None:
                yield from table[name]({}, (*path, name))
        for constraint in whole:
            yield from constraint(value, path)

    return check


def items(*constraints: Constraint) -> Constraint:
    """A list of mappings: constraints on each of its items; a null is an empty one."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for position, inner in enumerate(value if isinstance(value, list) else ()):
            for constraint in constraints:
                yield from constraint({} if inner is None else inner, (*path, position))

    return check


def entries(*constraints: Constraint) -> Constraint:
    """A map: constraints on each of its values."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for key, inner in value.items() if isinstance(value, Mapping) else ():
            for constraint in constraints:
                yield from constraint(inner, (*path, key))

    return check


def keys(faults: Faults) -> Constraint:
    """A map: the faults of each of its keys."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for key in value if isinstance(value, Mapping) else ():
            if isinstance(key, str):
                yield from (error_at((*path, key), key, words) for words in faults(key))

    return check


def when(condition: Callable[[Mapping[str, Any]], object], *constraints: Constraint) -> Constraint:
    """Constraints on a mapping that hold where a condition on it does."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if isinstance(value, Mapping) and condition(value):
            for constraint in constraints:
                yield from constraint(value, path)

    return check


def below(path: FieldPath, *constraints: Constraint) -> Constraint:
    """Constraints on the value at a path below this one, if there is one."""

    def check(value: Any, at: FieldPath) -> Iterator[FieldError]:
        inner = value_at(value, path)
        for constraint in constraints if inner is not None else ():
            yield from constraint(inner, (*at, *path))

    return check


def is_missing(value: Any) -> bool:
    """Whether Kubernetes takes a value as none."""
    return value is None or value == "" or value == []


# ---- fields of a mapping


def required(*names: str, detail: str = "") -> Constraint:
    """Fields that must be there, and not be empty."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for name in names if isinstance(value, Mapping) else ():
            if is_missing(value.get(name)):
                yield error_at((*path, name), detail=detail, kind=ErrorType.REQUIRED)

    return check


def required_entries(*names: str) -> Constraint:
    """Maps that must have an entry."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for name in names if isinstance(value, Mapping) else ():
            if not value.get(name):
                yield error_at((*path, name), kind=ErrorType.REQUIRED)

    return check


def set_fields(value: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Those of some fields that a mapping has."""
    return [name for name in names if not is_missing(value.get(name))]


def exactly_one(*names: str, what: str) -> Constraint:
    """One of some fields must be there, and no second one."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if not isinstance(value, Mapping):
            return
        found = set_fields(value, names)
        if not found:
            known = f": {', '.join(names)}" if len(names) <= 8 else ""
            yield error_at(path, detail=f"must specify one {what}{known}", kind=ErrorType.REQUIRED)
        yield from _beside(found, path, what)

    return check


def at_most_one(*names: str, what: str) -> Constraint:
    """No two of some fields may be there."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if isinstance(value, Mapping):
            yield from _beside(set_fields(value, names), path, what)

    return check


def _beside(found: list[str], path: FieldPath, what: str) -> Iterator[FieldError]:
    for name in found[1:]:
        words = f"only one {what} is allowed, and {found[0]} is there"
        yield error_at((*path, name), detail=words, kind=ErrorType.FORBIDDEN)


def forbidden(*names: str, detail: str) -> Constraint:
    """Fields that may not be there."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for name in set_fields(value, names) if isinstance(value, Mapping) else ():
            yield error_at((*path, name), detail=detail, kind=ErrorType.FORBIDDEN)

    return check


# ---- lists


def unique(*names: str) -> Constraint:
    """A list of mappings, no two of which have the same values of some fields; of texts without names."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        seen: set[str] = set()
        for position, item in enumerate(value if isinstance(value, list) else ()):
            if names and not isinstance(item, Mapping):
                continue
            own = [item.get(name) for name in names] if names else item
            if is_missing(own) or (names and all(map(is_missing, own))):
                continue
            key = as_json(own)
            if key in seen:
                at = (*path, position, *names) if len(names) == 1 else (*path, position)
                yield error_at(at, own[0] if len(names) == 1 else own, kind=ErrorType.DUPLICATE)
            seen.add(key)

    return check


def at_most(count: int) -> Constraint:
    """A list of no more items."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if isinstance(value, list) and len(value) > count:
            yield error_at(path, len(value), f"must have at most {count} items", ErrorType.TOO_MANY)

    return check


# ---- texts


def text(*faults: Faults) -> Constraint:
    """A text without faults. An empty one is a missing one."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if isinstance(value, str) and value:
            for rule in faults:
                yield from (error_at(path, value, words) for words in rule(value))

    return check


def matches(accepts: Callable[[str], object], words: str) -> Constraint:
    """A text that a predicate accepts."""
    return text(lambda value: [] if accepts(value) else [words])


def item_texts(*faults: Faults) -> Constraint:
    """A list of texts without faults; an empty one is refused, too."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for position, each in enumerate(value if isinstance(value, list) else ()):
            item = "" if each is None else each
            for rule in faults if isinstance(item, str) else ():
                yield from (error_at((*path, position), item, words) for words in rule(item))

    return check


def choice(*allowed: str) -> Constraint:
    """One of some texts. An empty one is a missing one."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if isinstance(value, str) and value and value not in allowed:
            yield not_supported(path, value, allowed)

    return check


def set_choice(*allowed: str) -> Constraint:
    """One of some texts; an empty one is refused, because the API server tells it from a missing one."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if isinstance(value, str) and value not in allowed:
            yield not_supported(path, value, allowed)

    return check


def set_text(*faults: Faults) -> Constraint:
    """A text without faults, and not an empty one."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for rule in faults if isinstance(value, str) else ():
            yield from (error_at(path, value, words) for words in rule(value))

    return check


def item_choices(*allowed: str) -> Constraint:
    """A list of texts, each one of some."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        for position, item in enumerate(value if isinstance(value, list) else ()):
            if (item is None or isinstance(item, str)) and item not in allowed:
                yield not_supported((*path, position), item or "", allowed)

    return check


def not_supported(path: FieldPath, value: Any, allowed: tuple[str, ...]) -> FieldError:
    """The error of a text that is none of some."""
    words = "supported values: " + ", ".join(json.dumps(each) for each in sorted(allowed) if each)
    return error_at(path, value, words, ErrorType.NOT_SUPPORTED)


def longest(size: int) -> Constraint:
    """A text of no more bytes."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if isinstance(value, str) and len(value.encode()) > size:
            yield error_at(path, detail=f"may not be more than {size} bytes", kind=ErrorType.TOO_LONG)

    return check


# ---- numbers


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def between(low: int, high: int) -> Constraint:
    """A whole number within bounds."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if is_integer(value) and not low <= value <= high:
            yield error_at(path, value, f"must be between {low} and {high}, inclusive")

    return check


def at_least(low: int) -> Constraint:
    """A whole number that isn't smaller."""
    words = f"must be greater than or equal to {low}"

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if is_integer(value) and value < low:
            yield error_at(path, value, words)

    return check


def above_zero(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """A whole number that is greater than 0."""
    if is_integer(value) and value <= 0:
        yield error_at(path, value, "must be greater than 0")


NON_NEGATIVE = at_least(0)
PORT = between(1, 65535)


def equals(number: int) -> Constraint:
    """A whole number that must be this one. 0 is a missing one."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if is_integer(value) and value not in (0, number):
            yield error_at(path, value, f"must be {number}")

    return check


def count_or_percentage(*, most: int | None = None) -> Constraint:
    """A number that isn't negative, or a percentage, of no more than so many per cent."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        if isinstance(value, str):
            digits = value.removesuffix("%")
            if not (value.endswith("%") and digits.isascii() and digits.isdigit()):
                words = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%')"
                yield error_at(path, value, words)
            elif most is not None and (len(digits.lstrip("0")) > 4 or int(digits) > most):
                yield error_at(path, value, f"must not be greater than {most}%")
        else:
            yield from NON_NEGATIVE(value, path)

    return check


def quantity(*, low: int = 0, exclusive: bool = False) -> Constraint:
    """A quantity that isn't smaller than a number, or is greater."""

    def check(value: Any, path: FieldPath) -> Iterator[FieldError]:
        found = quantity_amount(value)
        if found is not None and (found <= low if exclusive else found < low):
            words = f"must be greater than {low}" if exclusive else f"must be greater than or equal to {low}"
            yield error_at(path, value, words)

    return check


def quantity_amount(value: Any) -> Decimal | None:
    """The amount of a quantity, None for another value."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    found = amount(value)
    return None if found is None else Decimal(str(found))
