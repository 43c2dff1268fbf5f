"""What a series of new names changes in the step of a child."""

from __future__ import annotations

from msgspec.structs import replace

from ssa_operator.reconcile.case import Case
from ssa_operator.reconcile.step import Step

_PAUSED = "takes the place of a child with another name again and again, and is created after a pause"


def with_message(case: Case, step: Step) -> Step:
    """The step with the message of a series."""
    names = case.names
    if names is None or not names.slowed_down or not (case.is_newly_named or step.identity == names.newest):
        return step
    return replace(step, history=replace(step.history, feedback_loop=names.text))


def awaits_pause(case: Case) -> Step | None:
    """The next child of a series is created after a pause."""
    if case.names is None or not case.is_newly_named or not case.names.apply_delayed(case.observed.monotonic):
        return None
    return case.waiting(_PAUSED)
