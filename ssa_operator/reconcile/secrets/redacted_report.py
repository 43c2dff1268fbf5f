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
from ssa_operator.reconcile.child import Child, FailureReason, Result
from ssa_operator.reconcile.finalization.rules import Finalization
from ssa_operator.reconcile.status.report import Report, with_message

NOT_SHOWN = "(the message is not shown: a Secret's content is part of the manifest, and it may quote or name it)"


def redacted_outcomes(outcomes: Sequence[Child], secrets: ParentSecrets) -> tuple[Child, ...]:
    """The outcomes, or steps, as a report, its Events, messages and the log may show them."""
    if not (secrets.children or secrets.queries):
        return tuple(outcomes)
    return tuple(_outcome(outcome, secrets) for outcome in outcomes)


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


def _outcome(outcome: Child, secrets: ParentSecrets) -> Child:
    fields = secrets.of(outcome.identity)
    outcome = replace(outcome, hides_status=bool(fields), cause="" if fields else outcome.cause)
    if fields.name_object or fields.keys or fields.instruct or (secrets.name_objects and _may_name_others(outcome)):
        outcome = _without_messages(outcome)
    return replace(outcome, identity=secrets.shown(outcome.identity))


def _may_name_others(outcome: Child) -> bool:
    waits = bool(outcome.after or outcome.missing or outcome.awaited) or outcome.result is Result.WAITING
    loops = outcome.problem is FailureReason.DEPENDENCY_CYCLE or bool(outcome.feedback_loop)
    return outcome.manifest is None or waits or loops


def _without_messages(outcome: Child) -> Child:
    memory = outcome.memory
    return replace(
        outcome,
        reason=outcome.reason and NOT_SHOWN,
        why_kept=outcome.why_kept and NOT_SHOWN,
        awaited=tuple(replace(each, hidden=True) for each in outcome.awaited),
        after=(),
        missing=(),
        memory=memory if memory.refusal is None else replace(memory, refusal=None),
        conflict=outcome.conflict and NOT_SHOWN,
        feedback_loop=outcome.feedback_loop and NOT_SHOWN,
        message=outcome.message and NOT_SHOWN,
        warnings=tuple(NOT_SHOWN for _ in outcome.warnings),
    )
