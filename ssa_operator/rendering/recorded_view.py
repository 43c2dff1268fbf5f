"""A cluster view that repeats its answers: the state of the cluster at the moment of a render.

Promises:
- Two renders with one recorded view see the same cluster, even if it changes between them.
- It asks the cluster through `ask`, so that a render in a thread can have another thread answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct, field

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import (
    AccessReview,
    Answer,
    Availability,
    Body,
    ClusterView,
    Lookup,
    Selection,
)
from ssa_operator.objects.identity import GroupKind, Identity

Question: TypeAlias = tuple[Any, ...]
"""The name of a method of ClusterView, and its arguments."""


def answer_now(cluster: ClusterView, question: Question) -> Any:
    """The answer that a cluster view gives now."""
    return getattr(cluster, question[0])(*question[1:])


class RecordedView(Struct, frozen=True):
    """A cluster view, and the answers that it gave. Random numbers are new each time."""

    cluster: ClusterView
    answers: dict[Question, Any] = field(default_factory=dict)
    ask: Callable[[ClusterView, Question], Any] = answer_now

    def _once(self, *question: Any) -> Any:
        if question not in self.answers:
            self.answers[question] = self.ask(self.cluster, question)
        return self.answers[question]

    @property
    def now(self) -> float:
        return self.cluster.now

    def synced(self, identity: Identity, /) -> bool:
        found: bool = self._once("synced", identity)
        return found

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        found: bool | None = self._once("namespaced", kind)
        return found

    def child(self, kind: str, name: str, /) -> Body | None:
        found: Body | None = self._once("child", kind, name)
        return found

    def unreadable(self, asked: Reference | Identity, /) -> AccessReview:
        found: AccessReview = self._once("unreadable", asked)
        return found

    def done(self, kind: str, name: str, /) -> bool:
        found: bool = self._once("done", kind, name)
        return found

    def reports_status(self, kind: GroupKind, /) -> bool:
        found: bool = self._once("reports_status", kind)
        return found

    def lookup(self, identity: Identity, /) -> Body | None:
        found: Body | None = self._once("lookup", identity)
        return found

    def answer(self, query: Lookup | Selection, /) -> Answer:
        found: Answer = self._once("answer", query)
        return found

    @property
    def kubernetes_version(self) -> str:
        return self.cluster.kubernetes_version

    def serves(self, kind: ApiKind, /) -> Availability:
        found: Availability = self._once("serves", kind)
        return found

    def random(self, below: int, /) -> int:
        return self.cluster.random(below)
