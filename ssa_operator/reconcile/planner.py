"""The plan of a reconcile, from what was observed and rendered. It reads the cluster and writes nothing.

Promises:
- A reconcile and a preview plan by the same functions.
- An object that may exist without the operator's label is read before a manifest of its name is planned.
- The plan claims what it renders, so that the next parent's plan refuses it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec.structs import replace

from ssa_operator.kube.clock import Clock
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.cluster_access import SharedCluster
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.finalization.deletion_cycles import may_wait_for_parents
from ssa_operator.reconcile.finalization.requests import ending_namespaces, home_is_ending
from ssa_operator.reconcile.finalization.rules import DeletionContext, Finalization, make_finalization
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observe import Observer
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.plan import Plan, make_plan
from ssa_operator.reconcile.shards.requests import (
    with_ancestors_in_other_shards,
    with_parents_of_other_shards,
)
from ssa_operator.reconcile.shards.unlabelled_objects import get_unlabelled

log = logging.getLogger("ssa_operator")


class Planner:
    """Plans reconciles. `claims` are the objects of all parents of all folders."""

    def __init__(self, cluster: SharedCluster, claims: ObjectClaims, observer: Observer, clock: Clock) -> None:
        self._cluster = cluster
        self._claims = claims
        self._renderer = observer.renderer
        self._now = clock.now

    async def plan(self, reconcile: Reconcile, observed: Observed, rendered: Rendered) -> Plan:
        """The plan. If the first one shows that other objects have to be read, it is made again."""
        plan = await self._plan(reconcile, observed, rendered)
        await reconcile.steps.rest()
        return plan

    async def _plan(self, reconcile: Reconcile, observed: Observed, rendered: Rendered) -> Plan:
        await reconcile.steps.rest()
        plan = make_plan(observed, rendered)
        if unseen := plan.unseen:
            more = await get_unlabelled(reconcile.cluster, unseen)
            children = replace(
                observed.children,
                unlabelled={**observed.children.unlabelled, **more.objects},
                unreadable={**observed.children.unreadable, **more.unreadable},
            )
            plan = make_plan(replace(observed, children=children), rendered)
        if plan.observed.records.inventory:
            known = await self._with_ending_namespaces(plan.observed, plan.blocking_namespaces)
            if known.ending_namespaces:
                plan = make_plan(known, rendered)
        known = plan.observed
        if self._cluster.other_shards is not None:
            labelled = [step.live for step in plan.steps if step.manifest is not None and step.live is not None]
            known = await with_parents_of_other_shards(known, labelled, self._cluster.other_shards)
            if any(step.creates or step.why_kept for step in plan.steps):
                known = await with_ancestors_in_other_shards(known, self._claims, self._cluster.other_shards)
        if known is not plan.observed:
            plan = make_plan(known, rendered)
        if plan.hold_message and rendered.changed_by_time:
            earlier = await self._renderer.rendered_at_creation(reconcile, plan.observed)
            rendered_before = plan.observed.rendered_before | earlier
            plan = make_plan(replace(plan.observed, rendered_before=rendered_before), rendered)
        self._claims.claim(reconcile.uid, plan)
        self._cluster.children.expect(reconcile.uid, ())
        return plan

    async def plan_deletion(self, reconcile: Reconcile, observed: Observed, rendered: Rendered) -> Finalization:
        """The plan of a parent that is being deleted. If hooks are not done or objects can't be read, it is made again
        where their namespace ends.
        """
        if self._cluster.other_shards is not None and any(map(observed.why_kept, observed.records.inventory)):
            observed = await with_ancestors_in_other_shards(observed, self._claims, self._cluster.other_shards)
        is_ending = any(map(may_wait_for_parents, observed.children.own)) and await home_is_ending(
            observed, self._cluster
        )
        if is_ending:
            log.info("%s: waits for no CRD or namespace of parents, because its own is being deleted", reconcile.key)
        context = DeletionContext(now=self._now(), home_is_ending=is_ending)
        deletion = await self._renderer.judged(reconcile, lambda: make_finalization(observed, rendered, context))
        known = await self._with_ending_namespaces(observed, deletion.blocking_namespaces)
        if known.ending_namespaces:
            deletion = await self._renderer.judged(reconcile, lambda: make_finalization(known, rendered, context))
        self._claims.claim(reconcile.uid, deletion.plan)
        return deletion

    async def _with_ending_namespaces(self, observed: Observed, namespaces: Iterable[str]) -> Observed:
        ending = await ending_namespaces(namespaces, observed.parent, self._cluster)
        return replace(observed, ending_namespaces=ending) if ending else observed
