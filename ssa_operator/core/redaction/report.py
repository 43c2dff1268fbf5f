"""A report without the content of Secrets.

Promises:
- Every word of a report passes: the verdict, the conditions, the entries of the children, and what the steps have to
  say to events and logs.
- The author's own fields are not touched: `rendering` leaves out those that are made of a Secret's content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.messages import sentence
from ssa_operator.core.planning.outcome import Outcome
from ssa_operator.core.redaction.secret_values import HIDDEN, Redactor
from ssa_operator.core.status.child_status import ChildStatus
from ssa_operator.core.status.report import Report, with_message


def redacted_report(report: Report, redactor: Redactor, left_out: Sequence[str]) -> Report:
    """The report with the known values replaced; the same where nothing is known. `left_out` are the status fields that
    the author's template made of a Secret's content.
    """
    if not redactor and not left_out:
        return report
    if left_out:
        remarks = [f"status.{name} is left out, for it holds {HIDDEN[1:-1]}" for name in left_out]
        report = with_message(report, sentence([report.verdict.message, *remarks]))
    hide = redactor.redacted
    status = {**report.status}
    for name in ("conditions", "resources"):
        if name in status:
            status[name] = [_entry(entry, redactor) for entry in status[name]]
    return replace(
        report,
        status=status,
        verdict=replace(report.verdict, message=hide(report.verdict.message)),
        children=tuple(_child(child, redactor) for child in report.children),
        outcomes=tuple(_outcome(outcome, redactor) for outcome in report.outcomes),
        feedback_loop=hide(report.feedback_loop),
    )


def _entry(entry: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    return {key: redactor.redacted(value) if isinstance(value, str) else value for key, value in entry.items()}


def _identity(identity: Identity, redactor: Redactor) -> Identity:
    hide = redactor.redacted
    return Identity(hide(identity.group), hide(identity.kind), hide(identity.namespace), hide(identity.name))


def _child(child: ChildStatus, redactor: Redactor) -> ChildStatus:
    readiness = replace(child.readiness, message=redactor.redacted(child.readiness.message))
    return replace(child, identity=_identity(child.identity, redactor), readiness=readiness)


def _outcome(outcome: Outcome, redactor: Redactor) -> Outcome:
    step, hide = outcome.step, redactor.redacted
    identity = _identity(step.identity, redactor)
    return replace(
        outcome,
        step=replace(step, identity=identity, reason=hide(step.reason), conflict=hide(step.conflict)),
        # An event would point to it by its name.
        live=outcome.live if identity == step.identity else None,
        message=hide(outcome.message),
        warnings=tuple(map(hide, outcome.warnings)),
        cause=hide(outcome.cause),
    )
