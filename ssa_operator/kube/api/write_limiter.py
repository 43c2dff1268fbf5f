"""Limits the number of parallel writes: the limit rises while the API server accepts them and halves at a 429.

Promises:
- The limit rises additively and falls multiplicatively: several 429s for writes that were sent together halve it once.
- The limit is never less than one write.
- Waiting writes start in the order in which they arrived. A cancelled write frees its slot.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

INITIAL_WRITES = 32
"""The first limit: about as many writes saturate an API server with two cores."""

MAX_WRITES = 128


class WriteLimiter:
    """The current limit of parallel writes, the running writes and those that wait for a slot."""

    def __init__(self) -> None:
        self.limit = float(INITIAL_WRITES)
        self.running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._started = 0
        self._lowered_at = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a slot and hold it. The value is the write's number, for `throttled`."""
        if self.running >= int(self.limit) or self._waiting:
            slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(slot)
            try:
                await slot
            except asyncio.CancelledError:
                if slot.done() and not slot.cancelled():
                    self._release()
                else:
                    self._waiting.remove(slot)
                raise
        else:
            self.running += 1
        self._started += 1
        try:
            yield self._started
        finally:
            self._release()

    def accepted(self) -> None:
        """The API server accepted a write. As many accepted writes as there are slots add one slot."""
        if self.running >= int(self.limit) and self.limit < MAX_WRITES:
            self.limit += 1 / self.limit

    def throttled(self, number: int) -> None:
        """The API server answered this write with 429. Only the first 429 of the writes that are running halves the
        limit.
        """
        if number > self._lowered_at:
            self._lowered_at = self._started
            self.limit = max(1.0, self.limit / 2)

    def _release(self) -> None:
        self.running -= 1
        while self._waiting and self.running < int(self.limit):
            slot = self._waiting.popleft()
            if not slot.done():
                self.running += 1
                slot.set_result(None)
