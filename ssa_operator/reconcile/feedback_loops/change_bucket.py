"""A token bucket of changes: of one child, or of new names for the children of one kind.

Promises:
- It holds CAPACITY changes, and gets one more each REFILL seconds. While it is empty, the operator makes no change.
- From the change that empties it, its message is shown until it holds two changes again.
"""

from __future__ import annotations

from msgspec import Struct

CAPACITY = 10
"""Changes that the operator makes without a pause."""

REFILL = 60.0
"""Seconds until the operator may make another change."""

MINUTES = round(CAPACITY * REFILL / 60)
"""In the last ones, the operator made CAPACITY changes at least, as long as the bucket is empty."""


class ChangeBucket(Struct, frozen=True, kw_only=True):
    """How many changes the operator may still make. A full bucket is as good as none."""

    left: float = CAPACITY
    """The changes that were left after the last one."""
    changed_at: float = 0.0
    """When the last one was, in seconds on the process's monotonic clock."""

    def left_at(self, now: float) -> float:
        """The changes that are left."""
        return min(CAPACITY, self.left + (now - self.changed_at) / REFILL)

    def after_change(self, now: float) -> ChangeBucket:
        """The bucket without the change that was made now."""
        return ChangeBucket(left=max(0.0, self.left_at(now) - 1), changed_at=now)

    def is_empty(self, now: float) -> bool:
        """Whether the operator has to wait with the next change."""
        return self.left_at(now) < 1

    def is_full(self, now: float) -> bool:
        """Whether nothing is left to remember."""
        return self.left_at(now) >= CAPACITY

    @property
    def was_emptied(self) -> bool:
        """Whether the last change emptied it."""
        return self.left < 1

    def is_slowed_down(self, now: float) -> bool:
        """Whether the operator waits with changes, or did so a moment ago."""
        return self.was_emptied and self.left_at(now) < 2

    def again_at(self, now: float) -> float | None:
        """When the parent must be reconciled even without an event: the next change is due, or the message is no longer
        shown. None if nothing is slowed down.
        """
        if not self.is_slowed_down(now):
            return None
        return self.changed_at + ((1 if self.is_empty(now) else 2) - self.left) * REFILL
