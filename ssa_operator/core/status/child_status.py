"""What is said of each child of a parent: whether it is ready, and if not, why.

Promises:
- A child that waits says why what it waits for isn't there yet.
- What isn't applied counts as what became of its step, whatever the object says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ssa_operator.core.objects.cluster_view import Query
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.messages import bounded
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.step import Action, Step
from ssa_operator.core.readiness.rules import Readiness, ReadinessState, readiness

CAUSE_LIMIT = 256
"""Characters of the reason why another child isn't there yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStatus:
    """One entry of `status.resources`, and whether its readiness counts for the parent.

    awaits: whether it is not applied because it waits for something else. refused: whether applying it failed.
    """

    identity: Identity
    uid: str
    readiness: Readiness
    counts: bool = True
    awaits: bool = False
    refused: bool = False

    def __str__(self) -> str:
        return f"{self.identity}: {self.readiness.message or self.readiness.state}"


def children_of(outcomes: Sequence[Outcome], now: float) -> tuple[ChildStatus, ...]:
    """What is said of the child of each outcome that is there or ought to be; `now` is in seconds since the epoch."""
    return tuple(_child(outcome, now) for outcome in outcomes if outcome.result is not Result.PRUNED)


def _child(outcome: Outcome, now: float) -> ChildStatus:
    step, live = outcome.step, outcome.live
    counts = step.manifest is None or step.manifest.instructions.wait
    if outcome.result is Result.FAILED:
        found = Readiness(ReadinessState.FAILED, outcome.message)
    elif outcome.result is Result.WAITING:
        found = Readiness(
            ReadinessState.TERMINATING if live is not None and live.deleting else ReadinessState.WAITING,
            outcome.message,
        )
    elif step.standing is not None:
        found = step.standing
    elif live is None:
        found = Readiness(ReadinessState.NOT_FOUND, outcome.message)
    else:
        found = readiness(live.body, now, reports_status=step.reports_status)
        if step.action is Action.KEEP and step.manifest is None:
            found, counts = Readiness(found.state, step.reason, found.again_at), False
        elif outcome.cause:
            found = replace(found, message=f"{found.message}; {outcome.cause}")
    awaits = outcome.result is Result.WAITING and bool(step.awaited)
    return ChildStatus(
        identity=step.identity,
        uid=live.uid if live else "",
        readiness=found,
        counts=counts,
        awaits=awaits,
        refused=outcome.result is Result.FAILED,
    )


def explained(children: tuple[ChildStatus, ...], outcomes: Sequence[Outcome]) -> tuple[ChildStatus, ...]:
    """The children, those that wait with the reason why what they wait for isn't there yet."""
    if not any(child.awaits for child in children):
        return children
    by_identity = {child.identity: child for child in children}
    steps = {outcome.step.identity: outcome.step for outcome in reversed(outcomes)}
    return tuple(
        replace(child, readiness=replace(child.readiness, message=_waiting_text(steps[child.identity], by_identity)))
        if child.awaits
        else child
        for child in children
    )


def roots_first(children: Sequence[ChildStatus], outcomes: Sequence[Outcome]) -> Sequence[ChildStatus]:
    """The children, those that only wait for another one that waits after all others."""
    waiting = {child.identity for child in children if child.awaits}
    behind = {
        outcome.step.identity
        for outcome in outcomes
        if outcome.step.identity in waiting and any(edge.target in waiting for edge in outcome.step.after)
    }
    return sorted(children, key=lambda child: child.identity in behind) if behind else children


def _waiting_text(step: Step, children: Mapping[Identity, ChildStatus]) -> str:
    causes: dict[Query, str] = dict(step.missing)
    for edge in step.after:
        if edge.target in children:
            causes[edge.use.query] = _cause(children[edge.target])
    parts = []
    for awaited in step.awaited:
        cause = causes.get(awaited.query, "")
        parts.append(f"{awaited} ({bounded(cause, CAUSE_LIMIT)})" if cause else str(awaited))
    return "waiting for " + " and ".join(parts)


def _cause(child: ChildStatus) -> str:
    """Why a child isn't ready, as who waits for it says it; '' where there is nothing to say."""
    message = child.readiness.message
    match child.readiness.state:
        case ReadinessState.FAILED:
            return message if child.refused else f"it failed: {message}"
        case ReadinessState.WAITING:
            return f"it is {message}" if message.startswith("waiting") else f"it {message}"
        case ReadinessState.TERMINATING:
            return "it is being deleted"
        case ReadinessState.IN_PROGRESS:
            return message
        case ReadinessState.CURRENT | ReadinessState.NOT_FOUND:
            return ""
