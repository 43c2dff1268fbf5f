"""One watch: the reflectors that fill one cache, from their start to their end.

Promises:
- What is asked of a watch is answered from memory; only waiting for it to be synced takes time, and has a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector, ReflectorState

SYNC_DEADLINE = 5.0
"""Seconds for which a pass waits for a new watch; after that it reports what it waits for and looks again later."""


@dataclass(slots=True, eq=False)
class Informer:
    """The reflectors of one resource, one for each namespace that is looked at, or one for all.

    listener: is called when the state of a reflector changes. patience_ends: until when passes wait, by the loop's
    clock.
    """

    resource: Resource
    cache: Cache
    listener: Callable[[Reflector], None]
    reflectors: list[Reflector] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    patience_ends: float = 0.0

    def add(self, reflector: Reflector) -> None:
        """Have one more reflector fill the cache."""
        reflector.listen(self.listener)
        self.reflectors.append(reflector)
        self.tasks.append(asyncio.create_task(reflector.run(), name=f"watch {reflector.scope}"))
        self.patience_ends = asyncio.get_running_loop().time() + SYNC_DEADLINE

    @property
    def namespaces(self) -> set[str]:
        return {reflector.scope.namespace for reflector in self.reflectors}

    @property
    def synced(self) -> bool:
        """Whether everything is known. A watch that is interrupted for a while stays so: its cache is still good."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    @property
    def problem(self) -> str:
        """Why it isn't synced, '' where that has no reason worth telling."""
        unsynced = (reflector for reflector in self.reflectors if not reflector.synced.is_set())
        return next((reflector.problem for reflector in unsynced if reflector.problem), "")

    @property
    def forbidden(self) -> bool:
        """Whether we lack a right."""
        return any(reflector.state is ReflectorState.FORBIDDEN for reflector in self.reflectors)

    @property
    def missing(self) -> bool:
        """Whether the server has no such resource."""
        return any(reflector.state is ReflectorState.MISSING for reflector in self.reflectors)

    def cancel(self) -> None:
        """Have it end soon."""
        for task in self.tasks:
            task.cancel()

    async def stop(self) -> None:
        """End it."""
        self.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def until_settled(watches: Iterable[Informer]) -> None:
    """Wait until these watches are synced or known not to be possible, at most until `SYNC_DEADLINE` after their start:
    what can't be listed holds passes up once, not each time.
    """
    new = [watch for watch in watches if not watch.synced]
    deadline = max((watch.patience_ends for watch in new), default=0.0)
    if deadline > asyncio.get_running_loop().time():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await asyncio.gather(*(each.synced_or_unavailable() for watch in new for each in watch.reflectors))
