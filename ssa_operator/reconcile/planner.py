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

from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.finalization.deletion_cycles import may_wait_for_parents
from ssa_operator.reconcile.finalization.requests import ending_namespaces, home_is_ending
from ssa_operator.reconcile.finalization.rules import Finalization, make_finalization
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.plan import Plan, make_plan
from ssa_operator.reconcile.renderer import judged, rendered_at_creation
from ssa_operator.reconcile.shards.other_shards import (
    with_ancestors_in_other_shards,
    with_parents_of_other_shards,
)
from ssa_operator.reconcile.shards.unlabelled_objects import get_unlabelled

log = logging.getLogger("ssa_operator")


async def plan_parent(reconcile: Reconcile, observed: Observed, rendered: Rendered) -> Plan:
    """The plan. If the first one shows that other objects have to be read, it is made again."""
    cluster = reconcile.cluster
    await reconcile.steps.rest()
    plan = make_plan(observed, rendered)
    if unseen := plan.unseen:
        more = await get_unlabelled(reconcile, unseen)
        children = replace(
            observed.children,
            unlabelled={**observed.children.unlabelled, **more.objects},
            unreadable={**observed.children.unreadable, **more.unreadable},
        )
        plan = make_plan(replace(observed, children=children), rendered)
    if plan.observed.records.inventory:
        known = await _with_ending_namespaces(reconcile, plan.observed, plan.blocking_namespaces)
        if known.ending_namespaces:
            plan = make_plan(known, rendered)
    known = plan.observed
    if cluster.other_shards is not None:
        labelled = [step.live for step in plan.steps if step.manifest is not None and step.live is not None]
        known = await with_parents_of_other_shards(known, labelled, cluster.other_shards)
        if any(step.creates or step.why_kept for step in plan.steps):
            known = await with_ancestors_in_other_shards(known, cluster.claims, cluster.other_shards)
    if known is not plan.observed:
        plan = make_plan(known, rendered)
    if plan.hold_message and rendered.changed_by_time:
        earlier = await rendered_at_creation(reconcile, plan.observed)
        rendered_before = plan.observed.rendered_before | earlier
        plan = make_plan(replace(plan.observed, rendered_before=rendered_before), rendered)
    cluster.claims.claim(reconcile.uid, plan)
    cluster.children.expect(reconcile.uid, ())
    await reconcile.steps.rest()
    return plan


async def plan_deletion(reconcile: Reconcile, observed: Observed, rendered: Rendered) -> Finalization:
    """The plan of a parent that is being deleted. If hooks are not done or objects can't be read, it is made again
    where their namespace ends.
    """
    cluster = reconcile.cluster
    if cluster.other_shards is not None and any(map(observed.why_kept, observed.records.inventory)):
        observed = await with_ancestors_in_other_shards(observed, cluster.claims, cluster.other_shards)
    is_ending = any(map(may_wait_for_parents, observed.children.own)) and await home_is_ending(observed, cluster)
    if is_ending:
        log.info("%s: waits for no CRD or namespace of parents, because its own is being deleted", reconcile.key)
    now = reconcile.now()
    deletion = await judged(reconcile, lambda: make_finalization(observed, rendered, now, home_is_ending=is_ending))
    known = await _with_ending_namespaces(reconcile, observed, deletion.blocking_namespaces)
    if known.ending_namespaces:
        deletion = await judged(reconcile, lambda: make_finalization(known, rendered, now, home_is_ending=is_ending))
    cluster.claims.claim(reconcile.uid, deletion.plan)
    return deletion


async def _with_ending_namespaces(reconcile: Reconcile, observed: Observed, namespaces: Iterable[str]) -> Observed:
    ending = await ending_namespaces(namespaces, observed.parent, reconcile.cluster)
    return replace(observed, ending_namespaces=ending) if ending else observed
