"""Reconciles in a row that each changed what templates read: a chain of children is created link by link.

Promises:
- Such a reconcile is followed by another one, because no event reports that change.
- MAX_IMMEDIATE_REQUEUES reconciles may follow each other at once. A longer series, which may have no end, backs off.
  (reconcile.feedback_loops slows down a child that changes each time it is applied, much earlier.)
- A suspended parent is not reconciled again for it.
"""

from __future__ import annotations

from typing import Self

from msgspec.structs import replace

from ssa_operator.kube.api.backoff import backoff
from ssa_operator.reconcile.child_history import CarriedOut, NoMemory, Observation

MAX_IMMEDIATE_REQUEUES = 1000
"""Reconciles in a row that may follow each other at once. A longer series backs off."""


class FollowUps(NoMemory, frozen=True):
    """A series of such reconciles."""

    count: int = 0

    def observed(self, seen: Observation, /) -> Self:
        # Users may change the children of a suspended parent by hand, and no reconcile follows.
        return replace(self, count=0) if seen.suspended else self

    def after(self, done: CarriedOut, /) -> Self:
        return self.continued if done.follows else replace(self, count=0)

    def due_at(self, now: float, /) -> float | None:
        return now + self.pause if self.count else None

    @property
    def at_rest(self) -> bool:
        return not self.count

    @property
    def continued(self) -> Self:
        """The series with one more reconcile."""
        return replace(self, count=self.count + 1)

    @property
    def at_once(self) -> bool:
        """Whether another reconcile follows without a pause."""
        return bool(self.count) and not self.pause

    @property
    def pause(self) -> float:
        """Seconds until the next reconcile."""
        excess = self.count - MAX_IMMEDIATE_REQUEUES
        return backoff(excess, 0.0) if excess > 0 else 0.0
