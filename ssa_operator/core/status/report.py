"""What a pass has to say, of which the status, events and the next pass are made.

Promises:
- What is said in one place is said in all: the verdict and the conditions have the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.messages import MESSAGE_LIMIT, bounded, sentence
from ssa_operator.core.objects.render_result import StatusFields
from ssa_operator.core.planning.finalization import Finalization
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.planning.suspension import MESSAGE as SUSPENDED
from ssa_operator.core.policies.backoff import earliest
from ssa_operator.core.readiness.rules import readiness
from ssa_operator.core.status.child_status import ChildStatus, children_of, explained
from ssa_operator.core.status.conditions import make_status
from ssa_operator.core.status.verdict import Verdict, make_deletion_verdict, make_verdict, make_verdict_on_children


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a pass has to say.

    status: the parent's whole desired status. complete: whether everything that was rendered is applied. passing: a
    failure that goes away by itself. retry_after: seconds that the API server asked to wait. again_at: when a child
    has to be judged again without an event. notice: what is said of somebody who writes the same status, '' where
    nobody does. unrest: what is said of children that change each time they are applied. suspended: whether the parent
    is suspended.
    """

    status: Mapping[str, Any]
    verdict: Verdict
    children: tuple[ChildStatus, ...]
    complete: bool
    outcomes: tuple[Outcome, ...] = ()
    retryable: bool = False
    retry_after: float = 0.0
    again_at: float | None = None
    notice: str = ""
    feedback_loop: str = ""
    suspended: bool = False


def make_report(parent: LiveObject, plan: Plan, outcomes: Sequence[Outcome], own: StatusFields, now: float) -> Report:
    """The report of one pass; `own` are the fields of the author's status template, `now` is in seconds since the
    epoch.
    """
    children = explained(children_of(outcomes, now), outcomes)
    problems = tuple(dict.fromkeys((*plan.rendered.problems, *own.problems)))
    verdict = make_verdict(plan, problems, outcomes, children)
    feedback_loop = sentence([outcome.step.feedback_loop for outcome in outcomes if outcome.step.feedback_loop])
    if feedback_loop:
        verdict = replace(verdict, message=bounded(f"{verdict.message}; {feedback_loop}", MESSAGE_LIMIT))
    report = _acted(_judged(parent, verdict, children, own, now), outcomes, plan.rendered.again_at, own.again_at)
    return replace(report, complete=_complete(plan, outcomes), feedback_loop=feedback_loop)


def make_suspended_report(parent: LiveObject, outcomes: Sequence[Outcome], own: StatusFields, now: float) -> Report:
    """The report of a suspended parent: `outcomes` are its children as they are."""
    children = children_of(outcomes, now)
    verdict = make_verdict_on_children(children)
    report = Report(
        status=make_status(parent, verdict, children, own, now, suspended=SUSPENDED),
        verdict=verdict,
        children=children,
        complete=False,
        suspended=True,
    )
    return _acted(report, outcomes, own.again_at)


def make_idle_report(
    parent: LiveObject, verdict: Verdict, children: Sequence[LiveObject], own: StatusFields, now: float
) -> Report:
    """The report of a parent that is being deleted and that our finalizer doesn't keep."""
    entries = tuple(
        ChildStatus(identity=live.identity, uid=live.uid, readiness=readiness(live.body, now)) for live in children
    )
    return _judged(parent, verdict, entries, own, now)


def make_deletion_report(
    parent: LiveObject, finalization: Finalization, outcomes: Sequence[Outcome], own: StatusFields, now: float
) -> Report:
    """The report of a pass over a parent that is being deleted; its arguments are those of `make_report`."""
    verdict = make_deletion_verdict(finalization, outcomes)
    report = _judged(parent, verdict, children_of(outcomes, now), own, now)
    return _acted(report, outcomes, finalization.plan.rendered.again_at, own.again_at)


def with_message(report: Report, message: str) -> Report:
    """The report with another message of its verdict and of each of our conditions."""
    conditions = [{**condition, "message": message} for condition in report.status["conditions"]]
    return replace(
        report,
        verdict=replace(report.verdict, message=message),
        status={**report.status, "conditions": conditions},
    )


def with_notice(report: Report, notice: str) -> Report:
    """The report with a notice in its message."""
    if not notice:
        return report
    message = f"{bounded(report.verdict.message, MESSAGE_LIMIT - len(notice) - 2)}; {notice}"
    return replace(with_message(report, message), notice=notice)


def _judged(
    parent: LiveObject, verdict: Verdict, children: tuple[ChildStatus, ...], own: StatusFields, now: float
) -> Report:
    """The report of a verdict, where nothing was done."""
    return Report(
        status=make_status(parent, verdict, children, own, now),
        verdict=verdict,
        children=children,
        complete=False,
    )


def _acted(report: Report, outcomes: Sequence[Outcome], *moments: float | None) -> Report:
    """The report with what became of the steps; `moments` are when to look again whatever that was."""
    return replace(
        report,
        outcomes=tuple(outcomes),
        retryable=any(outcome.retryable for outcome in outcomes),
        retry_after=max((outcome.retry_after for outcome in outcomes), default=0.0),
        again_at=earliest(
            *moments,
            *(child.readiness.again_at for child in report.children),
            *(outcome.again_at for outcome in outcomes),
        ),
    )


def _complete(plan: Plan, outcomes: Sequence[Outcome]) -> bool:
    """Whether the cluster is what the templates say: everything applied, nothing kept that they no longer render."""
    unfinished = any(outcome.result is Result.FAILED or outcome.result is Result.WAITING for outcome in outcomes)
    return plan.rendered.complete and not (unfinished or plan.held or plan.blocked)
