"""Reconciles in a row that each changed what templates read: a chain of children is created link by link.

Promises:
- Such a reconcile is followed by another one, because no event reports that change.
- MAX_IMMEDIATE_REQUEUES reconciles may follow each other at once. A longer series, which may have no end, backs off.
  (reconcile.feedback_loops slows down a child that changes each time it is applied, much earlier.)
- A suspended parent is not reconciled again for it.
"""

from __future__ import annotations

from ssa_operator.kube.api.backoff import backoff

MAX_IMMEDIATE_REQUEUES = 1000
"""Reconciles in a row that may follow each other at once. A longer series backs off."""


def follow_up_pause(follow_ups: int) -> float:
    """Seconds until the next reconcile, after so many in a row."""
    excess = follow_ups - MAX_IMMEDIATE_REQUEUES
    return backoff(excess, 0.0) if excess > 0 else 0.0


def follows_at_once(follow_ups: int) -> bool:
    """Whether another reconcile follows without a pause."""
    return follow_ups > 0 and not follow_up_pause(follow_ups)
