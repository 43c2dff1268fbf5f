"""Which possible children each parent needs to know, and what the informers of children watch for that.

Promises:
- Two parents share a watch if they need the same kind in the same version and namespace.
- A scope is unused as soon as no parent needs it any more, because the last one changed or was deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_encoding import NOTHING


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


class _Use(Struct, frozen=True):
    """What one parent needs."""

    scopes: frozenset[ChildScope]
    versions: Mapping[Identity, str]
    """The version of each object of a kind that the parent's manifests have in several versions."""


_NONE = _Use(frozenset(), NOTHING)


class ScopeUses:
    """The scopes that parents need, by the parent's uid."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}
        self._counts: Counter[frozenset[ChildScope]] = Counter()
        self._shared: dict[frozenset[ChildScope], frozenset[ChildScope]] = {}

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
            self._replace(parent_uid, _Use(use.scopes | scopes, use.versions))

    def replace(
        self, parent_uid: str, scopes: frozenset[ChildScope], versions: Mapping[Identity, str]
    ) -> Iterable[ChildScope]:
        """Record that a parent needs these scopes alone. Returns those that no parent needs any more."""
        count = Counter(kind for kind, _ in {(scope.kind, scope.version) for scope in scopes})
        several = {kind for kind, number in count.items() if number > 1}
        kept = {identity: version for identity, version in versions.items() if identity.group_kind in several}
        return self._replace(parent_uid, _Use(scopes, kept or NOTHING))

    def forget(self, parent_uid: str) -> Iterable[ChildScope]:
        """Record that a parent is gone. Returns the scopes that no parent needs any more."""
        return self._replace(parent_uid, _NONE)

    def _replace(self, parent_uid: str, use: _Use) -> list[ChildScope]:
        before = self._uses.get(parent_uid, _NONE)
        if use == before:
            return []
        self._uses.pop(parent_uid, None)
        if use.scopes:
            # Many parents need the same.
            shared = self._shared.setdefault(use.scopes, use.scopes)
            self._uses[parent_uid] = _Use(shared, use.versions)
            self._counts[shared] += 1
        if before.scopes:
            self._counts[before.scopes] -= 1
            if not self._counts[before.scopes]:
                del self._counts[before.scopes], self._shared[before.scopes]
        return [scope for scope in before.scopes - use.scopes if not self.is_used(scope)]
