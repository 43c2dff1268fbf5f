"""Removes the content of Secrets from a report.

Promises:
- Every text of a report is redacted: the verdict, the conditions, the entries of the children, and the texts of the
  steps and outcomes, which become events and logs.
- The fields and conditions of the author's status template are not changed: `rendering` leaves out those that a
  Secret's content would be part of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.messages import sentence
from ssa_operator.core.planning.outcome import Outcome
from ssa_operator.core.redaction.secret_values import HIDDEN, Redactor
from ssa_operator.core.status.child_status import ChildStatus
from ssa_operator.core.status.own_status import OPERATOR_TYPES
from ssa_operator.core.status.report import Report, with_message


def redacted_report(report: Report, redactor: Redactor, left_out: Sequence[str]) -> Report:
    """The report with the known secret values replaced. `left_out` names the fields of the author's status template
    that were left out, because they would publish a Secret's content: the message names them.
    """
    if not redactor and not left_out:
        return report
    if left_out:
        remarks = [f"status.{name} is left out, because it contains {HIDDEN[1:-1]}" for name in left_out]
        report = with_message(report, sentence([report.verdict.message, *remarks]))
    redact = redactor.redact
    status = {**report.status}
    for name in ("conditions", "resources"):
        if name in status:
            status[name] = [entry if _is_authors(entry) else _entry(entry, redactor) for entry in status[name]]
    return replace(
        report,
        status=status,
        verdict=replace(report.verdict, message=redact(report.verdict.message)),
        children=tuple(_child(child, redactor) for child in report.children),
        outcomes=tuple(_outcome(outcome, redactor) for outcome in report.outcomes),
        feedback_loop=redact(report.feedback_loop),
    )


def _is_authors(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of `conditions` is the author's. The entries of `resources` have no type."""
    return entry.get("type", OPERATOR_TYPES[0]) not in OPERATOR_TYPES


def _entry(entry: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    return {key: redactor.redact(value) if isinstance(value, str) else value for key, value in entry.items()}


def _identity(identity: Identity, redactor: Redactor) -> Identity:
    redact = redactor.redact
    return Identity(redact(identity.group), redact(identity.kind), redact(identity.namespace), redact(identity.name))


def _child(child: ChildStatus, redactor: Redactor) -> ChildStatus:
    readiness = replace(child.readiness, message=redactor.redact(child.readiness.message))
    return replace(child, identity=_identity(child.identity, redactor), readiness=readiness)


def _outcome(outcome: Outcome, redactor: Redactor) -> Outcome:
    step, redact = outcome.step, redactor.redact
    identity = _identity(step.identity, redactor)
    return replace(
        outcome,
        step=replace(
            step,
            identity=identity,
            reason=redact(step.reason),
            history=replace(step.history, conflict=redact(step.history.conflict)),
        ),
        # An Event about the object would show its name.
        live=outcome.live if identity == step.identity else None,
        message=redact(outcome.message),
        warnings=tuple(map(redact, outcome.warnings)),
        cause=redact(outcome.cause),
    )
