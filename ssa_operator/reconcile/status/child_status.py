"""Reports the readiness of each child of a parent, with the reason where it is not ready.

Promises:
- A waiting child reports what it waits for, and why that isn't ready yet.
- A child whose step failed or waits is not ready, whatever the status of its object is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.cluster_view import Question
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import bounded
from ssa_operator.objects.readiness import Readiness, ReadinessState, readiness
from ssa_operator.objects.secret_fields import ParentSecrets
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.refusals.known_refusals import refusal_notice

CAUSE_LIMIT = 256
"""Characters of the reason why a dependency isn't ready yet."""


STATUS_HIDDEN = "its message is not shown, because its manifest holds a Secret's content"
"""Stands for a message in the status of such an object."""


class ChildStatus(Struct, frozen=True, kw_only=True):
    """One entry of `status.resources`."""

    identity: Identity
    uid: str
    """The uid of the object, '' if there is none."""
    readiness: Readiness
    counts: bool = True
    """Whether the parent is ready only if this child is."""
    waits: bool = False
    """Whether the child is not applied because its dependencies are not satisfied."""
    failed: bool = False
    """Whether the child's step failed. The message is then the whole reason."""

    def __str__(self) -> str:
        return f"{self.identity}: {self.readiness.message or self.readiness.state}"


def kept_text(why: str) -> str:
    """The message about an object that the parent lives in."""
    return f"the parent never deletes it, because {why}"


def child_statuses(outcomes: Sequence[Child], now: float) -> tuple[ChildStatus, ...]:
    """The status of the child of each outcome, without those that are gone; `now` is in seconds since the epoch."""
    return tuple(_child_status(outcome, now) for outcome in outcomes if not outcome.gone)


def _child_status(outcome: Child, now: float) -> ChildStatus:
    live = outcome.live
    counts = outcome.manifest is None or outcome.manifest.instructions.wait
    if outcome.result is Result.FAILED:
        found = Readiness(ReadinessState.FAILED, outcome.message)
    elif outcome.result is Result.WAITING:
        found = Readiness(
            ReadinessState.TERMINATING if live is not None and live.deleting else ReadinessState.WAITING,
            outcome.message,
        )
    elif outcome.once_readiness is not None:
        found = outcome.once_readiness
        if outcome.hides_status and found.message:
            found = replace(found, message=STATUS_HIDDEN)
    elif live is None:
        found = Readiness(ReadinessState.NOT_FOUND, outcome.message)
    else:
        found = outcome.readiness_of(live, now)
        if outcome.hides_status:
            found = _without_quotes(found, outcome.readiness_of(_without_messages(live), now, with_cause=False))
        if outcome.action is Action.KEEP and outcome.manifest is None:
            found, counts = Readiness(found.state, outcome.reason, found.again_at), False
        elif outcome.why_kept:
            found = replace(found, message=f"{found.message or 'is ready'}; {kept_text(outcome.why_kept)}")
        elif outcome.cause:
            found = replace(found, message=f"{found.message}; {outcome.cause}")
        if notice := refusal_notice(outcome.memory.refusal, outcome.manifest, live):
            found = replace(found, message="; ".join(filter(None, (found.message, notice))))
    return ChildStatus(
        identity=outcome.identity,
        uid=live.uid if live else "",
        readiness=found,
        counts=counts,
        waits=outcome.result is Result.WAITING and bool(outcome.awaited),
        failed=outcome.result is Result.FAILED,
    )


def existing_child(live: LiveObject, now: float, secrets: ParentSecrets) -> ChildStatus:
    """The status of a child for which nothing is applied."""
    found = readiness(live.body, now)
    if secrets.of(live.identity):
        found = _without_quotes(found, readiness(_without_messages(live).body, now))
    return ChildStatus(identity=secrets.shown(live.identity), uid=live.uid, readiness=found)


def _without_quotes(found: Readiness, unquoted: Readiness) -> Readiness:
    """The readiness with the message that it has without the messages in the object's status."""
    return replace(found, message=unquoted.message if unquoted.state is found.state else STATUS_HIDDEN)


def _without_messages(live: LiveObject) -> LiveObject:
    """An object that holds a Secret's content, without the messages in its status."""
    return LiveObject.of({**live.body, "status": _unquoted(live.body.get("status"))})


def _unquoted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: STATUS_HIDDEN if key == "message" and item else _unquoted(item) for key, item in value.items()}
    return [_unquoted(item) for item in value] if isinstance(value, list) else value


def with_waiting_causes(children: tuple[ChildStatus, ...], outcomes: Sequence[Child]) -> tuple[ChildStatus, ...]:
    """The children, with the reason why its dependency isn't ready in the message of each one that waits."""
    if not any(child.waits for child in children):
        return children
    by_identity = {child.identity: child for child in children}
    steps = {outcome.identity: outcome for outcome in reversed(outcomes)}
    return tuple(
        replace(child, readiness=replace(child.readiness, message=_waiting_text(steps[child.identity], by_identity)))
        if child.waits
        else child
        for child in children
    )


def roots_first(children: Sequence[ChildStatus], outcomes: Sequence[Child]) -> Sequence[ChildStatus]:
    """The children, with those that wait for another waiting child at the end."""
    waiting = {child.identity for child in children if child.waits}
    dependents = {
        outcome.identity
        for outcome in outcomes
        if outcome.identity in waiting and any(edge.target in waiting for edge in outcome.after)
    }
    return sorted(children, key=lambda child: child.identity in dependents) if dependents else children


def _waiting_text(step: Child, children: Mapping[Identity, ChildStatus]) -> str:
    causes: dict[Question, str | None] = dict(step.missing)
    for edge in step.after:
        if edge.target in children:
            causes[edge.use.query] = _cause(children[edge.target])
    parts = []
    for awaited in step.awaited:
        cause = causes.get(awaited.query)
        parts.append(f"{awaited} ({bounded(cause, CAUSE_LIMIT)})" if cause else str(awaited))
    return "waiting for " + " and ".join(parts)


def _cause(child: ChildStatus) -> str | None:
    """Why a child isn't ready, in the message of a child that waits for it; None if the reason adds nothing."""
    message = child.readiness.message
    match child.readiness.state:
        case ReadinessState.FAILED:
            return message if child.failed else f"it failed: {message}"
        case ReadinessState.WAITING:
            return f"it is {message}" if message.startswith("waiting") else f"it {message}"
        case ReadinessState.TERMINATING:
            return "it is being deleted"
        case ReadinessState.IN_PROGRESS:
            return message
        case ReadinessState.CURRENT | ReadinessState.NOT_FOUND:
            return None
