"""What a pass says of a parent as a whole: the condition Ready.

Promises:
- The reason is that of what comes first: what can't be rendered, what breaks a rule, what the API server refused, what
  is held, awaited, in progress. The message names the objects and the causes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ssa_operator.core.objects.messages import sentence
from ssa_operator.core.objects.render_result import RenderProblem
from ssa_operator.core.planning.finalization import Finalization
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.planning.step import Action, FailureReason
from ssa_operator.core.readiness.rules import ReadinessState
from ssa_operator.core.status.child_status import ChildStatus, roots_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The condition Ready: its status, reason and message; `stalled` where only a change can help."""

    ready: bool
    reason: str
    message: str
    stalled: bool = False


def make_verdict(
    plan: Plan, problems: Sequence[RenderProblem], outcomes: Sequence[Outcome], children: Sequence[ChildStatus]
) -> Verdict:
    """The verdict on a parent that stays; `problems` are those of all templates."""
    failures = [outcome for outcome in outcomes if outcome.result is Result.FAILED]
    failures += [_contested(outcome) for outcome in outcomes if outcome.step.conflict]
    children = roots_first(children, outcomes)
    if problems:
        causes = [str(problem) for problem in problems] + [_failure_text(failure) for failure in failures]
        return Verdict(ready=False, reason="RenderFailed", message=sentence(causes), stalled=True)
    for problem in FailureReason:
        if any(failure.problem is problem for failure in failures):
            ordered = sorted(failures, key=lambda failure: failure.problem is not problem)
            return Verdict(
                ready=False,
                reason=problem.value,
                message=sentence([_failure_text(failure) for failure in ordered]),
                stalled=not any(failure.retryable for failure in failures),
            )
    if plan.held:
        return Verdict(ready=False, reason="PruneHeld", message=plan.held, stalled=True)
    waiting = [str(child) for child in children if child.awaits]
    waiting += [f"{wait.location}: {wait}" for wait in plan.rendered.waits if wait.identity is None]
    if waiting:
        broken = [str(child) for child in children if child.counts and child.readiness.state is ReadinessState.FAILED]
        message = sentence([*broken, *waiting])
        needs_permission = any(awaited.stalled for wait in plan.rendered.waits for awaited in wait.awaited)
        return Verdict(
            ready=False, reason="WaitingForDependency", message=message, stalled=bool(broken) or needs_permission
        )
    return make_verdict_on_children(children)


def make_verdict_on_children(children: Sequence[ChildStatus]) -> Verdict:
    """The verdict where only the children decide."""
    unready = [child for child in children if child.counts and child.readiness.state is not ReadinessState.CURRENT]
    failed = [child for child in unready if child.readiness.state is ReadinessState.FAILED]
    if unready:
        ordered_children = sorted(unready, key=lambda child: child.readiness.state is not ReadinessState.FAILED)
        return Verdict(
            ready=False,
            reason="Progressing",
            message=sentence([str(child) for child in ordered_children]),
            stalled=bool(failed),
        )
    return Verdict(ready=True, reason="Ready", message=_ready_text(children))


def make_deletion_verdict(finalization: Finalization, outcomes: Sequence[Outcome]) -> Verdict:
    """The verdict on a parent that is being deleted and that our finalizer keeps."""
    failures = [outcome for outcome in outcomes if outcome.result is Result.FAILED]
    causes = [_failure_text(failure) for failure in failures] or [finalization.awaited]
    causes += [
        f"{outcome.step.identity} {outcome.message}"
        for outcome in outcomes
        if outcome.result is Result.WAITING and outcome.step.action is Action.PRUNE
    ]
    causes += [f"skipped: {hook}" for hook in finalization.skipped_hooks]
    causes += [_left_out_text(problem) for problem in finalization.plan.rendered.problems]
    message = "; ".join(filter(None, ("is being deleted", sentence([cause for cause in causes if cause]))))
    stalled = bool(failures) and not any(failure.retryable for failure in failures)
    return Verdict(ready=False, reason="Deleting", message=message, stalled=stalled)


def _contested(outcome: Outcome) -> Outcome:
    """A fight counts as a failure of its child, whatever became of this pass's step."""
    message = f"{outcome.step.identity}: {outcome.step.conflict}"
    return replace(outcome, result=Result.FAILED, message=message, problem=FailureReason.CONFLICT, retryable=False)


def _ready_text(children: Sequence[ChildStatus]) -> str:
    match len(children):
        case 0:
            return "no manifest is rendered"
        case 1:
            return f"{children[0].identity} is ready"
        case count:
            return f"all {count} children are ready"


def _failure_text(failure: Outcome) -> str:
    location = failure.location or failure.step.location
    return f"{location}: {failure.message}" if location else failure.message


def _left_out_text(problem: RenderProblem) -> str:
    if problem.outdated:
        return f"the last good templates are in use because the new ones can't be loaded: {problem}"
    return f"skipped because it can't be rendered: {problem}"
