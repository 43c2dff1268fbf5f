"""The plan of a reconcile, from what was observed and rendered. It reads the cluster and writes nothing.

Promises:
- A reconcile and a preview plan by the same functions.
- An object that may exist without the operator's label is read before a manifest of its name is planned.
- The plan claims what it renders, so that the next parent's plan refuses it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec.structs import replace

from ssa_operator.controller.informers.object_claims import ObjectClaims
from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.observe import Observer
from ssa_operator.controller.reconcile.parents_of_other_shards import (
    with_ancestors_in_other_shards,
    with_parents_of_other_shards,
)
from ssa_operator.controller.reconcile.turn import Turn
from ssa_operator.controller.reconcile_context import Stage, stage
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.render_result import Rendered
from ssa_operator.core.planning.finalization import Finalization, HookContext, make_finalization
from ssa_operator.core.planning.observed import Observed
from ssa_operator.core.planning.plan import Plan, make_plan
from ssa_operator.kube.api.errors import ApiError

log = logging.getLogger("ssa_operator")

_NAMESPACE = GroupKind("", "Namespace")


class Planner:
    """Plans reconciles. `claims` are the objects of all parents of all folders."""

    def __init__(
        self, cluster: ClusterAccess, claims: ObjectClaims, observer: Observer, now: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._claims = claims
        self._observer = observer
        self._now = now

    async def plan(self, turn: Turn, observed: Observed, rendered: Rendered) -> Plan:
        """The plan. If the first one shows that other objects have to be read, it is made again."""
        with stage(Stage.PLAN):
            plan = await self._plan(turn, observed, rendered)
            await turn.steps.rest()
            return plan

    async def _plan(self, turn: Turn, observed: Observed, rendered: Rendered) -> Plan:
        await turn.steps.rest()
        plan = make_plan(observed, rendered)
        unseen = {each: version for each, version in plan.unseen.items() if each not in rendered.generated}
        if unseen:
            more = await self._observer.get_unlabelled(turn.parent, unseen)
            children = replace(
                observed.children,
                unlabelled={**observed.children.unlabelled, **more.objects},
                unreadable={**observed.children.unreadable, **more.unreadable},
            )
            plan = make_plan(replace(observed, children=children), rendered)
        labelled = [step.live for step in plan.steps if step.manifest is not None and step.live is not None]
        known = await with_parents_of_other_shards(plan.observed, labelled, self._cluster.other_shards)
        if plan.creates:
            known = await with_ancestors_in_other_shards(known, self._claims, self._cluster.other_shards)
        if known is not plan.observed:
            plan = make_plan(known, rendered)
        if plan.held and rendered.aged:
            earlier = await self._observer.rendered_at_creation(turn.parent, plan.observed)
            rendered_before = plan.observed.rendered_before | earlier
            plan = make_plan(replace(plan.observed, rendered_before=rendered_before), rendered)
        self._claims.claim(turn.uid, plan)
        self._cluster.children.expect(turn.uid, ())
        return plan

    async def plan_deletion(self, turn: Turn, observed: Observed, rendered: Rendered) -> Finalization:
        """The plan of a parent that is being deleted. While hooks are not done, it is made again where their namespace
        is being deleted.
        """
        context = HookContext(now=self._now(), failures=turn.state.children.hook_failures)
        deletion = make_finalization(observed, rendered, context)
        namespace = turn.parent.live.identity.namespace
        if not deletion.hooks_done and await self._is_terminating(namespace):
            deletion = make_finalization(observed, rendered, replace(context, terminating=namespace))
        self._claims.claim(turn.uid, deletion.plan)
        return deletion

    async def _is_terminating(self, namespace: str) -> bool:
        """Whether a namespace is being deleted, so that nothing can be created in it. False without the permission to
        read it.
        """
        if not namespace:
            return False
        try:
            resource = await self._cluster.children.resource(_NAMESPACE, "v1")
            return (await self._cluster.operator_client.get(resource, namespace)).deleting
        except ApiError as error:
            if not error.forbidden:
                raise
            log.debug("namespace %s can't be read, so whether it is being deleted is unknown: %s", namespace, error)
            return False
