"""When to look again: ticks spread by uid, backoff with jitter, a budget for background work.

Promises:
- Ticks of different parents don't meet: each parent has its own phase within the interval, given by its uid, also
  over restarts.
- Backoff grows from its base to its cap and never stops retrying.
- Times are seconds on any one clock; now and jitter are arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Generic, TypeVar

BACKOFF_BASE = 0.5
BACKOFF_CAP = 120.0

Key = TypeVar("Key", bound=Hashable)


def next_resync(uid: str, interval: float, now: float) -> float:
    """The first moment after `now` at which the parent's tick is due; `interval` in seconds, above 0."""
    phase = int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=4).digest(), "big") / 2**32 * interval
    periods = (now - phase) // interval + 1
    due = phase + periods * interval
    # A tick less than a tenth of the interval away would follow the pass that asks for it at once.
    return due if due - now > interval / 10 else due + interval


def exponential(base: float, cap: float, times: int) -> float:
    """`base` doubled so many times, and never more than `cap`."""
    return float(min(cap, base * 2.0 ** min(times, 30)))


def backoff(failures: int, jitter: float) -> float:
    """Seconds to wait after so many failures in a row (at least 1); `jitter` is in [0, 1) and takes up to half of it
    away.
    """
    return exponential(BACKOFF_BASE, BACKOFF_CAP, failures - 1) * (1 - jitter / 2)


def earliest(*moments: float | None) -> float | None:
    """The first of some moments, None where there is none."""
    return min((moment for moment in moments if moment is not None), default=None)


class ResyncBudget(Generic[Key]):
    """Background applies: `rate` a second (above 0), given to whoever asked first; bursts of one second are allowed
    after idle time. What somebody asks for and then withdraws costs nothing.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._line: dict[Key, int] = {}
        self._asked = 0
        self._free = 0.0

    def __contains__(self, key: Key) -> bool:
        """Whether it waits for its turn."""
        return key in self._line

    def ask(self, key: Key, applies: int) -> None:
        """Stand in line for so many applies; whoever stands there already stays where it is."""
        if key not in self._line:
            self._line[key] = max(applies, 1)
            self._asked += self._line[key]

    def withdraw(self, key: Key) -> int:
        """Leave the line; returns what was asked for."""
        applies = self._line.pop(key, 0)
        self._asked -= applies
        return applies

    def take(self, key: Key, now: float) -> None:
        """Have one's turn."""
        self._free = max(self._free, now - 1.0) + self.withdraw(key) / self._rate

    def turn(self, now: float) -> tuple[Key, float] | None:
        """Whose turn is next, and the seconds until then; None where nobody waits."""
        first = next(iter(self._line), None)
        return None if first is None else (first, max(0.0, self._free - now))

    def lag(self, now: float) -> float:
        """Seconds until whoever asks now has its turn."""
        return max(0.0, max(self._free, now - 1.0) + self._asked / self._rate - now)
