"""Successive changes that follow from each other, and the pauses between them.

Promises:
- Each pause is longer than the one before, up to a limit, and a series without a change for a while is over.
"""

from __future__ import annotations

from msgspec import Struct

from ssa_operator.kube.api.backoff import backoff
from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup, Question
from ssa_operator.objects.identity import Identity

ALLOWED_CHANGES = 6
"""Successive changes of a child without a pause."""


SETTLED_AFTER = 30.0
"""Seconds without a change after which a loop is over, or twice the last pause where that is longer."""


class ChangeSeries(Struct, frozen=True, kw_only=True):
    """Successive changes that follow from each other, and the pauses between them."""

    changes: int
    """How many there were."""
    changed_at: float
    """When the last one was, in seconds on the process's monotonic clock."""

    @property
    def slowed_down(self) -> bool:
        """Whether there were too many to settle soon."""
        return self.changes > ALLOWED_CHANGES

    @property
    def apply_due(self) -> float:
        """When the operator may make the next change."""
        return self.changed_at + (backoff(self.changes - ALLOWED_CHANGES, 0.0) if self.slowed_down else 0.0)

    @property
    def settles_at(self) -> float:
        """When the series is over, if no change follows before."""
        return self.changed_at + max(SETTLED_AFTER, 2 * (self.apply_due - self.changed_at))

    def is_over(self, now: float) -> bool:
        """Whether the series is over."""
        return now >= self.settles_at

    def apply_delayed(self, now: float) -> bool:
        """Whether the operator doesn't make the next change yet."""
        return now < self.apply_due

    def again_at(self, now: float) -> float | None:
        """When the parent must be reconciled even without an event; None without a pause."""
        return None if not self.slowed_down else self.apply_due if self.apply_delayed(now) else self.settles_at


class FeedbackLoop(ChangeSeries, frozen=True, kw_only=True):
    """The successive changes of one child that is part of a loop: how often applying the child changed it."""

    reads: Question
    """The object that the child reads and that is derived from it."""

    def text(self, identity: Identity) -> str:
        """The message about the loop."""
        itself = self.reads == Reference(identity.kind, identity.name) or (
            isinstance(self.reads, Lookup) and self.reads.identity == identity
        )
        read = "itself" if itself else f"{self.reads}, which is derived from it"
        return (
            f"{identity} changes each time it is applied, because it reads {read}; the operator applies it with backoff"
        )
