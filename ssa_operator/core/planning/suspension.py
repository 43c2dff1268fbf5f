"""Suspends a parent: the operator reports the readiness of its children, and applies and deletes nothing.

Promises:
- The parent's annotation suspends it until a user removes the annotation or deletes the parent.
- `Ready` follows from the live children alone. A suspended parent with healthy children is Ready.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.core.objects.annotations import PREFIX
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.planning.step import Action, Step

ANNOTATION = f"{PREFIX}suspend"
"""The annotation that suspends a parent while it is `"true"`: the operator applies and deletes nothing."""

MESSAGE = f"nothing is applied while the annotation {ANNOTATION} is true"
"""The message of the condition Suspended."""


def is_suspended(parent: LiveObject) -> bool:
    return parent.metadata.annotations.get(ANNOTATION) == "true" and not parent.deleting


def outcomes_while_suspended(plan: Plan) -> tuple[Outcome, ...]:
    """The outcome of each step where none is carried out: its object stays as it is, or stays absent."""
    return tuple(_outcome(step, plan) for step in plan.steps)


def _outcome(step: Step, plan: Plan) -> Outcome:
    live = step.live
    if live is None:
        # The step of a refused manifest has no object, but an earlier apply may have created one.
        own = plan.observed.children.objects.get(step.identity)
        live = own if own is not None and own.parent_uid == plan.observed.parent.uid else None
    if step.action is Action.PRUNE:
        reason = "is no longer rendered; it is deleted when the parent is resumed"
        step = replace(step, action=Action.KEEP, reason=reason)
    elif step.manifest is None:
        # The objects of a template that fails or waits count like all other children.
        step = replace(step, action=Action.UNCHANGED)
    message = "" if live is not None else "does not exist; it is applied when the parent is resumed"
    return Outcome(step=step, result=Result.UNCHANGED, live=live, message=message)
