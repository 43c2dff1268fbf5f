"""When parents resync: a phase for each parent within the interval, and a budget of applies a second for all of them.

Promises:
- Resyncs of different parents are spread over the interval: a hash of the uid gives each parent its phase, and the
  phase survives restarts.
- The budget grants resyncs in the order in which they were requested.
- A withdrawn request costs nothing.
- Times are in seconds, and arguments: those of the budget on the monotonic clock, those of a phase since the epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


def next_resync(uid: str, interval: float, now: float) -> float:
    """The first moment after `now` at which the parent's resync is due, in seconds since the epoch; `interval` in
    seconds, above 0.
    """
    phase = int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=4).digest(), "big") / 2**32 * interval
    periods = (now - phase) // interval + 1
    due = phase + periods * interval
    # A resync that is less than a tenth of the interval away would follow too soon after the reconcile that schedules
    # it.
    return due if due - now > interval / 10 else due + interval


class ResyncBudget(Generic[Key]):
    """Grants `rate` applies a second (above 0) to resyncs, in the order of their requests. After idle time it grants
    the applies of one second at once.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._requests: dict[Key, int] = {}
        """The applies that each waiting key requested, in the order of the requests."""
        self._requested = 0
        self._free_at = 0.0

    def __contains__(self, key: Key) -> bool:
        """Whether the key waits for its turn."""
        return key in self._requests

    def ask(self, key: Key, applies: int) -> None:
        """Request this number of applies. A key that waits already keeps its place and its number."""
        if key not in self._requests:
            self._requests[key] = max(applies, 1)
            self._requested += self._requests[key]

    def withdraw(self, key: Key) -> int:
        """Remove the key's request; returns the applies that it requested."""
        applies = self._requests.pop(key, 0)
        self._requested -= applies
        return applies

    def take(self, key: Key, now: float) -> None:
        """Spend the applies that the key requested."""
        self._free_at = max(self._free_at, now - 1.0) + self.withdraw(key) / self._rate

    def turn(self, now: float) -> tuple[Key, float] | None:
        """The key that is next, and the seconds until then; None if no key waits."""
        first = next(iter(self._requests), None)
        return None if first is None else (first, max(0.0, self._free_at - now))

    def lag(self, now: float) -> float:
        """Seconds that a request made now would wait."""
        return max(0.0, max(self._free_at, now - 1.0) + self._requested / self._rate - now)
