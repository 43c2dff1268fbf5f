"""Keeps slow renders apart, so that the event loop serves others between two of them.

Promises:
- Between two slow renders of any parents, the event loop runs what else is due: the longest stall is one render.
- A render that is usually fast waits for no queue of slow ones. It waits for the loop to run what else is due after a
  slow one, because it may be slow itself this time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

SLOW = 0.05
"""Seconds. A usual render takes less than a millisecond."""


class RenderTurns:
    """Knows the folders whose last render was slow. New templates count as slow until their first render."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last: dict[str, tuple[str, float]] = {}
        """By folder, the digest of the templates of the last render, and its seconds."""
        self._lock = asyncio.Lock()
        self._polled = asyncio.Event()
        """Whether the event loop has polled its sockets since the last slow render."""
        self._polled.set()

    @asynccontextmanager
    async def turn(self, folder: str, digest: str) -> AsyncIterator[None]:
        """Run the block, which renders this folder, in its turn. `digest` is that of the folder's templates.

        After the block, nothing awaits: what was rendered is as new as the caches.
        """
        last, seconds = self._last.get(folder, ("", 0.0))
        if last == digest and seconds < SLOW:
            await self._wait_for_poll()
            with self._timed(folder, digest):
                yield
            return
        async with self._lock:
            # The loop polls its sockets after the slow render before.
            await asyncio.sleep(0)
            await self._wait_for_poll()
            with self._timed(folder, digest):
                yield

    async def _wait_for_poll(self) -> None:
        while not self._polled.is_set():  # another render that waited may have been slow just now
            await self._polled.wait()

    @contextmanager
    def _timed(self, folder: str, digest: str) -> Iterator[None]:
        started = self._clock()
        yield
        seconds = self._clock() - started
        self._last[folder] = (digest, seconds)
        if seconds >= SLOW:
            self._polled.clear()
            # The next turn of the loop polls the sockets, and runs what it found after all that was due before.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._polled.set)
