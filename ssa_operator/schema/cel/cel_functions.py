"""The functions of CEL that rules of CRDs can call: the standard ones, and those of strings, lists and optional values.

Promises:
- A call with values of other types raises NoSuchOverloadError.
- If the API server's exact answer is not known, the result is unknown, not guessed.

https://kubernetes.io/docs/reference/using-api/cel/#cel-options-language-features-and-libraries
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from ssa_operator.objects.json_schema import is_number
from ssa_operator.schema.cel.libraries import (
    LIBRARY_FUNCTIONS,
    LIBRARY_METHODS,
    LIBRARY_NAMESPACES,
    pattern_of,
    spend_search,
)
from ssa_operator.schema.cel.syntax import Uint
from ssa_operator.schema.cel.values import (
    INT_LIMIT,
    NONE,
    UINT_LIMIT,
    Duration,
    EvaluationError,
    Function,
    NoSuchOverloadError,
    Optional,
    Timestamp,
    TypedList,
    UncheckedError,
    compare,
    distinct,
    equal,
    is_list,
    is_map,
    spend,
    steps_of,
    timestamp,
    type_of,
    typed,
)
from ssa_operator.schema.field_errors import ESCAPES, number_text, quoted
from ssa_operator.schema.string_formats import go_duration

_LIST = (list, TypedList)


def _size(value: Any) -> int:
    if isinstance(value, (str, bytes)) or is_list(value) or is_map(value):
        return len(value)
    raise NoSuchOverloadError


# ---- conversions


def _string(value: Any) -> str:
    match value:
        case bool() | int():
            return number_text(value) if isinstance(value, bool) else str(int(value))
        case float():
            if abs(value) >= 1e21 or (value and abs(value) < 1e-4):
                raise UncheckedError("the text of a large or small number")
            return number_text(value)
        case str():
            return value
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError as error:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from error
        case Timestamp():
            text = value.datetime.strftime("%Y-%m-%dT%H:%M:%S")
            fraction = f"{value.nanoseconds % 10**9:09}".rstrip("0")
            return f"{text}.{fraction}Z" if fraction else f"{text}Z"
        case Duration():
            if value.nanoseconds % 10**9:
                raise UncheckedError("the text of a fraction of a second")
            return f"{value.nanoseconds // 10**9}s"
    text = LIBRARY_METHODS["string"](value)
    assert isinstance(text, str)
    return text


def _int(value: Any) -> int:
    match value:
        case bool():
            raise NoSuchOverloadError
        case int():
            return _within(int(value), INT_LIMIT)
        case float():
            return _within(int(value), INT_LIMIT) if abs(value) < INT_LIMIT else _overflow()
        case str():
            if not re.fullmatch(r"[-+]?\d+", value, re.ASCII):
                raise _unconvertible("int")
            # Python refuses thousands of digits, leading zeros too.
            digits = value.lstrip("+-0") or "0"
            number = int(digits) if len(digits) <= _DIGITS else _overflow()
            return _within(-number if value[0] == "-" else number, INT_LIMIT)
        case Timestamp():
            return value.nanoseconds // 10**9
        case Duration():
            return value.nanoseconds
    raise NoSuchOverloadError


# No integer of CEL has more; Python converts no text of thousands.
_DIGITS = 20


def _unconvertible(kind: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{kind}'")


def _within(value: int, limit: int) -> int:
    return value if -limit <= value < limit else _overflow()


def _overflow() -> int:
    raise EvaluationError("integer overflow")


def _uint(value: Any) -> Uint:
    if isinstance(value, str):
        if not re.fullmatch(r"\d+", value, re.ASCII):
            raise _unconvertible("uint")
        digits = value.lstrip("0") or "0"
        value = int(digits) if len(digits) <= _DIGITS else UINT_LIMIT
    if not is_number(value):
        raise NoSuchOverloadError
    if not 0 <= value < UINT_LIMIT:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _double(value: Any) -> float:
    if isinstance(value, str):
        if not re.fullmatch(r"[-+]?(\d+(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?|[-+]?(?i:inf|infinity|nan)", value, re.ASCII):
            raise _unconvertible("double")
        return float(value)
    if not is_number(value):
        raise NoSuchOverloadError
    return float(value)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise NoSuchOverloadError
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise _unconvertible("bool")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise NoSuchOverloadError
    return value.encode() if isinstance(value, str) else value


def _duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if not isinstance(value, str):
        raise NoSuchOverloadError
    found = go_duration(value)
    if found is None:
        raise EvaluationError(f"time: invalid duration {quoted(value)}")
    return Duration(found)


def _timestamp(value: Any) -> Timestamp:
    match value:
        case Timestamp():
            return value
        case str():
            return timestamp(value)
        case int() if not isinstance(value, bool):
            return Timestamp(value * 10**9)
    raise NoSuchOverloadError


# ---- strings


@typed(str, str)
def _matches(text: str, pattern: str) -> bool:
    compiled = pattern_of(pattern)
    spend_search(compiled, len(text))
    return compiled.search(text) is not None


@typed(str, int)
def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise EvaluationError(f"index out of range: {position}")
    return text[position : position + 1]


def _index_of(value: Any, item: Any, start: Any = 0) -> int:
    if is_list(value):
        return next((at for at, each in enumerate(value) if equal(each, item)), -1)
    if not isinstance(value, str) or not isinstance(item, str) or not isinstance(start, int):
        raise NoSuchOverloadError
    if not item:
        return start
    if not 0 <= start <= len(value):
        raise EvaluationError(f"index out of range: {start}")
    return value.find(item, start)


_SEARCHED = 256
"""The characters that a search from the end compares in the time of one step."""


def _last_index_of(value: Any, item: Any, end: Any = None) -> int:
    if is_list(value):
        return max((at for at, each in enumerate(value) if equal(each, item)), default=-1)
    if not isinstance(value, str) or not isinstance(item, str):
        raise NoSuchOverloadError
    spend(len(value) * len(item) // _SEARCHED)
    if end is None:
        return value.rfind(item)
    if not item:
        return int(end)
    if not 0 <= end <= len(value):
        raise EvaluationError(f"index out of range: {end}")
    return value.rfind(item, 0, end + len(item))


@typed(str, str, str, int)
def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old) if count < 0 else min(count, text.count(old))
    spend(steps_of(text) + found * (1 + steps_of(new)))
    return text.replace(old, new, count)


@typed(str, str, int)
def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if count < 0 or count >= len(parts) else [*parts[: count - 1], "".join(parts[count - 1 :])]
    return text.split(separator, count - 1 if count > 0 else -1)


@typed(_LIST, str)
def _join(items: Any, separator: str = "") -> str:
    texts = list(items)
    if not all(isinstance(text, str) for text in texts):
        raise NoSuchOverloadError
    spend(sum(map(steps_of, texts)) + len(texts) * (1 + steps_of(separator)))
    return separator.join(texts)


@typed(str, int, int)
def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    if not 0 <= last <= len(text):
        raise EvaluationError(f"index out of range: {last}")
    if start > last:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


@typed(str)
def _lower(text: str) -> str:
    return "".join(each.lower() if each.isascii() else each for each in text)


@typed(str)
def _upper(text: str) -> str:
    return "".join(each.upper() if each.isascii() else each for each in text)


_CLAUSE = re.compile(r"%(?:\.(\d+))?([a-zA-Z%])")


@typed(str, _LIST)
def _format(text: str, arguments: Any) -> str:
    values = list(arguments)
    position = 0

    def clause(found: re.Match[str]) -> str:
        nonlocal position
        precision, verb = found.groups()
        if verb == "%":
            return "%"
        if position >= len(values):
            raise EvaluationError(f"index {position} out of range")
        value = values[position]
        position += 1
        if verb == "d" and isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if verb == "s" and isinstance(value, (str, bool)):
            return _string(value)
        if verb == "s" and isinstance(value, int):
            return str(value)
        if isinstance(value, str):
            spend(steps_of(value))
        if precision:
            spend(int(precision.lstrip("0")[:9] or "0"))
        if verb == "f" and isinstance(value, float):
            return f"{value:.{precision or 6}f}"
        if verb in "xXb" and isinstance(value, int) and not isinstance(value, bool):
            return format(value, verb)
        raise UncheckedError(f"%{verb} of a {type(value).__name__}")

    return _CLAUSE.sub(clause, text)


@typed(str)
def _quote(text: str) -> str:
    return '"' + "".join(ESCAPES.get(each, each) for each in text) + '"'


# ---- lists


@typed(_LIST)
def _is_sorted(items: Any) -> bool:
    values = list(items)
    return all(compare(one, other) <= 0 for one, other in pairwise(values))


@typed(_LIST)
def _sum_of(items: Any) -> Any:
    values = list(items)
    if not values:
        # The zero of the type of the items, which their schema says.
        if isinstance(items, TypedList):
            return 0.0 if (items.schema.get("items") or {}).get("type") == "number" else 0
        return 0
    if all(isinstance(each, Duration) for each in values):
        return Duration(sum(each.nanoseconds for each in values))
    if not all(is_number(each) for each in values):
        raise NoSuchOverloadError
    total = sum(values)
    return total if isinstance(total, float) else _within(total, INT_LIMIT)


def _extreme(name: str, sign: int) -> Function:
    @typed(_LIST)
    def apply(items: Any) -> Any:
        values = list(items)
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        found = values[0]
        for each in values[1:]:
            if sign * compare(each, found) > 0:
                found = each
        return found

    return apply


@typed(_LIST, int, int)
def _slice(items: Any, start: int, end: int) -> list[Any]:
    values = list(items)
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


@typed(_LIST, int)
def _flatten(items: Any, depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    found: list[Any] = []
    for each in items:
        spend()
        if is_list(each) and depth:
            found += _flatten(each, depth - 1) if depth > 1 else list(each)
        else:
            found.append(each)
    return found


@typed(int)
def _range(count: int) -> list[int]:
    if count > 10**6:
        raise UncheckedError("a range of more than a million items")
    spend(max(count, 0))
    return list(range(count))


# ---- optional values


@typed(Optional)
def _value(optional: Optional) -> Any:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


@typed(Optional, Optional)
def _or(optional: Optional, other: Optional) -> Optional:
    return optional if optional.present else other


@typed(Optional, object)
def _or_value(optional: Optional, other: Any) -> Any:
    return optional.value if optional.present else other


def _non_zero(value: Any) -> Optional:
    zero = value is None or value in (False, 0, 0.0, "", b"") or ((is_list(value) or is_map(value)) and len(value) == 0)
    return NONE if zero else Optional(value, True)


@typed(_LIST)
def _unwrap(items: Any) -> list[Any]:
    return [each.value for each in items if each.present]


# ---- times


def _time_part(of_time: Callable[[Timestamp], int], of_duration: Callable[[int], float] | None = None) -> Function:
    """A part of a timestamp, and of the nanoseconds of a duration."""

    def apply(value: Any, *zone: Any) -> int:
        if zone and zone != ("UTC",):
            raise UncheckedError("a time zone")
        if isinstance(value, Timestamp):
            return of_time(value)
        if isinstance(value, Duration) and of_duration is not None:
            return int(of_duration(value.nanoseconds))
        raise NoSuchOverloadError

    return apply


FUNCTIONS: Mapping[str, Function] = {
    "bool": _bool,
    "bytes": _bytes,
    "double": _double,
    "duration": _duration,
    "dyn": lambda value: value,
    "int": _int,
    "size": _size,
    "string": _string,
    "timestamp": _timestamp,
    "type": type_of,
    "uint": _uint,
    **LIBRARY_FUNCTIONS,
}
"""Functions without a receiver."""

NAMESPACES: Mapping[str, Function] = {
    "lists.range": _range,
    "optional.none": lambda: NONE,
    "optional.of": lambda value: Optional(value, True),
    "optional.ofNonZeroValue": _non_zero,
    "optional.unwrap": _unwrap,
    "strings.quote": _quote,
    **LIBRARY_NAMESPACES,
}
"""Functions with a dot in their name."""

METHODS: Mapping[str, Function] = {
    **LIBRARY_METHODS,
    "charAt": _char_at,
    "contains": typed(str, str)(lambda text, part: part in text),
    "distinct": typed(_LIST)(distinct),
    "endsWith": typed(str, str)(lambda text, part: text.endswith(part)),
    "first": typed(_LIST)(lambda items: Optional(next(iter(items)), True) if len(items) else NONE),
    "flatten": _flatten,
    "format": _format,
    "getDate": _time_part(lambda time: time.datetime.day),
    "getDayOfMonth": _time_part(lambda time: time.datetime.day - 1),
    "getDayOfWeek": _time_part(lambda time: time.datetime.isoweekday() % 7),
    "getDayOfYear": _time_part(lambda time: time.datetime.timetuple().tm_yday - 1),
    "getFullYear": _time_part(lambda time: time.datetime.year),
    "getHours": _time_part(lambda time: time.datetime.hour, lambda length: length / (3600 * 10**9)),
    "getMilliseconds": _time_part(lambda time: time.nanoseconds % 10**9 // 10**6, lambda ns: int(ns / 10**6) % 1000),
    "getMinutes": _time_part(lambda time: time.datetime.minute, lambda length: length / (60 * 10**9)),
    "getMonth": _time_part(lambda time: time.datetime.month - 1),
    "getSeconds": _time_part(lambda time: time.datetime.second, lambda length: length / 10**9),
    "hasValue": typed(Optional)(lambda optional: optional.present),
    "indexOf": _index_of,
    "isSorted": _is_sorted,
    "join": _join,
    "last": typed(_LIST)(lambda items: Optional([*items][-1], True) if len(items) else NONE),
    "lastIndexOf": _last_index_of,
    "lowerAscii": _lower,
    "matches": _matches,
    "max": _extreme("max", 1),
    "min": _extreme("min", -1),
    "or": _or,
    "orValue": _or_value,
    "replace": _replace,
    "reverse": typed(_LIST)(lambda items: [*items][::-1]),
    "size": _size,
    "slice": _slice,
    "sort": typed(_LIST)(lambda items: sorted(items, key=cmp_to_key(compare))),
    "split": _split,
    "startsWith": typed(str, str)(lambda text, part: text.startswith(part)),
    "substring": _substring,
    "sum": _sum_of,
    "trim": typed(str)(lambda text: text.strip(_SPACES)),
    "unwrapOpt": _unwrap,
    "upperAscii": _upper,
    "value": _value,
}
"""Functions with a receiver."""
