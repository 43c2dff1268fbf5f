"""The recorder: writes Events on parents, in a background task.

Promises:
- An Event delays no reconcile and fails none. If too many wait to be written, the operator drops and counts them.
- While parents wait in the work queue, Events wait too, each for `MAX_DELAY` seconds at most.
- A missing permission is logged once. The operator writes no Event to that namespace for `FORBIDDEN_PAUSE` seconds.
- When the operator stops, it writes the Events that wait, for `FLUSH_DEADLINE` seconds at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.status.event_aggregation import HEARTBEAT, EventCorrelator, EventDropped, Moment, Write
from ssa_operator.reconcile.status.events import Event, series_body

log = logging.getLogger("ssa_operator")

EVENTS = Resource(group="events.k8s.io", version="v1", kind="Event", plural="events", namespaced=True)

QUEUE_LIMIT = 1000
"""Events that can wait to be written."""

FLUSH_DEADLINE = 2.0
"""Seconds that a stopping operator has to write the Events that wait."""

MAX_DELAY = 1.0
"""Seconds for which an Event waits while parents wait in the work queue."""

FORBIDDEN_PAUSE = 600.0
"""Seconds for which the operator writes no Event to a namespace that it may not write Events to."""


class Recorder:
    """Writes Events on parents. `run` writes them until `close`, each when `until_queue_empty` returns.

    `count` is called with the result of each: `written`, `failed` or `dropped`.
    """

    def __init__(
        self,
        client: Client,
        count: Callable[[str], None],
        until_queue_empty: Callable[[], Awaitable[None]],
        clock: Clock = SYSTEM,
    ) -> None:
        self._client = client
        self._until_queue_empty = until_queue_empty
        self._count = count
        self._clock = clock
        # In a pod, this is the pod's name.
        self._correlator = EventCorrelator(socket.gethostname(), clock.monotonic())
        self._queue: deque[Write] = deque()
        self._wake_up = asyncio.Event()
        self._closed = False
        self._paused_until: dict[str, float] = {}
        self._warned = False

    def emit(self, parent: LiveObject, events: Iterable[Event]) -> None:
        """Queue Events on a parent to be written."""
        for event in events:
            try:
                write = self._correlator.correlate(parent, event, self._moment())
            except EventDropped:
                self._count("dropped")
                continue
            if write is not None:
                self._enqueue(write)

    def _moment(self) -> Moment:
        return Moment(self._clock.now(), self._clock.monotonic())

    async def run(self) -> None:
        """Write queued Events until the recorder is closed, and then the rest."""
        while not self._closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT):
                    await self._wake_up.wait()
            self._wake_up.clear()
            self._enqueue_all(self._correlator.due_series(self._clock.monotonic()))
            await self._drain()
        self._enqueue_all(self._correlator.due_series(self._clock.monotonic(), end=True))
        await self._drain()

    async def close(self, running: asyncio.Task[None]) -> None:
        """End the task `running`, which is `run`: at once if no Event waits, else after FLUSH_DEADLINE at most."""
        self._closed = True
        self._wake_up.set()
        await asyncio.wait([running], timeout=FLUSH_DEADLINE)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    def _enqueue_all(self, writes: Iterable[Write]) -> None:
        for write in writes:
            self._enqueue(write)

    def _enqueue(self, write: Write) -> None:
        if len(self._queue) >= QUEUE_LIMIT:
            self._count("dropped")
            return
        self._queue.append(write)
        self._wake_up.set()

    async def _drain(self) -> None:
        while self._queue:
            write = self._queue.popleft()
            if self._paused_until.get(write.namespace, 0.0) > self._clock.monotonic():
                self._count("dropped")
                continue
            await self._let_reconciles_go_first()
            try:
                await self._write(write)
            except (ApiError, CredentialsError) as error:
                self._failed(write, error)
            except Exception:
                log.exception("the event %s/%s could not be written", write.namespace, write.name)
                self._count("failed")
            else:
                self._count("written")

    async def _let_reconciles_go_first(self) -> None:
        if not self._closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MAX_DELAY):
                    await self._until_queue_empty()

    async def _write(self, write: Write) -> None:
        if write.series is not None:
            patch = encode(series_body(write.series))
            request = calls.merge_patch(EVENTS, write.namespace, write.name, patch)
        else:
            request = calls.create(EVENTS, write.namespace, encode(write.body or {}))
        try:
            # A repeated request has no further effect: an Event has its own name, and a series its count.
            await self._client.send(replace(request, idempotent=True))
        except ApiError as error:
            if not error.already_exists:
                raise

    def _failed(self, write: Write, error: ApiError | CredentialsError) -> None:
        self._count("failed")
        self._correlator.forget(write.namespace, write.name)
        if isinstance(error, ApiError) and (error.forbidden or error.unknown_resource):
            self._paused_until[write.namespace] = self._clock.monotonic() + FORBIDDEN_PAUSE
            if not self._warned:
                self._warned = True
                log.warning(
                    "events are not written: %s; grant the operator create and patch on events.events.k8s.io", error
                )
        else:
            log.debug("an event was not written: %s", error)
