"""What became of a step when it was carried out.

Promises:
- A failure is a value like any other. It names the error, the template line, and whether a retry may help.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.step import Action, FailureReason, Step


class Result(StrEnum):
    """The result of a step."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    RECREATED = "recreated"
    PRUNED = "pruned"
    WAITING = "waiting"
    FAILED = "failed"


CHANGED = frozenset({Result.CREATED, Result.CONFIGURED, Result.RECREATED})
"""The results of a step that created or changed an object."""


class Outcome(Struct, frozen=True, kw_only=True):
    """One step after it was carried out."""

    step: Step
    result: Result
    live: LiveObject | None = None
    """The object as it is now, None where there is none."""
    message: str = ""
    """What the step waits for, or why it failed."""

    problem: FailureReason | None = None
    """The reason of a failure, for the condition Ready."""
    retryable: bool = False
    """Whether a retry may help without a change by a user."""
    denied: bool = False
    """Whether admission refuses it: a quota, a policy or another plugin. A retry may help, because no event tells when
    the quota is free."""
    retry_after: float = 0.0
    """The seconds that the API server asked to wait before a retry."""
    location: SourceLocation | None = None
    """The template line of the field that failed, None where only the line of the manifest is known."""
    warnings: tuple[str, ...] = ()
    """The API server's warnings."""

    counted: bool = False
    """Whether the apply changed nothing, and the API server counted it as a change."""

    cause: str = ""
    """Why the object isn't ready, as its pods show it; '' where its own status is all that is known."""
    hides_status: bool = False
    """Whether the messages in the object's status are not shown, because they may quote a Secret's content."""

    @property
    def gone(self) -> bool:
        """Whether the parent no longer has the object: it was deleted, or other parents keep it."""
        return self.result is Result.PRUNED or (self.step.action is Action.PRUNE and self.result is Result.CONFIGURED)


def waiting_outcome(step: Step, live: LiveObject | None, message: str) -> Outcome:
    """The outcome of a step that the next reconcile tries again."""
    return Outcome(step=step, result=Result.WAITING, live=live, message=message, retryable=True)
