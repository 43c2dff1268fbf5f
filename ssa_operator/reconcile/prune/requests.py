"""Before the first deletion of a reconcile, reads the parent again, and the objects that its templates read, so that
nothing is deleted based on stale data. Also reads the parent before it first gets an object that Kubernetes doesn't
collect with it, alone or as one of several owners, or that was deleted recently.

Promises:
- A reconcile that deletes nothing and gets no such object sends no such request. Any other sends one for the parent;
  one that deletes and whose parent is not outdated, one for each `child`, `live` and lookup of its templates, however
  many objects it deletes, and even if such a request fails.
- If this reconcile itself has changed a child, the templates have read an earlier state of it: only the next reconcile
  deletes.
- The answers come from etcd and not from a watch cache of the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

from ssa_operator.informers.lookup_index import Dependent
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Query
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.prune.outdated_view import is_outdated, is_outdated_but_for_records


@dataclass(slots=True)
class _AskedOnce:
    """A question that is sent once. All callers get its answer, or its error."""

    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _asked: bool = False
    _answer: str | ApiError | None = None

    async def answer(self, ask: Callable[[], Awaitable[str | None]]) -> str | None:
        """The answer of the first `ask`. Raises ApiError."""
        async with self._lock:
            if not self._asked:
                try:
                    self._answer = await ask()
                except ApiError as error:
                    self._answer = error
                self._asked = True
        if isinstance(self._answer, ApiError):
            raise self._answer
        return self._answer


class ViewCheck:
    """Checks whether one reconcile's view of its parent, and of the objects that its templates look up, is current."""

    def __init__(self, reconcile: Reconcile, plan: Plan) -> None:
        self.reconcile = reconcile
        self.plan = plan
        # They don't refer back to this object: the cycle would keep the whole reconcile until a garbage collection.
        self._parent = _AskedOnce()
        self._everything = _AskedOnce()

    async def why_outdated(self) -> str | None:
        """Why the operator's view is outdated, so that it must not delete; None if it is current. Raises ApiError."""
        return await self._everything.answer(self._why_parent_or_read)

    async def why_parent_outdated(self) -> str | None:
        """As `why_outdated`, of the parent alone."""
        return await self._parent.answer(self._why_parent)

    async def _why_parent_or_read(self) -> str | None:
        return await self.why_parent_outdated() or await self._why_read()

    async def _why_parent(self) -> str | None:
        parent = self.reconcile.parent
        identity = parent.live.identity
        current = await self.reconcile.cluster.operator_client.find(parent.resource, identity.name, identity.namespace)
        if current is None:
            return f"{identity} is gone, and its watch is behind"
        rendered = self.plan.observed.parent
        if is_outdated_but_for_records(rendered, parent.live) or is_outdated(parent.live, current):
            return f"{identity} has changed, and its watch is behind"
        return None

    async def _why_read(self) -> str | None:
        asked = self.plan.rendered.queries
        outdated = await asyncio.gather(*(self._is_outdated(query) for query in asked))
        found = next((query for query, is_old in zip(asked, outdated, strict=True) if is_old), None)
        if found is None:
            return None
        name = "an object" if self.reconcile.state.secrets.name_objects else str(found)
        return f"{name} has changed since the templates read it"

    async def _is_outdated(self, query: Query) -> bool:
        """Whether the API server's answer differs from the one that the templates read."""
        if not isinstance(query, Reference):
            return await self.reconcile.cluster.lookups.is_outdated(
                query, Dependent(self.reconcile.uid, Cause.TEMPLATE)
            )
        answers = self._read_by_name.get(query, ())
        identities = {live.identity for live in answers} or self._possible_identities(query)
        current = await asyncio.gather(*(self._find(identity) for identity in identities))
        return _versions(answers) != _versions(live for live in current if live is not None)

    def _possible_identities(self, reference: Reference) -> AbstractSet[Identity]:
        """The children that an unanswered `child` or `live` may have meant."""
        children, namespace = self.plan.observed.children, self.reconcile.parent.live.identity.namespace
        return self._planned_by_name.get(reference, frozenset()) | {
            Identity(*kind, namespace if state.namespaced else "", reference.name)
            for kind, state in children.kinds.items()
            if kind.kind == reference.kind and state.within(namespace).synced
        }

    @cached_property
    def _read_by_name(self) -> Mapping[Reference, Sequence[LiveObject]]:
        """The children that templates read. Objects with generated values were read, too, and may be no children."""
        found: dict[Reference, list[LiveObject]] = {}
        for live in self.plan.observed.children.as_rendered.values():
            if live is not None and self._is_child(live):
                found.setdefault(_name(live.identity), []).append(live)
        return found

    @cached_property
    def _planned_by_name(self) -> Mapping[Reference, AbstractSet[Identity]]:
        found: dict[Reference, set[Identity]] = {}
        for step in self.plan.steps:
            found.setdefault(_name(step.identity), set()).add(step.identity)
        return found

    async def _find(self, identity: Identity) -> LiveObject | None:
        """The parent's child of that name as it is now. Raises ApiError."""
        try:
            resource = await self.reconcile.cluster.children.resource(identity.group_kind)
        except UnknownKind:
            return None
        live = await self.reconcile.cluster.client.find(resource, identity.name, identity.namespace)
        return live if live is not None and self._is_child(live) else None

    def _is_child(self, live: LiveObject) -> bool:
        return live.belongs_to(self.reconcile.uid)


def _name(identity: Identity) -> Reference:
    return Reference(identity.kind, identity.name)


def _versions(lives: Iterable[LiveObject]) -> set[tuple[str, str]]:
    return {(live.uid, live.resource_version) for live in lives}
