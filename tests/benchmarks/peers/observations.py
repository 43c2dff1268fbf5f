"""The observations of the benchmark's own watches: generations of children, and the time of each observation.

Promises:
- The watches decode only metadata of children, so they cost every contender the same.
- A time is that of the event's arrival in this process, by `time.perf_counter`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager

from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject
from tests.benchmarks.peers import job
from tests.benchmarks.server import Server

Key = tuple[GroupKind, str]


class Observations:
    """generations: of every object of the job, by kind and name. times: when that generation was first seen.
    observed: the generation in each Echo's status. last: the time of the last event.
    """

    def __init__(self) -> None:
        self.generations: dict[Key, int] = {}
        self.times: dict[Key, float] = {}
        self.observed: dict[str, int] = {}
        self.last = time.perf_counter()
        self._waiting: dict[Key, list[tuple[int, asyncio.Future[float]]]] = {}

    def newer(self, key: Key, generation: int) -> Awaitable[float]:
        """When the object was first seen with a greater generation."""
        made: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        if self.generations.get(key, -1) > generation:
            made.set_result(self.times[key])
        else:
            self._waiting.setdefault(key, []).append((generation, made))
        return made

    async def children(self, names: Iterable[str]) -> None:
        """Wait until each of these Echos has both children."""
        for name in names:
            for kind in (job.DEPLOYMENT, job.SERVICE):
                await self.newer((kind, name), -1)

    async def statuses(self, names: Iterable[str]) -> None:
        """Wait until the status of each of these Echos has its generation."""
        for name in names:
            while self.observed.get(name, 0) < self.generations[job.ECHO, name]:
                made: asyncio.Future[float] = asyncio.get_running_loop().create_future()
                self._waiting.setdefault((job.ECHO, f"{name}/status"), []).append((0, made))
                await made

    async def quiet(self, seconds: float) -> None:
        """Wait until `seconds` have passed without an event."""
        while (left := self.last + seconds - time.perf_counter()) > 0:  # noqa: ASYNC110 - a pause is no event
            await asyncio.sleep(left)

    def see(self, _: LiveObject | None, live: LiveObject | None) -> None:
        """Record an event."""
        now = self.last = time.perf_counter()
        if live is None:
            return
        kind, name = live.identity.group_kind, live.identity.name
        key = (kind, name)
        # Services have no generation.
        generation = live.metadata.generation
        if generation > self.generations.get(key, -1):
            self.generations[key] = generation
            self.times[key] = now
            self._wake(key, generation, now)
        if kind == job.ECHO:
            self.observed[name] = (live.body.get("status") or {}).get("observedGeneration", 0)
            self._wake((kind, f"{name}/status"), 1, now)

    def _wake(self, key: Key, generation: int, now: float) -> None:
        waiting = self._waiting.pop(key, None)
        if not waiting:
            return
        left = []
        for wanted, made in waiting:
            if generation <= wanted:
                left.append((wanted, made))
            elif not made.done():
                made.set_result(now)
        if left:
            self._waiting[key] = left


@asynccontextmanager
async def watched(server: Server) -> AsyncIterator[Observations]:
    """A observations that sees everything of the job's namespace while the block runs."""
    observations = Observations()
    reflectors = []
    for resource in server.resources.values():
        cache = Cache()
        cache.listen(observations.see)
        reflectors.append(Reflector(server.client, Scope(resource, job.NAMESPACE), cache))
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    try:
        for reflector in reflectors:
            await reflector.synced_or_unavailable()
        yield observations
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
