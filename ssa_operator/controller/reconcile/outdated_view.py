"""Reads the parent before the first deletion of a reconcile, to delete nothing by old knowledge.

Promises:
- A reconcile that deletes nothing sends no such request, and any other sends one.
- The answer comes from etcd and not from a watch cache of the API server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.turn import Turn
from ssa_operator.core.policies.outdated_view import is_outdated


@dataclass(slots=True)
class ParentCheck:
    """Checks the parent of one reconcile."""

    cluster: ClusterAccess
    turn: Turn
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _answer: str | None = None

    async def why_outdated(self) -> str:
        """Why the operator must not delete by what it knows of the parent, '' where it may. Raises ApiError."""
        async with self._lock:
            if self._answer is None:
                self._answer = await self._ask()
        return self._answer

    async def _ask(self) -> str:
        parent = self.turn.parent
        identity = parent.live.identity
        current = await self.cluster.client.find(parent.resource, identity.name, identity.namespace)
        if current is None:
            return f"{identity} is gone, and its watch is behind"
        if is_outdated(parent.live, current):
            return f"{identity} has changed, and its watch is behind"
        return ""
