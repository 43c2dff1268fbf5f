"""The recorder: writes Events on parents, in a background task.

Promises:
- An Event delays no reconcile and fails none. While parents wait in the work queue, Events wait too, each for
  `MAX_DELAY` seconds at most.
- The operator writes `RATE` Events a second, warnings first. It drops and counts those that exceed the queue, or a
  parent's part of it.
- An Event that repeats within `SERIES_FINISH_TIME` is counted in the `series` of the existing one, as in client-go's
  `tools/events`. The count is written every `HEARTBEAT`, and when the operator stops.
- A missing permission is logged once. The operator writes no Event to that namespace for `FORBIDDEN_PAUSE` seconds.
- When the operator stops, it writes the Events that wait, for `FLUSH_DEADLINE` seconds at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from msgspec import Struct

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.scalars import micro_time
from ssa_operator.reconcile.retries import RateLimit
from ssa_operator.reconcile.status.events import Event, event_body

log = logging.getLogger("ssa_operator")

EVENTS = Resource(group="events.k8s.io", version="v1", kind="Event", plural="events", namespaced=True)

RATE = 10.0
"""Events that are written in a second, and at once after a second without any."""

QUEUE_LIMIT, PARENT_LIMIT = 1000, 25
"""Events that can wait to be written: of all parents, and of one of them."""

SERIES_FINISH_TIME = 360.0
"""Seconds without a repetition after which a series is over."""

SERIES_LIMIT = 4096
"""Series that are kept. The least recently used one is dropped first."""

HEARTBEAT = 30.0
"""Seconds between two writes of a series."""

FLUSH_DEADLINE = 2.0
"""Seconds that a stopping operator has to write the Events that wait."""

MAX_DELAY = 1.0
"""Seconds for which an Event waits while parents wait in the work queue."""

FORBIDDEN_PAUSE = 600.0
"""Seconds for which the operator writes no Event to a namespace that it may not write Events to."""


class _Series(Struct, eq=False):
    """An Event, and how often it occurred. Times are in seconds on the process's monotonic clock."""

    key: tuple[str | bool, ...]
    """Two Events with the same key are one series."""
    parent: str
    """The uid of the parent that it is counted for."""
    body: dict[str, Any]
    """The Event as it occurred first; once it is created, its name and namespace only."""
    count: int = 0
    last: float = 0.0
    """When it occurred last."""
    last_wall: float = 0.0
    """The same in seconds since the epoch."""
    written: int = 0
    """The count that was written last, 0 until the Event is created."""
    written_at: float = 0.0

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"]["namespace"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    def request(self) -> calls.Request:
        """The request that creates the Event, or writes its count: the API server allows no other change of it."""
        last = micro_time(self.last_wall)
        series = {"series": {"count": self.count, "lastObservedTime": last}} if self.count > 1 else {}
        if self.written:
            return calls.merge_patch(EVENTS, self.namespace, self.name, encode(series))
        return calls.create(EVENTS, self.namespace, encode(self.body | series))


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
        self._instance = socket.gethostname()  # in a pod, the pod's name
        self._series: OrderedDict[tuple[str | bool, ...], _Series] = OrderedDict()
        self._queue: deque[_Series] = deque()
        self._limit = RateLimit(RATE)
        self._wake_up = asyncio.Event()
        self._closed = asyncio.Event()
        self._paused_until: dict[str, float] = {}
        self._warned = False

    def emit(self, parent: LiveObject, events: Iterable[Event]) -> None:
        """Queue Events on a parent to be written."""
        for event in events:
            now, regarding = self._clock.monotonic(), event.regarding or parent
            key = (regarding.uid, event.warning, event.reason, event.action, event.note)
            series = self._series.pop(key, None)
            is_new = series is None or now - series.last > SERIES_FINISH_TIME
            if series is None or is_new:
                series = _Series(key, parent.uid, event_body(event, regarding, self._instance, self._clock.now()))
            self._series[key] = series
            series.count, series.last, series.last_wall = series.count + 1, now, self._clock.now()
            if len(self._series) > SERIES_LIMIT:
                self._series.popitem(last=False)
            if is_new:
                self._enqueue(series, first=event.warning)

    async def run(self) -> None:
        """Write queued Events until the recorder is closed, and then the rest."""
        while not self._closed.is_set():
            await _within(HEARTBEAT, self._wake_up.wait())
            self._wake_up.clear()
            await self._drain()
        await self._drain()

    async def close(self, running: asyncio.Task[None]) -> None:
        """End the task `running`, which is `run`: at once if no Event waits, else after FLUSH_DEADLINE at most."""
        self._closed.set()
        self._wake_up.set()
        await asyncio.wait([running], timeout=FLUSH_DEADLINE)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    def _enqueue(self, series: _Series, *, first: bool) -> None:
        if [each.parent for each in self._queue].count(series.parent) >= PARENT_LIMIT:
            self._drop(series)
            return
        if first:
            self._queue.appendleft(series)
        else:
            self._queue.append(series)
        self._wake_up.set()
        if len(self._queue) > QUEUE_LIMIT:
            self._drop(self._queue.pop())

    def _drop(self, series: _Series) -> None:
        """Forget an Event that is not written: the next repetition is a new one."""
        self._count("dropped")
        self._forget(series)

    def _forget(self, series: _Series) -> None:
        if self._series.get(series.key) is series:
            del self._series[series.key]

    def _due_counts(self) -> Iterator[_Series]:
        """The series whose counts are due. Removes those that are over."""
        now = self._clock.monotonic()
        for series in list(self._series.values()):
            over = now - series.last > SERIES_FINISH_TIME
            if 0 < series.written < series.count:
                if over or self._closed.is_set() or now - series.written_at >= HEARTBEAT:
                    yield series
            elif over and series.written:
                del self._series[series.key]

    async def _drain(self) -> None:
        counts = deque(self._due_counts())
        while self._queue or counts:
            if not self._closed.is_set():
                await _within(MAX_DELAY, self._until_queue_empty())
                if pause := self._limit.pause(self._clock.monotonic()):
                    await _within(pause, self._closed.wait())
            series = self._queue.popleft() if self._queue else counts.popleft()
            if self._paused_until.get(series.namespace, 0.0) > self._clock.monotonic():
                self._drop(series)
            else:
                await self._write(series)

    async def _write(self, series: _Series) -> None:
        # A repeated request has no further effect: an Event has its own name, and a series its count.
        request, count = replace(series.request(), idempotent=True), series.count
        try:
            await self._client.send(request)
        except Exception as error:  # noqa: BLE001 - an Event fails nothing
            if not (isinstance(error, ApiError) and error.already_exists):
                self._failed(series, error)
                return
        series.written, series.written_at = count, self._clock.monotonic()
        series.body = {"metadata": series.body["metadata"]}
        self._count("written")

    def _failed(self, series: _Series, error: Exception) -> None:
        self._count("failed")
        self._forget(series)
        if isinstance(error, ApiError) and (error.forbidden or error.unknown_resource):
            self._paused_until[series.namespace] = self._clock.monotonic() + FORBIDDEN_PAUSE
            if not self._warned:
                self._warned = True
                log.warning(
                    "events are not written: %s; grant the operator create and patch on events.events.k8s.io", error
                )
        elif isinstance(error, ApiError | CredentialsError):
            log.debug("an event was not written: %s", error)
        else:
            log.error("the event %s/%s could not be written", series.namespace, series.name, exc_info=error)


async def _within(seconds: float, waiting: Awaitable[object]) -> None:
    """Wait for something, this number of seconds at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting
