"""Objects by namespace and labels, found without looking at the others.

Promises:
- What was asked for once by some label names is found at once from then on, whatever the labels' values are.
- The objects that nobody asks for by labels cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from ssa_operator.core.objects.live_object import LiveObject

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""


class _Shape(NamedTuple):
    """By what objects are grouped: the names of labels, and whether the namespace counts."""

    names: tuple[str, ...]
    in_namespace: bool


class LabelIndex:
    """The groups of one cache's objects, by shape and then by the labels' values (the namespace first)."""

    def __init__(self) -> None:
        self._groups: dict[_Shape, dict[tuple[str, ...], dict[Key, LiveObject]]] = {}

    def find(
        self, namespace: str, labels: Mapping[str, str], objects: Mapping[Key, LiveObject]
    ) -> Collection[LiveObject]:
        """Those of a namespace ('' is all) that have all of these labels; `objects` are all that there are."""
        shape = _Shape(tuple(sorted(labels)), bool(namespace))
        if shape not in self._groups:
            self._groups[shape] = {}
            for key, live in objects.items():
                self._add(shape, key, live)
        values = tuple(labels[name] for name in shape.names)
        found = self._groups[shape].get((namespace, *values) if namespace else values, {})
        return tuple(found.values())

    def move(self, key: Key, old: LiveObject | None, new: LiveObject | None) -> None:
        """An object came, changed or went."""
        for shape, groups in self._groups.items():
            before = _group(shape, old) if old is not None else None
            if before is not None and key in groups.get(before, {}):
                del groups[before][key]
                if not groups[before]:
                    del groups[before]
            if new is not None:
                self._add(shape, key, new)

    def _add(self, shape: _Shape, key: Key, live: LiveObject) -> None:
        group = _group(shape, live)
        if group is not None:
            self._groups[shape].setdefault(group, {})[key] = live


def _group(shape: _Shape, live: LiveObject) -> tuple[str, ...] | None:
    """Where an object belongs, None where it lacks one of the labels."""
    labels = live.metadata.labels
    if not all(name in labels for name in shape.names):
        return None
    values = tuple(labels[name] for name in shape.names)
    return (live.identity.namespace, *values) if shape.in_namespace else values
