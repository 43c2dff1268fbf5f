"""Lets the event loop serve others between the long steps of a reconcile.

A parent may have thousands of children. Each step of its reconcile, such as the plan, takes time that is linear in
their number, and holds the event loop for that time: probes, the Lease, watches and other parents wait.

Promises:
- After a step that took LONG, the event loop runs all that is due, also what follows from it, such as the answer to a
  probe whose request arrived meanwhile.
- The reconcile of a usual parent is not interrupted, however long others hold the event loop while it waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial
from itertools import chain, islice
from types import coroutine
from typing import Any, TypeVar

LONG = 0.02
"""Seconds for which steps hold the event loop. Those of a usual reconcile take less than a millisecond together."""

PAUSE = 0.002
"""Seconds for which the reconcile leaves the loop to others. An answer to a probe takes several turns of the loop."""

BATCH = 100
"""Requests that a reconcile begins before it looks at the time."""

Done = TypeVar("Done")


async def run_all(coroutines: Iterable[Coroutine[Any, Any, Done]]) -> list[Done]:
    """Run all at once and return their results. They begin in batches, so that a thousand hold up nothing else. Raises
    the first error of one, after the others were cancelled, because the parent goes back to the queue and another
    worker may reconcile it at once. A single one needs no task of its own.
    """
    remaining = iter(coroutines)
    begun = [*islice(remaining, 2)]
    if len(begun) < 2:
        return [await coroutine for coroutine in begun]
    tasks: list[asyncio.Task[Done]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in chain(begun, remaining):
                tasks.append(group.create_task(coroutine))
                if len(tasks) % BATCH == 0:
                    await asyncio.sleep(PAUSE)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


class LongSteps:
    """Measures the steps of one reconcile: what runs in `measured`, between one suspension and the next."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._held = 0.0
        """Seconds that the steps before the last suspension took, since the last pause."""
        self._resumed = clock()

    @coroutine
    def measured(self, steps: Coroutine[Any, Any, Done]) -> Generator[Any, Any, Done]:
        """The result of a coroutine whose steps are measured."""
        resume = partial(steps.send, None)
        while True:
            self._resumed = self._clock()
            try:
                awaited = resume()
            except StopIteration as end:
                result: Done = end.value
                return result
            self._held += self._clock() - self._resumed
            try:
                yield awaited
                resume = partial(steps.send, None)
            except BaseException as error:  # noqa: BLE001 - the coroutine gets it, a cancellation too
                resume = partial(steps.throw, error)

    async def rest(self) -> None:
        """Between two steps: leave the loop to others if the steps since the last pause took long together."""
        if self._held + self._clock() - self._resumed >= LONG:
            await asyncio.sleep(PAUSE)
            self._held, self._resumed = 0.0, self._clock()
