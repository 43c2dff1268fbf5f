"""The clock and the random numbers that backoff, credentials, discovery and watches use.

Promises:
- The package reads the time, sleeps and draws random numbers through a `Clock` only, so that a test can replace it.
- `monotonic` never jumps and measures durations. `now` is the wall clock, for timestamps of other programs.
- `uptime` also counts while the process is stopped or the machine is suspended.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol


class Clock(Protocol):
    """Time, sleep and random numbers."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""

    def random(self) -> float:
        """A number in [0, 1)."""

    async def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds."""


class SystemClock:
    """The clock of this machine and Python's random numbers."""

    monotonic = staticmethod(time.monotonic)
    now = staticmethod(time.time)
    random = staticmethod(random.random)
    sleep = staticmethod(asyncio.sleep)


def uptime() -> float:
    """Seconds since a fixed moment, which also count while the machine is suspended."""
    # On Linux CLOCK_MONOTONIC stops in a suspended machine; on macOS it doesn't, but `time.monotonic` does.
    return time.clock_gettime(_UPTIME)


_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

SYSTEM: Clock = SystemClock()
