"""What the process remembers of a rollout from one decision until the next one.

Promises:
- If it is lost, a wave has to be Ready for the whole time once more. Nothing else changes.
- Times are in seconds on the process's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field


class Progress(Struct, frozen=True, kw_only=True):
    """How long the parents of a rollout have been Ready, or not."""

    unready_since: Mapping[str, float] = field(default_factory=dict)
    """Since when each parent that was reached is not Ready at the new revision, by its place in the order."""
    ready_since: float | None = None
    """Since when all others are Ready, None while they are not."""


NO_PROGRESS = Progress()


def observed(progress: Progress, unready: Iterable[str], now: float) -> Progress:
    """The progress after these parents were found not to be Ready."""
    return Progress(
        unready_since={place: progress.unready_since.get(place, now) for place in unready},
        ready_since=progress.ready_since,
    )
