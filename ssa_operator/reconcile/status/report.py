"""Makes the report of a reconcile: the status, the Events and the time of the next reconcile follow from it.

Promises:
- The verdict and the conditions of a report have the same message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.kube.api.backoff import earliest
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import mapping
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import MESSAGE_LIMIT, bounded, sentence
from ssa_operator.objects.render_result import StatusFields, TemplateWarning
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets
from ssa_operator.reconcile.child import Child, Result
from ssa_operator.reconcile.finalization.rules import Finalization
from ssa_operator.reconcile.finalization.stuck_deletions import removal_advice
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.refusals.known_refusals import refusal_notice
from ssa_operator.reconcile.status.author_status import OPERATOR_TYPES, AuthorStatus, author_status, last_status
from ssa_operator.reconcile.status.child_status import ChildStatus, child_statuses, existing_child, with_waiting_causes
from ssa_operator.reconcile.status.conditions import make_status
from ssa_operator.reconcile.status.verdict import (
    ReadyReason,
    Verdict,
    make_deletion_verdict,
    make_verdict,
    make_verdict_on_children,
)


class Report(Struct, frozen=True, kw_only=True):
    """The result of one reconcile."""

    status: Mapping[str, Any]
    """The parent's whole desired status."""
    verdict: Verdict
    children: tuple[ChildStatus, ...]
    complete: bool
    """Whether everything that was rendered is applied, and nothing that is no longer rendered is kept."""
    outcomes: tuple[Child, ...] = ()

    retryable: bool = False
    """Whether a step failed or waits, and a retry may help without a change of the parent or its templates."""
    denied: bool = False
    """Whether the API server denied a child: a quota, a webhook, a policy or another plugin of admission did."""
    unblocked: bool = False
    """Whether it denied a child of a reconcile that created another one, which admission may have missed."""
    retry_after: float = 0.0
    """The seconds that the API server asked to wait before a retry."""
    again_at: float | None = None
    """When the parent has to be reconciled again without an event, because of a time that the cluster records; in
    seconds since the epoch.
    """
    due: float | None = None
    """The same because of the process's memory, in seconds on its monotonic clock."""

    notice: str | None = None
    """The message of a status conflict, None if no other client writes the status."""
    records_notice: str | None = None
    """The message of records that another client removed, None if none were."""
    feedback_loop: str | None = None
    """The message of the children that change each time they are applied, None if there are none."""
    warnings: tuple[TemplateWarning, ...] = ()
    """The Events that templates emit with `warn`."""
    kept: frozenset[Identity] = frozenset()
    """The children that the parent never deletes because it lives in them."""
    suspended: bool = False
    """Whether the parent is suspended."""
    author_status: AuthorStatus = field(default_factory=AuthorStatus)
    """The author's part of the status."""
    rendered_status: StatusFields = field(default_factory=StatusFields)
    """What the status template rendered."""


def make_report(parent: LiveObject, plan: Plan, outcomes: Sequence[Child], own: StatusFields, now: float) -> Report:
    """The report of one reconcile; `own` are the fields of the author's status template, `now` is in seconds since the
    epoch.
    """
    children = with_waiting_causes(child_statuses(outcomes, now), outcomes)
    problems = tuple(dict.fromkeys((*plan.rendered.problems, *own.problems)))
    verdict = make_verdict(plan, problems, outcomes, children)
    loops = dict.fromkeys(outcome.feedback_loop for outcome in outcomes)
    feedback_loop = sentence([loop for loop in loops if loop]) or None
    # The API server's refusals of manifests that are not at fault. A failed step has its own message.
    refusals = sentence(
        [
            f"{outcome.identity}: {notice}"
            for outcome in outcomes
            if outcome.result is not Result.FAILED
            and (notice := refusal_notice(outcome.memory.refusal, outcome.manifest, outcome.live))
        ]
    )
    for remark in filter(None, (feedback_loop, refusals)):
        verdict = replace(verdict, message=bounded(f"{verdict.message}; {remark}", MESSAGE_LIMIT))
    moments = (plan.rendered.again_at, own.again_at)
    report = _report(parent, verdict, children, own, now, outcomes=outcomes, moments=moments)
    unfinished = any(outcome.result is Result.FAILED or outcome.result is Result.WAITING for outcome in outcomes)
    return replace(
        report,
        complete=plan.rendered.complete and not (unfinished or plan.hold_message or plan.blocked),
        feedback_loop=feedback_loop,
        warnings=tuple(dict.fromkeys((*plan.rendered.warnings, *own.warnings))),
    )


def make_suspended_report(
    parent: LiveObject, outcomes: Sequence[Child], own: StatusFields, now: float, why: str
) -> Report:
    """The report of a suspended parent; `outcomes` are those of `outcomes_while_suspended`, `why` is the message of
    `suspension_message`.
    """
    children = child_statuses(outcomes, now)
    verdict = replace(make_verdict_on_children(children), suspended=why)
    report = _report(parent, verdict, children, own, now, outcomes=outcomes, moments=(own.again_at,))
    return replace(report, suspended=True)


def make_idle_report(
    parent: LiveObject,
    verdict: Verdict,
    children: Sequence[LiveObject],
    own: StatusFields,
    now: float,
    secrets: ParentSecrets = NO_SECRETS,
) -> Report:
    """The report on a parent for which nothing is applied; `children` are those that exist."""
    entries = tuple(existing_child(live, now, secrets) for live in children)
    return _report(parent, verdict, entries, own, now, moments=(own.again_at,))


def make_suspicion_report(parent: LiveObject, why: str, now: float) -> Report:
    """The report on a suspected parent: its last status with another verdict. Nothing is rendered or judged for it."""
    reason, message = ReadyReason.SUSPECTED.value, bounded(why, MESSAGE_LIMIT)
    verdict = Verdict(ready=False, reason=reason, message=message, stalled=True)
    own, before = last_status(parent), mapping(parent.body.get("status"))
    status = {**make_status(parent, verdict, (), own, now), "resources": before.get("resources", [])}
    return Report(status=status, author_status=own, verdict=verdict, children=(), complete=False)


def make_deletion_report(
    parent: LiveObject, finalization: Finalization, outcomes: Sequence[Child], own: StatusFields, now: float
) -> Report:
    """The report on a parent that is being deleted; the arguments are those of `make_report`."""
    verdict = make_deletion_verdict(finalization, outcomes)
    if (verdict.stalled or finalization.needs_person) and (advice := removal_advice(parent)):
        verdict = replace(verdict, message=_with_remark(verdict.message, advice))
    moments = (finalization.plan.rendered.again_at, own.again_at)
    return _report(parent, verdict, child_statuses(outcomes, now), own, now, outcomes=outcomes, moments=moments)


def with_message(report: Report, message: str) -> Report:
    """The report with another message in its verdict and in each condition of the operator."""
    conditions = [
        {**condition, "message": message} if condition["type"] in OPERATOR_TYPES else condition
        for condition in report.status["conditions"]
    ]
    return replace(
        report,
        verdict=replace(report.verdict, message=message),
        status={**report.status, "conditions": conditions},
    )


def with_remark(report: Report, remark: str | None) -> Report:
    """The report with a remark after the message of the verdict, which is shortened where both don't fit."""
    return with_message(report, _with_remark(report.verdict.message, remark)) if remark else report


def _with_remark(message: str, remark: str) -> str:
    return f"{bounded(message, MESSAGE_LIMIT - len(remark) - 2)}; {remark}"


def due_at(report: Report, moment: float | None) -> Report:
    """The report with another moment at which the next reconcile is due, in seconds on the process's monotonic clock;
    None for none.
    """
    return replace(report, due=earliest(report.due, moment))


def _report(
    parent: LiveObject,
    verdict: Verdict,
    children: tuple[ChildStatus, ...],
    own: StatusFields,
    now: float,
    *,
    outcomes: Sequence[Child] = (),
    moments: Iterable[float | None],
) -> Report:
    """The report with a verdict. `moments` are when the next render is due, whatever the children need."""
    author = author_status(parent, own)
    denied = any(outcome.denied for outcome in outcomes)
    return Report(
        status=make_status(parent, verdict, children, author, now),
        author_status=author,
        rendered_status=own,
        verdict=verdict,
        children=children,
        complete=False,
        outcomes=tuple(outcomes),
        kept=frozenset(outcome.identity for outcome in outcomes if outcome.why_kept),
        retryable=denied or any(outcome.retryable for outcome in outcomes),
        denied=denied,
        unblocked=denied and any(outcome.result is Result.CREATED for outcome in outcomes),
        retry_after=max((outcome.retry_after for outcome in outcomes), default=0.0),
        again_at=earliest(*moments, *(child.readiness.again_at for child in children)),
    )
