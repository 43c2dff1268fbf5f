"""A cluster view that gives each answer again: what the cluster was at the moment of a render.

Promises:
- Two renders with one recorded view see the same cluster, even if it changes between them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from msgspec import Struct, field

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.built_in_kinds import ApiKind
from ssa_operator.core.objects.cluster_view import AccessReview, Answer, Body, ClusterView, Lookup, Selection
from ssa_operator.core.objects.identity import GroupKind, Identity


class RecordedView(Struct, frozen=True):
    """A cluster view, and the answers that it gave. Random numbers are new each time."""

    cluster: ClusterView
    answers: dict[tuple[str, Hashable], Any] = field(default_factory=dict)

    def _once(self, what: str, asked: Hashable, answer: Callable[[], Any]) -> Any:
        key = (what, asked)
        if key not in self.answers:
            self.answers[key] = answer()
        return self.answers[key]

    @property
    def now(self) -> float:
        return self.cluster.now

    def synced(self, identity: Identity, /) -> bool:
        found: bool = self._once("synced", identity, lambda: self.cluster.synced(identity))
        return found

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        found: bool | None = self._once("namespaced", kind, lambda: self.cluster.namespaced(kind))
        return found

    def child(self, kind: str, name: str, /) -> Body | None:
        found: Body | None = self._once("child", (kind, name), lambda: self.cluster.child(kind, name))
        return found

    def unreadable(self, asked: Reference | Identity, /) -> AccessReview:
        found: AccessReview = self._once("unreadable", asked, lambda: self.cluster.unreadable(asked))
        return found

    def done(self, kind: str, name: str, /) -> bool:
        found: bool = self._once("done", (kind, name), lambda: self.cluster.done(kind, name))
        return found

    def reports_status(self, kind: GroupKind, /) -> bool:
        found: bool = self._once("reports_status", kind, lambda: self.cluster.reports_status(kind))
        return found

    def lookup(self, identity: Identity, /) -> Body | None:
        found: Body | None = self._once("lookup", identity, lambda: self.cluster.lookup(identity))
        return found

    def answer(self, query: Lookup | Selection, /) -> Answer:
        found: Answer = self._once("answer", query, lambda: self.cluster.answer(query))
        return found

    @property
    def kubernetes_version(self) -> str:
        return self.cluster.kubernetes_version

    def serves(self, kind: ApiKind, /) -> bool:
        found: bool = self._once("serves", kind, lambda: self.cluster.serves(kind))
        return found

    def random(self, below: int, /) -> int:
        return self.cluster.random(below)
