"""An index of a cache's objects by namespace and labels.

Promises:
- The first query for some label names builds their index. Later queries for these names scan no objects.
- A cache without label queries has no index to maintain, and no cache has more than INDEXES_LIMIT: each costs work at
  each event. The least recently read index is dropped first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from ssa_operator.objects.live_object import LiveObject

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""


INDEXES_LIMIT = 16
"""Indexes of one kind of objects. A usual operator looks up a kind by one or two sets of label names."""


class _IndexedFields(NamedTuple):
    """The fields of one index: label names, and whether the namespace is one of them."""

    names: tuple[str, ...]
    with_namespace: bool


class LabelIndex:
    """The indexes of one cache: for each set of fields, the objects by the fields' values (the namespace first)."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[_IndexedFields, dict[tuple[str, ...], dict[Key, LiveObject]]] = OrderedDict()
        """The most recently read index is at the end."""
        self.used = False
        """Whether there is an index."""

    def find(
        self, namespace: str, labels: Mapping[str, str], objects: Mapping[Key, LiveObject]
    ) -> Collection[LiveObject]:
        """The objects in a namespace ('' is all) with all of these labels. `objects` is the whole cache."""
        fields = _IndexedFields(tuple(sorted(labels)), bool(namespace))
        if fields not in self._indexes:
            self.used, self._indexes[fields] = True, {}
            for key, live in objects.items():
                self._add(fields, key, live)
            if len(self._indexes) > INDEXES_LIMIT:
                self._indexes.popitem(last=False)
        self._indexes.move_to_end(fields)
        values = tuple(labels[name] for name in fields.names)
        found = self._indexes[fields].get((namespace, *values) if namespace else values, {})
        return tuple(found.values())

    def update(self, key: Key, old: LiveObject | None, new: LiveObject | None) -> None:
        """Update every index after an object was added, changed or deleted."""
        for fields, index in self._indexes.items():
            before = _values(fields, old) if old is not None else None
            if before is not None and key in index.get(before, {}):
                del index[before][key]
                if not index[before]:
                    del index[before]
            if new is not None:
                self._add(fields, key, new)

    def _add(self, fields: _IndexedFields, key: Key, live: LiveObject) -> None:
        values = _values(fields, live)
        if values is not None:
            self._indexes[fields].setdefault(values, {})[key] = live


def _values(fields: _IndexedFields, live: LiveObject) -> tuple[str, ...] | None:
    """An object's values of the fields, None if it lacks one of the labels."""
    labels = live.metadata.labels
    if not all(name in labels for name in fields.names):
        return None
    values = tuple(labels[name] for name in fields.names)
    return (live.identity.namespace, *values) if fields.with_namespace else values
