"""What a reconcile asks and stores before it creates or deletes a child.

Promises:
- Nothing is deleted while the view of the parent is old. A parent that is being deleted deletes its children all the
  same.
- Once a parent is being deleted, no child gets an owner reference to it, unless the reconcile began so: it applies
  finalize hooks.
- What only the old object holds is stored before the object is deleted.
"""

from __future__ import annotations

from functools import cached_property

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.kept_values.requests import ValueKeeper
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.prune.requests import ViewCheck
from ssa_operator.reconcile.replicas.rules import OthersReplicas


class ReconcileGuard:
    """The guard of one reconcile."""

    def __init__(self, reconcile: Reconcile, plan: Plan) -> None:
        self._reconcile = reconcile
        self._began_leaving = reconcile.parent.live.deleting
        self._plan = plan
        self._keeper = ValueKeeper(reconcile)

    @cached_property
    def _check(self) -> ViewCheck:
        return ViewCheck(self._reconcile, self._plan)

    async def why_outdated(self) -> str | None:
        return None if self._began_leaving else await self._check.why_outdated()

    async def why_parent_outdated(self) -> str | None:
        return await self._check.why_parent_outdated()

    def parent_leaves(self) -> bool:
        return not self._began_leaving and self._reconcile.parent.leaves

    async def keep_values(self, live: LiveObject, why: str) -> None:
        await self._keeper.keep(live, why)

    async def keep_replicas(self, identity: Identity, replicas: OthersReplicas) -> None:
        await self._keeper.keep_replicas(identity, replicas)
