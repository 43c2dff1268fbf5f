"""Time and chance, as everything that waits asks for them.

Promises:
- Nothing in this package reads a clock, sleeps or draws a number but through a `Clock`.
- `monotonic` never jumps and is for durations; `now` is the wall clock and is for comparing with what others wrote.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol


class Clock(Protocol):
    """What passes and what is drawn."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""

    def random(self) -> float:
        """A number in [0, 1)."""

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""


class SystemClock:
    """The clock of this machine and Python's random numbers."""

    monotonic = staticmethod(time.monotonic)
    now = staticmethod(time.time)
    random = staticmethod(random.random)
    sleep = staticmethod(asyncio.sleep)


SYSTEM: Clock = SystemClock()
