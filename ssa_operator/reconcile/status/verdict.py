"""Decides the condition Ready of a parent: its status, reason and message.

Promises:
- A parent is ready when all that it renders is applied, no child is in a conflict, and each child that counts is ready.
- The reason of a parent that isn't ready is the first of these that applies: a template can't be rendered, a manifest
  breaks a rule, the API server refused an apply, a prune is held, a child waits for a dependency, a child is in
  progress.
- The message names the objects and the causes.
- Files that don't load are no failure of a parent that the last good templates render; its message has their errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.messages import sentence
from ssa_operator.objects.readiness import ReadinessState
from ssa_operator.objects.render_result import ReconcileResult, RenderProblem
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.finalization.rules import Finalization
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.status.child_status import ChildStatus, roots_first


class ReadyReason(StrEnum):
    """Why a parent is ready or not, as the condition Ready reports it; the others are those of FailureReason."""

    READY = "Ready"
    """Every child matches its manifest and is ready."""
    PROGRESSING = "Progressing"
    """A child is not ready yet, or has failed. The message names it and the reason."""
    WAITING = "WaitingForDependency"
    """A manifest reads another child that is not ready yet, or an object that doesn't exist. The message names it."""
    RENDER_FAILED = "RenderFailed"
    """A template failed. The message has file, line and the files that included it."""
    PRUNE_HELD = "PruneHeld"
    """Changed templates would delete (almost) all children. The message describes how to confirm it."""
    CLUSTER_SCOPED = "ClusterScoped"
    """With `--impersonate`: the parent has no namespace, so that it has no service account."""
    UNREADABLE_RECORD = "UnreadableRecord"
    """This version can't read a record on the parent. The message names it. Nothing is applied or deleted."""
    FORBIDDEN = "Forbidden"
    """The API server refuses a request that the reconcile needs. The message names it."""
    SUSPECTED = "Suspected"
    """The operator died while it reconciled the parent, which is therefore reconciled last and alone."""
    INTERNAL_ERROR = "InternalError"
    """The operator met a bug, and tries again. The message names the type of the error; the log has its traceback."""
    DELETING = "Deleting"
    """The parent is being deleted."""


class Verdict(Struct, frozen=True, kw_only=True):
    """The condition Ready, and what the other conditions follow from."""

    ready: bool
    reason: str
    message: str
    stalled: bool = False
    """Whether the parent becomes ready only after a change by a user."""
    suspended: str = ""
    """The message of the condition Suspended, '' if the parent isn't suspended."""

    @property
    def result(self) -> ReconcileResult:
        return ReconcileResult(self.ready, self.reason, self.message)


def make_verdict(
    plan: Plan, problems: Sequence[RenderProblem], outcomes: Sequence[Child], children: Sequence[ChildStatus]
) -> Verdict:
    """The verdict on a parent that is not being deleted; `problems` are those of all templates."""
    verdict = _verdict(plan, [each for each in problems if not each.outdated], outcomes, children)
    outdated = [_skipped_message(each) for each in problems if each.outdated]
    return replace(verdict, message=sentence([verdict.message, *outdated])) if outdated else verdict


def _verdict(
    plan: Plan, problems: Sequence[RenderProblem], outcomes: Sequence[Child], children: Sequence[ChildStatus]
) -> Verdict:
    failures = [outcome for outcome in outcomes if outcome.result is Result.FAILED]
    failures += [_conflict_failure(outcome) for outcome in outcomes if outcome.conflict]
    if problems:
        causes = [str(problem) for problem in problems] + [_failure_message(failure) for failure in failures]
        return Verdict(ready=False, reason=ReadyReason.RENDER_FAILED.value, message=sentence(causes), stalled=True)
    verdict = _failure_verdict(failures)
    if verdict is not None:
        return verdict
    if plan.hold_message:
        return Verdict(ready=False, reason=ReadyReason.PRUNE_HELD.value, message=plan.hold_message, stalled=True)
    children = roots_first(children, outcomes)
    return _waiting_verdict(plan, children) or make_verdict_on_children(children)


def make_verdict_on_children(children: Sequence[ChildStatus]) -> Verdict:
    """The verdict if only the children decide."""
    unready = [child for child in children if child.counts and child.readiness.state is not ReadinessState.CURRENT]
    if not unready:
        return Verdict(ready=True, reason=ReadyReason.READY.value, message=_ready_message(children))
    failed_first = sorted(unready, key=lambda child: child.readiness.state is not ReadinessState.FAILED)
    return Verdict(
        ready=False,
        reason=ReadyReason.PROGRESSING.value,
        message=sentence([str(child) for child in failed_first]),
        stalled=any(child.readiness.state is ReadinessState.FAILED for child in unready),
    )


def make_deletion_verdict(finalization: Finalization, outcomes: Sequence[Child]) -> Verdict:
    """The verdict on a parent that is being deleted and that the operator's finalizer keeps."""
    failures = [outcome for outcome in outcomes if outcome.result is Result.FAILED]
    causes = [_failure_message(failure) for failure in failures] or [finalization.awaited]
    causes += [
        f"{outcome.identity} {outcome.message}"
        for outcome in outcomes
        if outcome.result is Result.WAITING and outcome.action is Action.PRUNE
    ]
    causes += [f"skipped: {hook}" for hook in finalization.skipped_hooks]
    causes += [_skipped_message(problem) for problem in finalization.plan.rendered.problems]
    message = "; ".join(filter(None, ("the parent is being deleted", sentence([cause for cause in causes if cause]))))
    stalled = bool(failures) and not any(failure.retryable for failure in failures)
    return Verdict(ready=False, reason=ReadyReason.DELETING.value, message=message, stalled=stalled)


def _conflict_failure(outcome: Child) -> Child:
    """A field conflict counts as a failure of its child, whatever the result of the step is."""
    message = f"{outcome.identity}: {outcome.conflict}"
    return replace(outcome, result=Result.FAILED, message=message, problem=FailureReason.CONFLICT, retryable=False)


def _failure_verdict(failures: Sequence[Child]) -> Verdict | None:
    """The verdict with the first reason of `FailureReason` that a failure has, None if no failure has one."""
    reason = next((each for each in FailureReason if any(failure.problem is each for failure in failures)), None)
    if reason is None:
        return None
    by_reason = sorted(failures, key=lambda failure: failure.problem is not reason)
    return Verdict(
        ready=False,
        reason=reason.value,
        message=sentence([_failure_message(failure) for failure in by_reason]),
        stalled=not any(failure.retryable for failure in failures),
    )


def _waiting_verdict(plan: Plan, children: Sequence[ChildStatus]) -> Verdict | None:
    """The verdict where a child or a template waits for a dependency, None if none does."""
    waiting = [str(child) for child in children if child.waits]
    waiting += [f"{wait.location}: {wait}" for wait in plan.rendered.waits if wait.identity is None]
    if not waiting:
        return None
    failed = [str(child) for child in children if child.counts and child.readiness.state is ReadinessState.FAILED]
    needs_user = any(awaited.needs_permission for wait in plan.rendered.waits for awaited in wait.awaited)
    return Verdict(
        ready=False,
        reason=ReadyReason.WAITING.value,
        message=sentence([*failed, *waiting]),
        stalled=bool(failed) or needs_user,
    )


def _ready_message(children: Sequence[ChildStatus]) -> str:
    match len(children):
        case 0:
            return "no manifest is rendered"
        case 1:
            return f"{children[0].identity} is ready"
        case count:
            return f"all {count} children are ready"


def _failure_message(failure: Child) -> str:
    location = failure.location
    return f"{location}: {failure.message}" if location else failure.message


def _skipped_message(problem: RenderProblem) -> str:
    if problem.outdated:
        return f"the last good templates are in use because new ones can't be used: {problem}"
    return f"skipped because it can't be rendered: {problem}"
