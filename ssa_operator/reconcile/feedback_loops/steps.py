"""What a feedback loop changes in the step of a child."""

from __future__ import annotations

from msgspec.structs import replace

from ssa_operator.reconcile.case import Case
from ssa_operator.reconcile.step import Step

_PAUSED = "changes each time it is applied, and is applied after a pause"


def with_message(case: Case, step: Step) -> Step:
    """The step with the message of a loop."""
    if case.loop is None or not case.loop.slowed_down:
        return step
    return replace(step, history=replace(step.history, feedback_loop=case.loop.text(step.identity)))


def awaits_pause(case: Case) -> Step | None:
    """A child of a loop that does not exist is created after a pause."""
    return case.waiting(_PAUSED) if _is_paused(case) else None


def is_paused(case: Case) -> Step | None:
    """A child of a loop is applied after a pause."""
    return case.left_unchanged(_PAUSED) if _is_paused(case) else None


def _is_paused(case: Case) -> bool:
    return case.loop is not None and case.loop.apply_delayed(case.observed.monotonic)
