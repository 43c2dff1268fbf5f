"""Reads the parent and what its templates look up before the first deletion of a reconcile, to delete nothing by old
knowledge. Reads the parent before the first creation of an object that Kubernetes doesn't collect with it.

Promises:
- A reconcile that deletes nothing and creates no such object sends no such request. Any other sends one for the parent;
  one that deletes and whose parent is not outdated, one for each lookup of its templates.
- The answers come from etcd and not from a watch cache of the API server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ssa_operator.controller.informers.lookup_index import Dependent
from ssa_operator.controller.queue import Cause
from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.turn import Turn
from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.policies.outdated_view import is_outdated, is_outdated_but_for_records


@dataclass(slots=True)
class ViewCheck:
    """Checks what one reconcile knows of its parent, and of what its templates look up."""

    cluster: ClusterAccess
    turn: Turn
    plan: Plan
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _parent_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _answer: str | None = None
    _parent_answer: str | None = None

    async def why_outdated(self) -> str:
        """Why the operator must not delete by what it knows, '' where it may. Raises ApiError."""
        async with self._lock:
            if self._answer is None:
                self._answer = await self.why_parent_outdated() or await self._why_read()
        return self._answer

    async def why_parent_outdated(self) -> str:
        """As `why_outdated`, of the parent alone."""
        async with self._parent_lock:
            if self._parent_answer is None:
                self._parent_answer = await self._why_parent()
        return self._parent_answer

    async def _why_parent(self) -> str:
        parent = self.turn.parent
        identity = parent.live.identity
        current = await self.cluster.client.find(parent.resource, identity.name, identity.namespace)
        if current is None:
            return f"{identity} is gone, and its watch is behind"
        rendered = self.plan.observed.parent
        if is_outdated_but_for_records(rendered, parent.live) or is_outdated(parent.live, current):
            return f"{identity} has changed, and its watch is behind"
        return ""

    async def _why_read(self) -> str:
        lookups = [query for query in self.plan.rendered.asked if not isinstance(query, Reference)]
        dependent = Dependent(self.turn.uid, Cause.TEMPLATE)
        outdated = await asyncio.gather(*(self.cluster.lookups.is_outdated(query, dependent) for query in lookups))
        found = next((query for query, is_old in zip(lookups, outdated, strict=True) if is_old), None)
        if found is None:
            return ""
        return self.turn.state.redactor.redact(f"{found} has changed, and its watch is behind")
