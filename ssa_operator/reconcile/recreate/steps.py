"""What a deletion changes in the step of a child."""

from __future__ import annotations

from ssa_operator.reconcile.case import Case
from ssa_operator.reconcile.recreate.rules import deletion_message
from ssa_operator.reconcile.step import Step


def is_recreated(case: Case) -> Step | None:
    """A child that the operator deleted to recreate it is created."""
    recreation = case.step.history.recreation
    if recreation is None or recreation.created:
        return None
    return case.applied(recreation.why or "was deleted to be recreated")


def is_being_deleted(case: Case) -> Step | None:
    """A child that is being deleted is created again when it is gone."""
    return case.waiting(deletion_message(case.live, case.step.history.recreation)) if case.live.deleting else None
