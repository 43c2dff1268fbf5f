"""Lets the event loop serve others between the long steps of a reconcile.

A parent may have thousands of children. Each step of its reconcile, such as the plan, takes time that is linear in
their number, and holds the event loop for that time: probes, the Lease, watches and other parents wait.

Promises:
- After a step that took LONG, the event loop runs all that is due, also what follows from it, such as the answer to a
  probe whose request arrived meanwhile.
- The reconcile of a usual parent is not interrupted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LONG = 0.02
"""Seconds of processor time. The steps of a usual reconcile take less than a millisecond together."""

PAUSE = 0.002
"""Seconds for which the reconcile leaves the loop to others. An answer to a probe takes several turns of the loop."""

BATCH = 100
"""Requests that a reconcile begins before it looks at the time."""


class LongSteps:
    """Measures the steps of one reconcile."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._since = clock()

    async def rest(self) -> None:
        """Between two steps: leave the loop to others if the steps since the last call took long."""
        if self._clock() - self._since >= LONG:
            await asyncio.sleep(PAUSE)
            self._since = self._clock()
