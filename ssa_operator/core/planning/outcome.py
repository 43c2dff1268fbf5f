"""What became of a step when it was carried out.

Promises:
- A failure is a value like any other: it says what failed, where that was written, and whether it passes by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.core.planning.step import FailureReason, Step


class Result(StrEnum):
    """What became of a step."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    RECREATED = "recreated"
    PRUNED = "pruned"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One step after acting: the live object now (None where there is none), and for a failure the sentence, whether
    retrying may help, and the seconds that the API server asked to wait.

    cause: why the object isn't ready, where others know more than itself. again_at: when to look for that again.
    """

    step: Step
    result: Result
    live: LiveObject | None = None
    message: str = ""
    problem: FailureReason | None = None
    retryable: bool = False
    retry_after: float = 0.0
    location: SourceLocation | None = None
    warnings: tuple[str, ...] = ()
    cause: str = ""
    again_at: float | None = None
