"""How many writes may be under way at once: more while the API server takes them, half as many when it says 429.

Promises:
- Additive increase, multiplicative decrease: a burst of refusals to writes that were sent together counts once.
- There is always room for one write.
- Waiting writes go in the order in which they came; a cancelled one gives its place back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

START = 32
"""Writes at once to begin with: two cores' API server is saturated by about as many."""

MOST = 128


class WriteLimiter:
    """The writes under way, and how many may be."""

    def __init__(self) -> None:
        self.limit = float(START)
        self.running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._started = 0
        self._lowered_at = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[int]:
        """Wait for a place; the value is the turn's number, for `refused`."""
        if self.running >= int(self.limit) or self._waiting:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._leave()
                else:
                    self._waiting.remove(turn)
                raise
        else:
            self.running += 1
        self._started += 1
        try:
            yield self._started
        finally:
            self._leave()

    def accepted(self) -> None:
        """A write went through: one more place after as many as there are places."""
        if self.running >= int(self.limit) and self.limit < MOST:
            self.limit += 1 / self.limit

    def refused(self, turn: int) -> None:
        """A write got 429. Only the first refusal among those already under way halves the limit."""
        if turn > self._lowered_at:
            self._lowered_at = self._started
            self.limit = max(1.0, self.limit / 2)

    def _leave(self) -> None:
        self.running -= 1
        while self._waiting and self.running < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)
