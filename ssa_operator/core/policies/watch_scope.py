"""Which objects one watch shows: those of a kind in the whole cluster, in a namespace, or one alone.

Promises:
- An area is as narrow as what is asked for: a lookup of one object asks for that object and no other.
- Many narrow areas give way to a wider one, so that what is asked for may be much without the watches being many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from ssa_operator.core.objects.cluster_view import Lookup, Selection
from ssa_operator.core.objects.identity import GroupKind, join_api_version, split_api_version
from ssa_operator.core.objects.live_object import LiveObject

FEW = 8
"""So many objects of a namespace, or namespaces, are watched each on its own; with more, all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchScope:
    """The objects of a kind in a namespace ('': in all, or the kind has none), of one name ('': of all)."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""

    @classmethod
    def of(cls, query: Lookup | Selection) -> WatchScope:
        """What a question asks for. Labels don't narrow it: all questions about a namespace share one area."""
        name = query.name if isinstance(query, Lookup) else ""
        return cls(api_version=query.api_version, kind=query.kind, namespace=query.namespace, name=name)

    @classmethod
    def around(cls, live: LiveObject) -> WatchScope:
        """A live object alone."""
        identity = live.identity
        version = join_api_version(identity.group, live.version)
        return cls(api_version=version, kind=identity.kind, namespace=identity.namespace, name=identity.name)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(split_api_version(self.api_version)[0], self.kind)

    @property
    def version(self) -> str:
        return split_api_version(self.api_version)[1]

    @property
    def wider(self) -> tuple[WatchScope, ...]:
        """The areas around this one, the widest last."""
        found = []
        if self.namespace and self.name:
            found.append(replace(self, name=""))
        if self.namespace or self.name:
            found.append(replace(self, namespace="", name=""))
        return tuple(found)

    def holds(self, other: WatchScope) -> bool:
        """Whether everything of another area is in this one."""
        return self == other or self in other.wider


def choose_scope(scope: WatchScope, watched: Iterable[WatchScope], possible: AbstractSet[WatchScope]) -> WatchScope:
    """The area to watch for one that is asked for, beside those that are watched already: a wider one of those that are
    possible where FEW are watched in it.
    """
    wanted = scope
    parts = {around: set(_parts(around, watched)) for around in scope.wider if around in possible}
    for around, found in parts.items():
        if len(found) >= FEW:
            wanted = around
    return wanted


def _parts(around: WatchScope, watched: Iterable[WatchScope]) -> Iterator[str]:
    """The namespaces, or the names in one namespace, of which an area has watches in it."""
    for scope in watched:
        if around in scope.wider:
            yield scope.name if around.namespace else scope.namespace or scope.name
