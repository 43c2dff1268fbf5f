"""Carries out the plans of reconciles, and updates what the process remembers of the children.

Promises:
- An expression of an author that judges an object, and takes long, does not hold up other parents.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile import promises
from ssa_operator.reconcile.act import act
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.finalization.rules import advances_deletion
from ssa_operator.reconcile.ordering import inputs_changed
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.pod_failures.requests import diagnose_pods
from ssa_operator.reconcile.renderer import judged

Outcomes = tuple[Child, ...]


async def judge(reconcile: Reconcile, objects: Iterable[tuple[Child, LiveObject | None]]) -> None:
    """Judge objects that have a rule of readiness of their own, so that what follows needs no time for it. Raises
    Postponed.
    """
    asked = [(step, live) for step, live in objects if live is not None and step.rule is not None]
    if asked:
        now = reconcile.now
        await judged(reconcile, lambda: [step.readiness_of(live, now()) for step, live in asked])


async def carry_out(reconcile: Reconcile, plan: Plan) -> Outcomes:
    """The outcome of each step."""
    reconcile.plan, reconcile.began_leaving = plan, reconcile.parent.live.deleting
    outcomes = await act(plan, reconcile)
    reconcile.guessed = reconcile.judgements.missing
    reconcile.state = replace(reconcile.state, children=promises.after_act(reconcile.state.children, outcomes))
    return outcomes


async def diagnose(reconcile: Reconcile, outcomes: Outcomes) -> Outcomes:
    """The outcomes with the reasons why pods of the children fail. Raises Postponed."""
    await judge(reconcile, ((outcome, outcome.live) for outcome in outcomes))
    memories = reconcile.state.children
    outcomes, checks = await diagnose_pods(outcomes, memories, reconcile)
    reconcile.state = replace(reconcile.state, children=promises.with_pods(memories, checks))
    return outcomes


def learn(reconcile: Reconcile, plan: Plan, outcomes: Outcomes) -> Outcomes:
    """Update what is remembered of the children. Returns the outcomes without what was logged of earlier ones."""
    memories, now = reconcile.state.children, reconcile.now()
    follows = inputs_changed(plan.rendered, outcomes, now) or (
        reconcile.parent.live.deleting and advances_deletion(outcomes, now)
    )
    learned = promises.after(memories, outcomes, plan.observed.parents, now=reconcile.monotonic(), follows=follows)
    reconcile.state = replace(reconcile.state, children=learned)
    return promises.news(memories, outcomes)
