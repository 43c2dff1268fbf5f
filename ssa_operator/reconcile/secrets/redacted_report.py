"""Removes the content of Secrets from the inputs of a report.

Promises:
- What is hidden depends only on where the render put content, never on a text: a right guess looks like a wrong one.
- If content names an object, the name is not shown, and neither is a message that may contain it.
- If a child holds content, messages of other controllers about it are not shown, because they may quote it.
- The fields and conditions of the author's status template are not changed: `rendering` leaves out those that are made
  of content.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ssa_operator.objects.messages import sentence
from ssa_operator.objects.secret_fields import HIDDEN, ParentSecrets
from ssa_operator.reconcile.finalization.rules import Finalization
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.status.report import Report, with_message
from ssa_operator.reconcile.step import FailureReason, Step

NOT_SHOWN = "(the message is not shown: a Secret's content is part of the manifest, and it may quote or name it)"


def redacted_outcomes(outcomes: Sequence[Outcome], secrets: ParentSecrets) -> tuple[Outcome, ...]:
    """The outcomes as a report, its Events and the log may show them."""
    if not (secrets.children or secrets.queries):
        return tuple(outcomes)
    return tuple(_outcome(outcome, secrets) for outcome in outcomes)


def redacted_steps(steps: Sequence[Step], secrets: ParentSecrets) -> list[Step]:
    """Steps that are not carried out, as a message may show them."""
    outcomes = [Outcome(step=step, result=Result.FAILED) for step in steps]
    return [outcome.step for outcome in redacted_outcomes(outcomes, secrets)]


def redacted_finalization(finalization: Finalization, secrets: ParentSecrets) -> Finalization:
    """The finalization without the names of objects, where content may be among them."""
    if not secrets.name_objects:
        return finalization
    skipped = tuple(NOT_SHOWN for _ in finalization.skipped_hooks)
    return replace(finalization, awaited=finalization.awaited and NOT_SHOWN, skipped_hooks=skipped)


def redacted_error(error: Exception, secrets: ParentSecrets) -> str:
    """The message of a request that failed outside of the steps."""
    return f"{type(error).__name__} {NOT_SHOWN}" if secrets.name_objects else str(error)


def crash_text(error: Exception, *, reads_secrets: bool) -> str:
    """The text of a bug's exception, whose message may quote any value."""
    return f"{type(error).__name__} {NOT_SHOWN}" if reads_secrets else f"{type(error).__name__}: {error}"


def with_left_out(report: Report, left_out: Sequence[str]) -> Report:
    """The report whose message names the fields of the author's status template that were left out, because they would
    publish a Secret's content.
    """
    if not left_out:
        return report
    remarks = [f"status.{name} is left out, because it contains {HIDDEN[1:-1]}" for name in left_out]
    return with_message(report, sentence([report.verdict.message, *remarks]))


def _outcome(outcome: Outcome, secrets: ParentSecrets) -> Outcome:
    step, fields = outcome.step, secrets.of(outcome.step.identity)
    outcome = replace(outcome, hides_status=bool(fields), cause="" if fields else outcome.cause)
    if fields.name_object or fields.keys or fields.instruct or (secrets.name_objects and _may_name_others(outcome)):
        outcome = _without_messages(outcome)
    return replace(outcome, step=replace(outcome.step, identity=secrets.shown(step.identity)))


def _may_name_others(outcome: Outcome) -> bool:
    step = outcome.step
    waits = bool(step.after or step.missing or step.awaited) or outcome.result is Result.WAITING
    loops = step.problem is FailureReason.DEPENDENCY_CYCLE or bool(step.feedback_loop)
    return step.manifest is None or waits or loops


def _without_messages(outcome: Outcome) -> Outcome:
    step = outcome.step
    awaited = tuple(replace(each, hidden=True) for each in step.awaited)
    memory = step.memory if step.memory.refusal is None else replace(step.memory, refusal=None)
    return replace(
        outcome,
        step=replace(
            step,
            reason=step.reason and NOT_SHOWN,
            why_kept=step.why_kept and NOT_SHOWN,
            awaited=awaited,
            after=(),
            missing=(),
            memory=memory,
            conflict=step.conflict and NOT_SHOWN,
            feedback_loop=step.feedback_loop and NOT_SHOWN,
        ),
        message=outcome.message and NOT_SHOWN,
        warnings=tuple(NOT_SHOWN for _ in outcome.warnings),
    )
