"""Finds the items of a list that are equal to a value, in a time that does not depend on the list's length.

Promises:
- An item is found exactly if `equal` says so: an item is looked up by what equal values share, and compared then.
- Reading a value to look it up counts as work.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from ssa_operator.schema.cel.cost import spend, spend_reading
from ssa_operator.schema.cel.values import (
    EvaluationError,
    Opaque,
    Optional,
    equal,
    is_list,
    is_map,
    is_number,
    map_get,
)
from ssa_operator.schema.field_errors import as_json


class EqualItems:
    """Items, to be added and found."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items: dict[Hashable, list[Any]] = {}
        for item in items:
            self.add(item)

    def add(self, item: Any) -> bool:
        """Add an item unless there is an equal one. Returns whether there was none."""
        known = self._items.setdefault(_shared(item), [])
        if any(equal(item, each) for each in known):
            return False
        known.append(item)
        return True

    def __contains__(self, value: Any) -> bool:
        return any(equal(value, each) for each in self._items.get(_shared(value), ()))


def _shared(value: Any) -> Hashable:
    """A key that all equal values share, and hardly any other value has."""
    spend()
    if is_number(value):
        return ("number", value)
    if is_list(value):
        # Lists of type set or map are equal in any order.
        return ("list", len(value), frozenset(map(_shared, value)))
    if is_map(value):
        return ("map", frozenset((_shared(key), _shared_value(value, key)) for key in value.keys()))  # noqa: SIM118
    if isinstance(value, Opaque):
        return ("opaque", as_json(value.raw))
    if isinstance(value, Optional):
        return ("optional", value.present, _shared(value.value))
    spend_reading(value)
    try:
        hash(value)
    except TypeError:
        return type(value).__name__
    return (type(value), value)


def _shared_value(value: Any, key: Any) -> Hashable:
    try:
        return _shared(map_get(value, key))
    except EvaluationError:
        return None
