"""Keeps slow renders apart, so that the event loop serves others between two of them.

Promises:
- Between two slow renders of any parents, the event loop runs what else is due: the longest stall is one render.
- A fast render waits for no other one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

SLOW = 0.05
"""Seconds. A usual render takes less than a millisecond."""


class RenderTurns:
    """Knows the folders whose last render was slow. New templates count as slow until their first render."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, float]] = {}
        """By folder, the digest of the templates of the last render, and its seconds."""
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, folder: str, digest: str) -> AsyncIterator[None]:
        """Run the block, which renders this folder, in its turn. `digest` is that of the folder's templates.

        After the block, nothing awaits: what was rendered is as new as the caches.
        """
        last, seconds = self._last.get(folder, ("", 0.0))
        if last == digest and seconds < SLOW:
            started = time.perf_counter()
            yield
            self._last[folder] = (digest, time.perf_counter() - started)
            return
        async with self._lock:
            # The loop polls its sockets after the slow render before.
            await asyncio.sleep(0)
            started = time.perf_counter()
            yield
            self._last[folder] = (digest, time.perf_counter() - started)
