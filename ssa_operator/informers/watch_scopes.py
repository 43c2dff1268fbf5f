"""Which objects each watch shows: those that parents need of their children, and those that lookups ask for.

Promises:
- Two parents share a watch if they need the same kind in the same version and namespace.
- A scope is unused as soon as no parent needs it any more, because the last one changed or was deleted.
- A watch is as narrow as the query: a lookup of one object watches that object alone.
- NARROW_WATCHES_LIMIT narrow watches in one namespace, or in the cluster, give way to a wider one. So the number of
  watches stays small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.cluster_view import Lookup, Selection
from ssa_operator.objects.identity import GroupKind, Identity, join_api_version, split_api_version
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject


class ChildNeed(NamedTuple):
    """Objects that may be children of a parent."""

    kind: GroupKind
    namespace: str
    """'' for a cluster-scoped kind, or if no namespace is known."""
    version: str | None = None
    """The version of the manifest, without the group; None if any version will do."""


class ChildScope(NamedTuple):
    """The objects of one watch of children."""

    kind: GroupKind
    version: str
    namespace: str
    """'' for all namespaces."""


class ParentUse(Struct, frozen=True):
    """What one parent needs."""

    scopes: frozenset[ChildScope]
    versions: Mapping[Identity, str]
    """The version of each object of a kind that the parent's manifests have in several versions."""


_NONE = ParentUse(frozenset(), NOTHING)


class ScopeUses:
    """The scopes that parents need, by the parent's uid."""

    def __init__(self) -> None:
        self._uses: dict[str, ParentUse] = {}
        self._counts: Counter[frozenset[ChildScope]] = Counter()
        self._shared: dict[frozenset[ChildScope], frozenset[ChildScope]] = {}

    def use(self, parent_uid: str) -> ParentUse:
        """What a parent needs, and in which versions."""
        return self._uses.get(parent_uid, _NONE)

    def scopes(self, parent_uid: str) -> frozenset[ChildScope]:
        """What a parent needs."""
        return self._uses.get(parent_uid, _NONE).scopes

    def version(self, parent_uid: str, identity: Identity) -> str | None:
        """The version in which a parent's manifests have an object, or else others of its kind; None without any."""
        use = self._uses.get(parent_uid, _NONE)
        if identity in use.versions:
            return use.versions[identity]
        kind = identity.group_kind
        return min([scope.version for scope in use.scopes if scope.kind == kind], default=None)

    def versions(self, parent_uid: str, kinds: Iterable[GroupKind]) -> tuple[Mapping[GroupKind, str], object]:
        """The version in which a parent's manifests have each of these kinds, and the objects in other ones."""
        use = self._uses.get(parent_uid, _NONE)
        found = {kind: min((each.version for each in use.scopes if each.kind == kind), default="") for kind in kinds}
        return found, use.versions

    def is_used(self, scope: ChildScope) -> bool:
        """Whether a parent needs the scope."""
        return any(scope in scopes for scopes in self._counts)

    def add(self, parent_uid: str, scopes: frozenset[ChildScope]) -> None:
        """Record that a parent needs these scopes, too."""
        use = self._uses.get(parent_uid, _NONE)
        if not scopes <= use.scopes:
            self._replace(parent_uid, ParentUse(use.scopes | scopes, use.versions))

    def replace(
        self, parent_uid: str, scopes: frozenset[ChildScope], versions: Mapping[Identity, str]
    ) -> Iterable[ChildScope]:
        """Record that a parent needs these scopes alone. Returns those that no parent needs any more."""
        count = Counter(kind for kind, _ in {(scope.kind, scope.version) for scope in scopes})
        several = {kind for kind, number in count.items() if number > 1}
        kept = {identity: version for identity, version in versions.items() if identity.group_kind in several}
        return self._replace(parent_uid, ParentUse(scopes, kept or NOTHING))

    def forget(self, parent_uid: str) -> Iterable[ChildScope]:
        """Record that a parent is gone. Returns the scopes that no parent needs any more."""
        return self._replace(parent_uid, _NONE)

    def _replace(self, parent_uid: str, use: ParentUse) -> list[ChildScope]:
        before = self._uses.get(parent_uid, _NONE)
        if use == before:
            return []
        self._uses.pop(parent_uid, None)
        if use.scopes:
            # Many parents need the same.
            shared = self._shared.setdefault(use.scopes, use.scopes)
            self._uses[parent_uid] = ParentUse(shared, use.versions)
            self._counts[shared] += 1
        if before.scopes:
            self._counts[before.scopes] -= 1
            if not self._counts[before.scopes]:
                del self._counts[before.scopes], self._shared[before.scopes]
        return [scope for scope in before.scopes - use.scopes if not self.is_used(scope)]


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
