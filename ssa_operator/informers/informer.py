"""The informers of a cache's users, each with one reflector, from its start to its end.

Promises:
- The state of an informer is read from memory.
- A reconcile waits for a new informer until it has synced, or `SYNC_DEADLINE` seconds at most.
- An informer that is not used any more keeps running for `GRACE_PERIOD` seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import Context
from dataclasses import dataclass
from typing import Generic, TypeVar

from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector, ReflectorState

GRACE_PERIOD = 30.0
"""Seconds for which an unused informer keeps running, because a template or a condition may change back."""

SYNC_DEADLINE = 5.0
"""Seconds for which a reconcile waits for a new informer. After that it reports what it waits for, and the parent is
requeued.
"""

Shown = TypeVar("Shown", bound=Hashable)
"""What an informer shows."""


@dataclass(slots=True, eq=False)
class Informer:
    """A reflector that runs."""

    reflector: Reflector
    task: asyncio.Task[None]
    sync_deadline: float
    """Until when reconciles wait for the first sync, by the loop's clock."""

    @property
    def resource(self) -> Resource:
        """How the cluster serves the kind."""
        return self.reflector.scope.resource

    @property
    def cache(self) -> Cache:
        return self.reflector.cache

    @property
    def synced(self) -> bool:
        """Whether it has synced once. It stays true while a watch is interrupted: the cache is still usable."""
        return self.reflector.synced.is_set()

    @property
    def was_synced(self) -> bool:
        """Whether it has synced once, even if it may not list or watch any more."""
        return self.reflector.was_synced

    @property
    def problem(self) -> str:
        """Why it has not synced, and the permission that would help; '' if no reason is known."""
        return "" if self.synced else watch_problem(self.reflector)

    @property
    def forbidden(self) -> bool:
        """Whether the operator lacks the permission to list or watch."""
        return self.reflector.state is ReflectorState.FORBIDDEN

    @property
    def missing(self) -> bool:
        """Whether the API server doesn't serve the resource."""
        return self.reflector.state is ReflectorState.MISSING

    async def stop(self) -> None:
        """Cancel the reflector and wait for its end."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Informers(ABC, Generic[Shown]):
    """The informers by what they show. A subclass says what is used, and keeps what they showed."""

    def __init__(self) -> None:
        self.informers: dict[Shown, Informer] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def reflectors(self) -> Iterator[Reflector]:
        return (informer.reflector for informer in self.informers.values())

    @property
    def tasks(self) -> Iterator[asyncio.Task[None]]:
        """The running reflectors, one task each."""
        return (informer.task for informer in self.informers.values())

    async def close(self) -> None:
        """Stop every informer."""
        for shown in [*self.informers]:
            self._stop(shown)
        await asyncio.gather(*self._stopping, return_exceptions=True)

    def _start(self, shown: Shown, reflector: Reflector, listener: Callable[[Reflector], None]) -> Informer:
        """Run a reflector. `listener` is called when its state changes."""
        reflector.listen(listener)
        # In a context of its own, so that its log lines don't name the reconcile that first needs the watch.
        watching = asyncio.create_task(reflector.run(), name=f"watch {reflector.scope}", context=Context())
        deadline = asyncio.get_running_loop().time() + SYNC_DEADLINE
        informer = self.informers[shown] = Informer(reflector, watching, deadline)
        return informer

    def _stop_later(self, shown: Shown) -> None:
        """Stop an informer if it is still not used after a while."""
        asyncio.get_running_loop().call_later(GRACE_PERIOD, self._stop_if_unused, shown)

    def _stop_if_unused(self, shown: Shown) -> None:
        if not self._is_used(shown):
            self._stop(shown)

    def _stop(self, shown: Shown) -> None:
        # Its own listener may call this, so that its end can't be awaited here.
        informer = self.informers.pop(shown, None)
        if informer is not None:
            self._stopped(shown, informer)
            informer.task.cancel()
            self._stopping.add(informer.task)
            informer.task.add_done_callback(self._stopping.discard)

    @abstractmethod
    def _is_used(self, shown: Shown) -> bool:
        """Whether a parent needs what an informer shows."""

    @abstractmethod
    def _stopped(self, shown: Shown, informer: Informer) -> None:
        """Forget what an informer showed."""


def watch_problem(reflector: Reflector) -> str:
    """Why a reflector has not synced, and the permission that would help; '' if no reason is known."""
    if reflector.state is not ReflectorState.FORBIDDEN:
        return reflector.problem
    return f"{reflector.problem}; {_permission_hint(reflector.scope)}"


def _permission_hint(scope: Scope) -> str:
    """The permission that the operator needs to watch a scope."""
    if scope.hidden:
        return f"allow the operator to list and watch {scope.resource.name}"
    named = f"{scope.resource.name} (at least {scope.name}, by resourceNames)"
    what = named if scope.name else scope.resource.name
    where = scope.namespace or ("all namespaces" if scope.resource.namespaced else "the cluster")
    return f"allow the operator to list and watch {what} in {where}"


async def wait_for_sync(informers: Iterable[Informer]) -> None:
    """Wait until each of these informers has synced or has failed to, at most until `SYNC_DEADLINE` after its start.

    A resource that can't be listed delays reconciles only once.
    """
    unsynced = [informer for informer in informers if not informer.synced]
    deadline = max((informer.sync_deadline for informer in unsynced), default=0.0)
    if deadline > asyncio.get_running_loop().time():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await asyncio.gather(*(informer.reflector.synced_or_unavailable() for informer in unsynced))
