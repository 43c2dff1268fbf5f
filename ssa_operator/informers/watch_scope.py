"""Which objects one watch shows: all objects of a kind in the cluster, those in a namespace, or a single one.

Promises:
- A watch is as narrow as the query: a lookup of one object watches that object alone.
- NARROW_WATCHES_LIMIT narrow watches in one namespace, or in the cluster, give way to a wider one. So the number of
  watches stays small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.cluster_view import Lookup, Selection
from ssa_operator.objects.identity import GroupKind, join_api_version, split_api_version
from ssa_operator.objects.live_object import LiveObject

NARROW_WATCHES_LIMIT = 8
"""With this number of watched objects in a namespace, or of watched namespaces, one wider watch replaces them."""


class WatchScope(Struct, frozen=True, kw_only=True):
    """The objects that one watch shows."""

    api_version: str
    kind: str
    namespace: str = ""
    """'' for all namespaces, or for a cluster-scoped kind."""
    name: str = ""
    """'' for all names."""

    @classmethod
    def of(cls, query: Lookup | Selection) -> WatchScope:
        """The scope of a query. Labels don't narrow it: all queries of one namespace share a watch."""
        name = query.name if isinstance(query, Lookup) else ""
        return cls(api_version=query.api_version, kind=query.kind, namespace=query.namespace, name=name)

    @classmethod
    def of_object(cls, live: LiveObject) -> WatchScope:
        """The scope of this object alone."""
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
        """The scopes that contain this one, without itself, the widest last."""
        found = []
        if self.namespace and self.name:
            found.append(replace(self, name=""))
        if self.namespace or self.name:
            found.append(replace(self, namespace="", name=""))
        return tuple(found)

    def contains(self, other: WatchScope) -> bool:
        """Whether a watch of this scope shows everything of the other."""
        return self == other or self in other.wider


def choose_scope(scope: WatchScope, watched: Iterable[WatchScope], possible: AbstractSet[WatchScope]) -> WatchScope:
    """The scope to watch for a wanted one: the widest of the `possible` wider scopes that contains enough of those that
    are `watched` already, otherwise the wanted one.
    """
    chosen = scope
    parts = {wider: set(_parts(wider, watched)) for wider in scope.wider if wider in possible}
    for wider, found in parts.items():
        if len(found) >= NARROW_WATCHES_LIMIT:
            chosen = wider
    return chosen


def _parts(wider: WatchScope, watched: Iterable[WatchScope]) -> Iterator[str]:
    """The namespaces (or the names, where the wider scope is one namespace) of the watched scopes in a wider one."""
    for scope in watched:
        if wider in scope.wider:
            yield scope.name if wider.namespace else scope.namespace or scope.name
