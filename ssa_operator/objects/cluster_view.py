"""The cluster as templates see it: the queries that a template can make, and their answers.

Promises:
- A cluster view shows one moment: during a render, the same query has the same answer.
- Answers come from the caches: a query sends no request.
- An answer distinguishes objects that no cache holds yet from objects that don't exist.
- A body is decoded when it is read, and the number of bodies without decoding any.
- The same position of `LiveBodies` gives the same body each time, until `forget`.
- Two renders with one recorded view see the same cluster, even if it changes between them.
- A recorded view asks the cluster through `ask`, so that a render in a thread can have another thread answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, TypeAlias, overload

from msgspec import Struct, field

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS, KUBERNETES_VERSION, ApiKind
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.label_selectors import Requirement
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.source_location import FieldPath

Body: TypeAlias = Mapping[str, Any]
"""An object as the API server returned it."""


class Lookup(Struct, frozen=True, kw_only=True):
    """The query for one object of any owner; `namespace` is '' for a cluster-scoped kind."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind.of(self.api_version, self.kind)

    @property
    def identity(self) -> Identity:
        return Identity(*self.group_kind, self.namespace, self.name)

    def __str__(self) -> str:
        return str(self.identity)


class Selection(Struct, frozen=True, kw_only=True):
    """The query for all objects of a kind with these labels, which meet all requirements."""

    api_version: str
    kind: str
    namespace: str
    """'' for all namespaces, or for a cluster-scoped kind."""
    labels: tuple[tuple[str, str], ...]
    requirements: tuple[Requirement, ...] = ()
    namespaces: tuple[str, ...] | None = None
    """The only namespaces whose objects it selects."""

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind.of(self.api_version, self.kind)

    @property
    def selector(self) -> str:
        """The label selector, as kubectl writes it."""
        return ",".join([*(f"{name}={value}" for name, value in self.labels), *map(str, self.requirements)])

    def narrows(self, identity: Identity, labels: Mapping[str, Any]) -> bool:
        """Whether it selects an object that has its labels, and is in its namespace."""
        return (self.namespaces is None or identity.namespace in self.namespaces) and all(
            each.fulfilled_by(labels) for each in self.requirements
        )

    def __str__(self) -> str:
        where = f" in {', '.join(self.namespaces or (self.namespace,))}" if self.namespaces or self.namespace else ""
        return f"every {self.kind}{where}" + (f" with {self.selector}" if self.selector else "")


Query: TypeAlias = Reference | Lookup | Selection
"""What a template can query; a Reference is a child of the same parent."""

Question: TypeAlias = Query | ApiKind
"""What a value in a template can follow from: a query, or whether a kind is served."""


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to a query."""

    objects: Sequence[Body] = ()
    """The objects in any order, at most one for a Lookup."""
    unknown: str = ""
    """Why the objects are not known, in words that follow "to be known: "; '' if they are known."""
    needs_permission: bool = False
    """Whether the objects stay unknown until a user grants a permission."""
    absent: str = ""
    """Why no such objects can exist, '' if they can."""


class Unknown(Struct, frozen=True):
    """An answer that the operator can't give now."""

    why: str
    """Why, in words that follow "to be known: "."""


Availability: TypeAlias = bool | Unknown
"""Whether the API server serves a kind in a version."""


class AccessReview(Struct, frozen=True):
    """Whether a parent's templates may read something."""

    why_not: str = ""
    """Why not, '' if they may."""
    needs_permission: bool = False
    """Whether a user has to grant a permission."""


ALLOWED = AccessReview()


class ClusterView(Protocol):
    """The cluster as one parent's templates see it, with the operator's own writes: it shows an object at once after an
    apply created it.
    """

    @property
    def now(self) -> float:
        """Seconds since the epoch."""

    @property
    def parent_schema(self) -> Body | None:
        """The schema of the parent's CRD, in the version of the parent; None if there is none, or it is unknown."""

    def child(self, kind: str, name: str, /) -> Body | None:
        """The live child of this parent, even if it is being deleted; None if it doesn't exist."""

    def unreadable(self, asked: Reference | Identity, /) -> AccessReview:
        """Whether the templates may read a child of this parent, or the live object of a manifest. `child` and `lookup`
        return None for objects that they may not read.
        """

    def done(self, kind: str, name: str, /) -> bool:
        """Whether a child that no longer exists was applied once and succeeded, so that dependants don't wait for
        it.
        """

    def synced(self, identity: Identity, /) -> bool:
        """Whether the state of an object of this parent is known, including whether it exists. The namespace is '' if
        the cluster doesn't have the kind, or if the kind is cluster-scoped.
        """

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        """Whether a kind is namespaced, None if the kind is unknown."""

    def reports_status(self, kind: GroupKind, /) -> bool:
        """Whether a controller writes the status of a kind's objects, so that they are not ready before it does."""

    def lookup(self, identity: Identity, /) -> Body | None:
        """The live object of a manifest of this render, None if it doesn't exist. An object that the operator deleted
        to recreate it counts as live until it is recreated.
        """

    def answer(self, query: Lookup | Selection, /) -> Answer:
        """The live objects, of any owner, that a template looks up."""

    @property
    def kubernetes_version(self) -> str:
        """The version of the API server, as in 1.36."""

    def serves(self, kind: ApiKind, /) -> Availability:
        """Whether the API server serves a kind in a version."""

    def may_lack(self, api_version: str, kind: str, path: FieldPath, /) -> bool:
        """Whether the schema of a kind calls a field optional; false if that is not known."""

    def random(self, below: int, /) -> int:
        """An unpredictable number from 0 to below `below`; for generated values."""


class OfflineClusterView(Struct, frozen=True):
    """A cluster with some objects or none, in which generated values are the same each time."""

    now: float = 0.0
    cluster_scoped: AbstractSet[GroupKind] = frozenset()
    """The kinds that are cluster-scoped; all others are namespaced."""
    objects: Mapping[Identity, Body] = field(default_factory=dict)
    """The objects of the cluster."""
    kubernetes_version: str = KUBERNETES_VERSION
    """The version of the API server."""
    custom_kinds: AbstractSet[ApiKind] = frozenset()
    """The kinds that CRDs define. They are served beside the built-in ones."""
    namespace: str = ""
    """The parent's namespace: an object there, or a cluster-scoped one, is its child where a template asks for one."""
    children: AbstractSet[Identity] | None = None
    """The parent's children, if they are known; then no other object is one."""
    parent_schema: Body | None = None
    """The schema of the parent's CRD."""
    optional: Callable[[str, str, FieldPath], bool] = lambda *_: False
    """Whether the schema of a kind calls a field optional."""

    def synced(self, _: Identity, /) -> bool:
        return True

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        return kind not in self.cluster_scoped

    def child(self, kind: str, name: str, /) -> Body | None:
        for identity in self.objects if self.children is None else self.children:
            may_be_child = self.children is not None or identity.namespace in ("", self.namespace)
            if (identity.kind, identity.name) == (kind, name) and may_be_child and identity in self.objects:
                return self.objects[identity]
        return None

    def unreadable(self, _: Reference | Identity, /) -> AccessReview:
        return ALLOWED

    def done(self, _kind: str, _name: str, /) -> bool:
        return False

    def reports_status(self, _: GroupKind, /) -> bool:
        return False

    def lookup(self, identity: Identity, /) -> Body | None:
        return self.objects.get(identity)

    def answer(self, query: Lookup | Selection, /) -> Answer:
        if isinstance(query, Lookup):
            found = self.objects.get(query.identity)
            return Answer(objects=() if found is None else (found,))
        objects = ((identity, body, body["metadata"].get("labels") or {}) for identity, body in self.objects.items())
        return Answer(objects=[body for identity, body, labels in objects if selects(query, identity, labels)])

    def serves(self, kind: ApiKind, /) -> bool:
        return kind in BUILT_IN_KINDS or kind in self.custom_kinds

    def may_lack(self, api_version: str, kind: str, path: FieldPath, /) -> bool:
        return self.optional(api_version, kind, path)

    def random(self, _: int, /) -> int:
        return 0


def selects(query: Selection, identity: Identity, labels: Mapping[str, Any]) -> bool:
    """Whether an object is one that a query asks for."""
    return (
        identity.group_kind == query.group_kind
        and query.namespace in ("", identity.namespace)
        and all(labels.get(name) == value for name, value in query.labels)
        and query.narrows(identity, labels)
    )


OFFLINE = OfflineClusterView()


class LiveBodies(Sequence[dict[str, Any]]):
    """The bodies of these objects, by namespace and name."""

    __slots__ = ("_bodies", "_lives")

    def __init__(self, lives: Iterable[LiveObject]) -> None:
        self._lives = sorted(lives, key=lambda live: (live.identity.namespace, live.identity.name))
        self._bodies: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self._lives)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self.decoded()[at]

    def decoded(self) -> list[dict[str, Any]]:
        """All bodies."""
        bodies = self._bodies
        if bodies is None:
            bodies = self._bodies = [live.body for live in self._lives]
        return bodies

    def forget(self) -> None:
        """Forget the decoded bodies, which the next access decodes again. Renders that have them keep them."""
        self._bodies = None


ViewCall: TypeAlias = tuple[Any, ...]
"""The name of a method of ClusterView, and its arguments."""


def answer_now(cluster: ClusterView, question: ViewCall) -> Any:
    """The answer that a cluster view gives now."""
    return getattr(cluster, question[0])(*question[1:])


def _once(name: str) -> Callable[..., Any]:
    """The method of a recorded view that has each question of this name answered once."""

    def answered(self: RecordedView, *arguments: Any) -> Any:
        question = (name, *arguments)
        if question not in self.answers:
            self.answers[question] = self.ask(self.cluster, question)
        return self.answers[question]

    return answered


class RecordedView(Struct, frozen=True):
    """A cluster view, and the answers that it gave. Random numbers are new each time."""

    cluster: ClusterView
    answers: dict[ViewCall, Any] = field(default_factory=dict)
    ask: Callable[[ClusterView, ViewCall], Any] = answer_now

    child, lookup, answer, unreadable = _once("child"), _once("lookup"), _once("answer"), _once("unreadable")
    synced, namespaced, serves, may_lack = _once("synced"), _once("namespaced"), _once("serves"), _once("may_lack")
    done, reports_status = _once("done"), _once("reports_status")

    @property
    def now(self) -> float:
        return self.cluster.now

    @property
    def parent_schema(self) -> Body | None:
        return self.cluster.parent_schema

    @property
    def kubernetes_version(self) -> str:
        return self.cluster.kubernetes_version

    def random(self, below: int, /) -> int:
        return self.cluster.random(below)
