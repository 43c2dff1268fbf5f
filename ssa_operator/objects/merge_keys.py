"""Finds the items of lists by their merge keys, as managedFields name them.

Promises:
- A list is read once, however many of its items are searched for.
- An item that lacks a key has its default: it is found if its other keys fit, and no item has all keys.
- A list that is described by more kinds of keys than MERGE_KEYS costs no more than one with MERGE_KEYS kinds.

fieldsV1 selects an item of a list map by `k:{"name":"web"}`, one of a set by `v:"a"`, and one of another list by `i:0`:
https://github.com/kubernetes-sigs/structured-merge-diff, fieldpath/serialize.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

MERGE_KEYS = 8
"""The limit of kinds of keys by which the items of one list are found, and of names in one key. Kubernetes' own lists
have one kind, of two names at most; more are forged.
"""

_encode = msgspec.json.Encoder(order="deterministic").encode

_Present: TypeAlias = tuple[str, ...]
"""The names of a key that an item has."""

_Groups: TypeAlias = "dict[_Present, dict[tuple[Hashable, ...], list[int]]]"
"""The positions of items, by the names of the key that they have and the values of these."""


class ListIndex:
    """The items of one list. The list must not change."""

    __slots__ = ("_groups", "_items", "_steps", "_values")

    def __init__(self, items: Sequence[object]) -> None:
        self._items = items
        self._groups: dict[tuple[str, ...], _Groups] = {}
        self._steps: dict[str, list[int]] = {}
        """The positions of the items with the same keys, by the step as the API server writes it: decoding it costs
        more than encoding the keys of an item.
        """
        self._values: dict[Hashable, list[int]] | None = None

    def positions(self, step: str) -> Sequence[int]:
        """The positions of the items that a step of fieldsV1 selects, in order. None for a step that selects no items,
        or that can't be read.
        """
        if (known := self._steps.get(step)) is not None:
            return known
        kind, _, name = step.partition(":")
        if kind == "i":
            at = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else len(self._items)
            return (at,) if at < len(self._items) else ()
        if kind == "v":
            return self.equal(_decoded(name))
        return self.exact(keys_of(step))

    def selected(self, step: str) -> Sequence[int]:
        """The same without positions; for a key that no item has, the first item that has a part of the key and lacks
        the rest.
        """
        return () if step.startswith("i:") else self.positions(step) or self.partial(keys_of(step))[:1]

    def equal(self, value: object) -> Sequence[int]:
        """The positions of the items that are this value."""
        if self._values is None:
            self._values = {}
            for at, item in enumerate(self._items):
                self._values.setdefault(_hashable(item), []).append(at)
        return self._values.get(_hashable(value), ())

    def exact(self, keys: Mapping[str, Any]) -> Sequence[int]:
        """The positions of the items that have these values under these keys. A key that is null is absent."""
        names, present, values = _names(keys)
        return self._grouped(names).get(present, {}).get(values, ())

    def partial(self, keys: Mapping[str, Any]) -> Sequence[int]:
        """The positions of the items that have some of these keys and lack the others; at most two of those that lack
        the same ones.
        """
        names, whole, values = _names(keys)
        value_of = dict(zip(whole, values, strict=True))
        if len(names) > MERGE_KEYS:
            return ()
        found: list[int] = []
        for present, positions in self._grouped(names).items():
            if present and present != whole and value_of.keys() >= set(present):
                found += positions.get(tuple(value_of[name] for name in present), ())[:2]
        return sorted(found)

    def _grouped(self, names: tuple[str, ...]) -> _Groups:
        if names not in self._groups:
            if len(self._groups) == MERGE_KEYS or not names:
                return {}
            groups: _Groups = {}
            for at, item in enumerate(self._items):
                if isinstance(item, (dict, Mapping)):
                    keys = [*map(item.get, names)]
                    present = tuple(name for name in names if item.get(name) is not None) if None in keys else names
                    values = tuple([_hashable(key) for key in keys if key is not None])
                    groups.setdefault(present, {}).setdefault(values, []).append(at)
            self._groups[names] = groups
            for positions in groups.get(names, {}).values():
                if step := _step(names, self._items[positions[0]]):
                    self._steps[step] = positions
        return self._groups[names]


def _step(names: tuple[str, ...], item: Any) -> str | None:
    """The step that selects an item by these keys, as the API server writes it; None for values that JSON can't
    represent.
    """
    try:
        return "k:" + _encode({name: item[name] for name in names}).decode()
    except (TypeError, ValueError, OverflowError):
        return None


def keys_of(step: str) -> Mapping[str, Any]:
    """The keys in a step of fieldsV1; empty for a step without keys."""
    keys = _decoded(step[2:]) if step.startswith("k:") else None
    return keys if isinstance(keys, dict) else {}


def _decoded(text: str) -> Any:
    """The value in a step of fieldsV1; _UNREADABLE for a text that is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _UNREADABLE


_UNREADABLE = float("nan")
"""Equal to no value."""


def _names(keys: Mapping[str, Any]) -> tuple[tuple[str, ...], _Present, tuple[Hashable, ...]]:
    names = tuple(sorted(keys))
    present = tuple(name for name in names if keys[name] is not None) if None in keys.values() else names
    return names, present, tuple(map(_hashable, map(keys.__getitem__, present)))


def _hashable(value: object) -> Hashable:
    """A value that is equal for equal values."""
    return value if isinstance(value, (str, int, float, bool, type(None))) else _encode(value)


ABSENT = object()
"""What a body has at a field that it lacks, where null is a value."""


def reader(value: object, absent: object = None, *, merged: bool = False) -> Callable[[str], Any]:
    """The function that gives the part of a value that a step of fieldsV1 selects; `absent` if the value lacks it.
    `merged` finds the items that an apply would change, as `ListIndex.selected` does.
    """
    if isinstance(value, (dict, Mapping)):
        return lambda step: value.get(step[2:], absent) if step.startswith("f:") else absent
    if isinstance(value, list):
        index = ListIndex(value)
        positions = index.selected if merged else index.positions
        return lambda step: value[found[0]] if (found := positions(step)) else absent
    return lambda _: absent


class IndexedBody:
    """A part of an object whose list items are found by an index. Each list is indexed once."""

    __slots__ = ("_indexes", "body")

    def __init__(self, body: object) -> None:
        self.body = body
        self._indexes: dict[int, tuple[Sequence[object], ListIndex]] = {}

    def index(self, items: Sequence[object]) -> ListIndex:
        """The index of a list of the body."""
        known = self._indexes.get(id(items))
        if known is None or known[0] is not items:
            known = self._indexes[id(items)] = (items, ListIndex(items))
        return known[1]

    def place(self, path: Sequence[str]) -> tuple[str | int, ...]:
        """A path of managedFields as names and positions in the body, up to the last part that the body has."""
        found: list[Any] = []
        value: Any = self.body
        for step in path:
            if isinstance(value, list):
                positions = self.index(value).selected(step)
                if not positions:
                    break
                found.append(positions[0])
            elif isinstance(value, (dict, Mapping)) and step.startswith("f:") and step[2:] in value:
                found.append(step[2:])
            else:
                break
            value = value[found[-1]]
        return tuple(found)

    def value_at(self, path: Sequence[str]) -> Any:
        """The value of a field that fieldsV1 names by these steps; None if the body lacks it."""
        value: Any = self.body
        for step in path:
            if isinstance(value, list):
                found = self.index(value).positions(step)
                value = value[found[0]] if found else None
            elif isinstance(value, (dict, Mapping)) and step.startswith("f:"):
                value = value.get(step[2:])
            else:
                return None
        return value
