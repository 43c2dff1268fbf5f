"""An informer: the reflectors that fill one cache, from their start to their end.

Promises:
- The state of an informer is read from memory.
- A reconcile waits for a new informer until it has synced, or `SYNC_DEADLINE` seconds at most.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import dataclass, field

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


@dataclass(slots=True, eq=False)
class Informer:
    """The reflectors of one resource, one for each watched namespace, or one for all namespaces."""

    resource: Resource
    """How the cluster serves the kind."""
    cache: Cache
    """The cache that all reflectors fill."""
    listener: Callable[[Reflector], None]
    """Is called when the state of a reflector changes."""
    reflectors: list[Reflector] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    """The running reflectors, one task each."""
    sync_deadline: float = 0.0
    """Until when reconciles wait for the first sync, by the loop's clock."""

    def add(self, reflector: Reflector) -> None:
        """Start one more reflector that fills the cache."""
        reflector.listen(self.listener)
        self.reflectors.append(reflector)
        # In a context of its own, so that its log lines don't name the reconcile that first needs the watch.
        watching = asyncio.create_task(reflector.run(), name=f"watch {reflector.scope}", context=Context())
        self.tasks.append(watching)
        self.sync_deadline = asyncio.get_running_loop().time() + SYNC_DEADLINE

    @property
    def synced(self) -> bool:
        """Whether every reflector has synced once. It stays true while a watch is interrupted, because the cache is
        still usable.
        """
        # A loop, because each reconcile asks several times for each kind.
        for reflector in self.reflectors:  # noqa: SIM110
            if not reflector.synced.is_set():
                return False
        return True

    @property
    def was_synced(self) -> bool:
        """Whether every reflector has synced once, even if it may not list or watch any more."""
        return all(reflector.was_synced for reflector in self.reflectors)

    @property
    def not_synced_reason(self) -> str:
        """Why it has not synced, '' if the API server has reported no reason."""
        unsynced = (reflector for reflector in self.reflectors if not reflector.synced.is_set())
        return next((reflector.problem for reflector in unsynced if reflector.problem), "")

    @property
    def problem(self) -> str:
        """`not_synced_reason`, and the permission that would help."""
        unsynced = (reflector for reflector in self.reflectors if not reflector.synced.is_set())
        return next((problem for each in unsynced if (problem := watch_problem(each))), "")

    @property
    def forbidden(self) -> bool:
        """Whether the operator lacks the permission to list or watch."""
        return any(reflector.state is ReflectorState.FORBIDDEN for reflector in self.reflectors)

    @property
    def missing(self) -> bool:
        """Whether the API server doesn't serve the resource."""
        return any(reflector.state is ReflectorState.MISSING for reflector in self.reflectors)

    def cancel(self) -> None:
        """Cancel the reflectors, without waiting for their end."""
        for task in self.tasks:
            task.cancel()

    async def stop(self) -> None:
        """Cancel the reflectors and wait for their end."""
        self.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


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
                await asyncio.gather(
                    *(each.synced_or_unavailable() for informer in unsynced for each in informer.reflectors)
                )
