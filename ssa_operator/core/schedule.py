"""When to look again: ticks spread by uid, backoff with jitter, a budget for background work.

Promises:
- Ticks of different parents don't meet: each parent has its own phase within the interval, given by its uid, also
  over restarts.
- Backoff grows from its base to its cap and never stops retrying.
- Times are seconds on any one clock; now and jitter are arguments.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

BACKOFF_BASE = 0.5
BACKOFF_CAP = 120.0


def next_tick(uid: str, interval: float, now: float) -> float:
    """The first moment after `now` at which the parent's tick is due; `interval` in seconds, above 0."""
    phase = int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=4).digest(), "big") / 2**32 * interval
    periods = (now - phase) // interval + 1
    due = phase + periods * interval
    # A tick less than a tenth of the interval away would follow the pass that asks for it at once.
    return due if due - now > interval / 10 else due + interval


def doubled(base: float, cap: float, times: int) -> float:
    """`base` doubled so many times, and never more than `cap`."""
    return float(min(cap, base * 2.0 ** min(times, 30)))


def backoff(failures: int, jitter: float) -> float:
    """Seconds to wait after so many failures in a row (at least 1); `jitter` is in [0, 1) and takes up to half of it
    away.
    """
    return doubled(BACKOFF_BASE, BACKOFF_CAP, failures - 1) * (1 - jitter / 2)


def earliest(*moments: float | None) -> float | None:
    """The first of some moments, None where there is none."""
    return min((moment for moment in moments if moment is not None), default=None)


@dataclass(slots=True)
class Budget:
    """Slots for background applies, `rate` a second; bursts of one second are allowed after idle time."""

    rate: float
    _next: float = 0.0

    def reserve(self, applies: int, now: float) -> float:
        """The moment from which so many applies may be sent; they are taken off the budget."""
        start = max(self._next, now - 1.0)
        self._next = start + max(applies, 1) / self.rate
        return max(start, now)

    def lag(self, now: float) -> float:
        """Seconds by which background work is behind."""
        return max(0.0, self._next - now)
