"""Carries out the plans of reconciles, and updates what the process remembers of the children.

Promises:
- What became of a child is remembered even if the reconcile fails later: a child that was deleted to be recreated is
  not forgotten.
- An expression of an author that judges an object, and takes long, does not hold up other parents.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ssa_operator.kube.clock import Clock
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile import promises
from ssa_operator.reconcile.act import act
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.finalization.rules import advances_deletion
from ssa_operator.reconcile.guard import ReconcileGuard
from ssa_operator.reconcile.ordering import inputs_changed
from ssa_operator.reconcile.outcome import Outcome
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.pod_failures.requests import diagnose_pods
from ssa_operator.reconcile.pod_failures.workload_event_requests import WorkloadEvents
from ssa_operator.reconcile.renderer import Renderer
from ssa_operator.reconcile.step import Step

Outcomes = tuple[Outcome, ...]


class Executor:
    """Carries out plans."""

    def __init__(self, renderer: Renderer, clock: Clock) -> None:
        self._renderer = renderer
        self._workload_events = WorkloadEvents()
        self._clock = clock

    async def judge(self, reconcile: Reconcile, objects: Iterable[tuple[Step, LiveObject | None]]) -> None:
        """Judge objects that have a rule of readiness of their own, so that what follows needs no time for it. Raises
        Postponed.
        """
        asked = [(step, live) for step, live in objects if live is not None and step.rule is not None]
        if asked:
            now = self._clock.now
            await self._renderer.judged(reconcile, lambda: [step.readiness_of(live, now()) for step, live in asked])

    async def carry_out(self, reconcile: Reconcile, plan: Plan) -> Outcomes:
        """The outcome of each step."""
        cluster = replace(reconcile.cluster, guard=ReconcileGuard(reconcile, plan))
        outcomes = await act(plan, cluster, self._clock.now())
        reconcile.guessed = reconcile.judgements.missing
        reconcile.state = replace(reconcile.state, children=promises.after_act(reconcile.state.children, outcomes))
        return outcomes

    async def diagnose(self, reconcile: Reconcile, outcomes: Outcomes) -> Outcomes:
        """The outcomes with the reasons why pods of the children fail. Raises Postponed."""
        await self.judge(reconcile, ((outcome.step, outcome.live) for outcome in outcomes))
        memories = reconcile.state.children
        outcomes, checks = await diagnose_pods(
            outcomes, memories, reconcile.cluster, self._workload_events, self._clock
        )
        reconcile.state = replace(reconcile.state, children=promises.with_pods(memories, checks))
        return outcomes

    def learn(self, reconcile: Reconcile, plan: Plan, outcomes: Outcomes) -> Outcomes:
        """Update what is remembered of the children. Returns the outcomes without what was logged of earlier ones."""
        memories, now = reconcile.state.children, self._clock.now()
        follows = inputs_changed(plan.rendered, outcomes, now) or (
            reconcile.parent.live.deleting and advances_deletion(outcomes, now)
        )
        learned = promises.after(
            memories, outcomes, plan.observed.parents, now=self._clock.monotonic(), follows=follows
        )
        reconcile.state = replace(reconcile.state, children=learned)
        return promises.news(memories, outcomes)
