"""What a field conflict changes in the step of a child."""

from __future__ import annotations

from msgspec.structs import replace

from ssa_operator.reconcile.case import Case
from ssa_operator.reconcile.step import Step

_PAUSED = "is changed by another manager again and again, and is reverted after a pause"


def with_message(case: Case, step: Step) -> Step:
    """The step with what it reverts, and with the message of a conflict."""
    found = case.conflict
    if found is None:
        return step
    confidential = case.observed.confidential
    text = found.text(step.identity.group_kind, confidential=confidential) if found.in_conflict else ""
    return replace(step, history=replace(step.history, foreign_change=found.unreverted, conflict=text))


def awaits_pause(case: Case) -> Step | None:
    """A child that others deleted again and again is created after a pause."""
    return case.waiting(_PAUSED) if _is_paused(case) else None


def is_paused(case: Case) -> Step | None:
    """A child that others changed again and again is applied after a pause."""
    return case.left_unchanged(_PAUSED) if _is_paused(case) else None


def _is_paused(case: Case) -> bool:
    return case.conflict is not None and case.conflict.revert_delayed(case.observed.monotonic)
