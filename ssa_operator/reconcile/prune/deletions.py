"""What a plan would delete, for all who count that before it happens: diff, plan, previews and rollouts.

Promises:
- What is no longer rendered counts as deleted, although a document waits, an apply fails, or the prune is held.
- An object that its other owners keep doesn't count.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.reconcile.child import Child, Result
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.shared_ownership import released_outcome

_FOR_NOW = (Result.UNCHANGED, Result.WAITING)


def with_deletions(plan: Plan, outcomes: Iterable[Child]) -> tuple[Child, ...]:
    """The outcomes of a dry run, in which an object that is kept only for now is deleted. The reasons stay."""
    lost, uid = {step.identity for step in plan.unrendered}, plan.observed.parent.uid

    def foreseen(outcome: Child) -> Child:
        if outcome.identity not in lost or outcome.location is not None or outcome.result not in _FOR_NOW:
            return outcome
        return released_outcome(outcome, outcome.before, uid) or replace(outcome, result=Result.PRUNED, live=None)

    return tuple(map(foreseen, outcomes)) if lost else tuple(outcomes)


def deletions(plan: Plan, outcomes: Iterable[Child]) -> list[Identity]:
    """The objects that are deleted or recreated by these outcomes of `with_deletions`, or could be: those of a kind
    that can't be read, and those whose deletion is refused now, count, too.
    """
    by_identity = {each.identity: each.result for each in outcomes}
    lost = {step.identity for step in plan.unrendered if by_identity.get(step.identity) is not Result.CONFIGURED}
    return sorted(lost | {each for each, result in by_identity.items() if result is Result.RECREATED})
