"""What a template may ask of the cluster.

Promises:
- A world is one moment: the same question has the same answer for the whole of a render.
- An answer is what the caches hold; nothing is requested.
- What no cache holds yet is told apart from what is known to be absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.identity import GroupKind, Identity, split_api_version

Body: TypeAlias = Mapping[str, Any]
"""An object as the API server returned it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One object, whoever's it is; `namespace` is '' for a cluster-scoped kind."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(split_api_version(self.api_version)[0], self.kind)

    @property
    def identity(self) -> Identity:
        return Identity(*self.group_kind, self.namespace, self.name)

    def __str__(self) -> str:
        return str(self.identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """All objects of a kind in a namespace ('': in all, or the kind has none) that carry these labels."""

    api_version: str
    kind: str
    namespace: str
    labels: tuple[tuple[str, str], ...]

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(split_api_version(self.api_version)[0], self.kind)

    def __str__(self) -> str:
        labels = ",".join(f"{name}={value}" for name, value in self.labels)
        where = f" in {self.namespace}" if self.namespace else ""
        return f"every {self.kind}{where}" + (f" with {labels}" if labels else "")


Query: TypeAlias = Reference | Lookup | Selection
"""What a template can ask for; a Reference is a child of the same parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the cluster has of what is looked up: `objects` in any order, at most one for a Lookup.

    unknown: why they are not known, in words that follow "to be known: ", '' where they are. barred: whether they stay
    unknown until somebody changes something. absent: why there can't be any, '' where there could.
    """

    objects: Sequence[Body] = ()
    unknown: str = ""
    needs_permission: bool = False
    absent: str = ""


class ClusterView(Protocol):
    """The cluster as one parent's templates see it. `now` is in seconds since the epoch.

    The operator's own writes are in it: an object that an apply just made is not absent.
    """

    @property
    def now(self) -> float: ...

    def child(self, kind: str, name: str, /) -> Body | None:
        """The live child of this parent, also one that is being deleted; None where there is none."""

    def done(self, kind: str, name: str, /) -> bool:
        """Whether a child that is not there was made once, and need not be waited for."""

    def synced(self, kind: GroupKind, /) -> bool:
        """Whether all children of a kind are known. Of a kind that the cluster doesn't have it is known: there are
        none.
        """

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        """Whether a kind lives in namespaces, None where the kind is unknown."""

    def reports_status(self, kind: GroupKind, /) -> bool:
        """Whether a controller writes the status of a kind's objects, which are ready only then."""

    def lookup(self, identity: Identity, /) -> Body | None:
        """The live object that a manifest of this render is about, None where there is none. What was deleted to be
        made anew counts as live until then.
        """

    def answer(self, query: Lookup | Selection, /) -> Answer:
        """The live objects that a template looks up, whoever's they are."""

    def random(self, below: int, /) -> int:
        """A number from 0 on that nobody can guess; for generated values."""


@dataclass(frozen=True, slots=True)
class OfflineClusterView:
    """A cluster that holds nothing; a generated value is the same each time. All kinds live in namespaces but for those
    that are said to be `cluster_scoped`.
    """

    now: float = 0.0
    cluster_scoped: AbstractSet[GroupKind] = frozenset()

    def synced(self, _: GroupKind, /) -> bool:
        return True

    def namespaced(self, kind: GroupKind, /) -> bool:
        return kind not in self.cluster_scoped

    def child(self, _kind: str, _name: str, /) -> None:
        return None

    def done(self, _kind: str, _name: str, /) -> bool:
        return False

    def reports_status(self, _: GroupKind, /) -> bool:
        return False

    def lookup(self, _: Identity, /) -> None:
        return None

    def answer(self, _: Lookup | Selection, /) -> Answer:
        return Answer()

    def random(self, _: int, /) -> int:
        return 0


OFFLINE = OfflineClusterView()
