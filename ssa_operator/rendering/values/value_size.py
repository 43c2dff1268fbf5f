"""The size of a value for an expression that reads it: a list that contains another one twice counts it twice.

Promises:
- The size of a value is known before a step reads it, and computing it takes time that is linear in the existing parts.
- No step compares, hashes or orders values that are larger than the limits.

Python compares, hashes and writes a value in one step, which nothing can stop. The time depends on the size for a
reader, which doubles with each `{% set l = [l, l] %}`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, MappingView, Sequence
from types import GeneratorType
from typing import Any, NamedTuple

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import DEPTH_LIMIT, LimitError
from ssa_operator.rendering.values.tracked_values import TrackedValue, UnknownValue

_ENTRY = 8
_TRACKED = 256
"""The size of a tracked value: Python code compares it."""
_LARGEST = 2**62
_PARTS_BETWEEN_CHECKS = 1024

_SCALARS = frozenset({bool, bytes, float, int, str, type(None)})
_FLAT = frozenset({dict, list, tuple})
_FEW = 256
"""Number of entries in which a search is fast."""

_SEQUENCES = (list, tuple, set, frozenset)
_CONTAINERS = (*_SEQUENCES, Mapping, MappingView)


class Size(NamedTuple):
    """How large a value is."""

    total: int
    """Its characters, and 8 for each entry of a list or a mapping; each part counts as often as it is there."""
    depth: int
    """The levels of lists and mappings in each other."""


def size_of(value: Any) -> Size:
    """The size of a value. Raises TimeLimitError."""
    known = limits.current().sizes
    stack = [value]
    steps = 0
    while stack:
        top = stack[-1]
        if id(top) in known:
            stack.pop()
            continue
        parts = _parts(top)
        pending = [part for part in parts if type(part) not in _SCALARS and id(part) not in known]
        steps += len(parts)
        if steps > _PARTS_BETWEEN_CHECKS:
            steps = 0
            limits.current().check_time()
        if pending:
            stack += pending
            continue
        stack.pop()
        total, depth = _own_size(top), 0
        for part in parts:
            if type(part) in _SCALARS:
                total += _ENTRY + (len(part) if type(part) is str else 0)
                continue
            size: Size = known[id(part)][1]
            total += _ENTRY + size.total
            depth = max(depth, size.depth)
        known[id(top)] = (top, Size(min(total, _LARGEST), depth + isinstance(top, _CONTAINERS)))
    found: Size = known[id(value)][1]
    return found


def _own_size(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    return _TRACKED if isinstance(value, (TrackedValue, UnknownValue)) else 0


def _parts(value: Any) -> Sequence[Any]:
    """The parts of a value."""
    if isinstance(value, _SEQUENCES):
        return value if isinstance(value, (list, tuple)) else [*value]
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, MappingView):
        mapping = getattr(value, "mapping", {})
        return [*mapping.keys(), *mapping.values()]
    if type(value) is TrackedValue:
        return [value.value]
    parts = getattr(type(value), "parts", None)  # template text
    found: Sequence[Any] = parts(value) if callable(parts) else ()
    return found


def length_of(value: Any) -> int:
    """The number of entries of a list, a mapping or a text, 1 for another value. It decodes no live object."""
    if type(value) is TrackedValue:
        value = value.value if value.bodies is None else value.bodies
    if type(value) in _FLAT or isinstance(value, (Mapping, MappingView, str, range, Sequence)):
        return len(value)
    return 1


def compared(name: str, left: Any, right: Any) -> Any:
    """The result of a comparison: eq, ne, lt, lteq, gt, gteq, in or notin. Raises LimitError for too large values."""
    compare, contains = COMPARISONS[name], name in ("in", "notin")
    is_small = not contains or (type(right) in _FLAT and len(right) < _FEW)
    if type(right) in _SCALARS or (type(left) in _SCALARS and is_small):
        return compare(left, right)
    if contains:
        if isinstance(right, GeneratorType):
            right = [*limits.counted(right)]
        check_search(left, right)
    else:
        limits.current().read(_smaller(left, right))
    try:
        return compare(left, right)
    except RecursionError:
        raise too_deep() from None


def check_search(item: Any, container: Any) -> None:
    """Raise LimitError for an item and a container that are too large to look for one in the other."""
    count = length_of(container)
    if type(item) in _SCALARS:
        limits.current().read(count * _ENTRY)
        return
    check_hash(item)
    cost = count * (_ENTRY + size_of(item).total)
    limits.current().read(cost if cost <= limits.STEP_LIMIT else min(cost, size_of(container).total))


def check_hash(value: Any) -> None:
    """Raise LimitError for a value that is too large or too deep to be hashed."""
    if type(value) is TrackedValue:
        value = value.value
    if isinstance(value, (tuple, MappingView)):
        size = size_of(value)
        if size.depth > DEPTH_LIMIT:
            raise too_deep()
        limits.current().read(size.total)


def check_order(keys: Iterable[Any]) -> None:
    """Raise LimitError for keys that are too large to be ordered: each one is compared several times."""
    total = count = 0
    for each in limits.counted(keys):
        key = each[0] if type(each) is list and len(each) == 1 else each  # `sort` orders by a list of fields
        if type(key) is str:
            total += len(key)
        elif type(key) not in _SCALARS:
            size = size_of(key)
            if size.depth > DEPTH_LIMIT:
                raise too_deep()
            total += size.total
        count += 1
    limits.current().read((total + _ENTRY * count) * count.bit_length(), limits.ORDER_LIMIT)


def too_deep() -> LimitError:
    """The error for a value that is nested too deeply."""
    return LimitError(f"the value is nested deeper than {DEPTH_LIMIT} levels")


def _smaller(left: Any, right: Any) -> int:
    """The size of the smaller of two values; a comparison reads no more of the other one."""
    first, second = (left, right) if length_of(left) <= length_of(right) else (right, left)
    smallest = size_of(first).total
    return smallest if smallest <= limits.STEP_LIMIT else min(smallest, size_of(second).total)


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda item, container: item in container,
    "notin": lambda item, container: item not in container,
}
"""The comparisons by Jinja's names."""
