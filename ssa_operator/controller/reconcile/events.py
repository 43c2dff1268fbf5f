"""Writing events, beside the passes and never in their way.

Promises:
- Telling costs a pass no request and can't fail it: one task in the background writes, and what it can't keep up with
  is dropped and counted.
- While parents wait for their passes, events are put off, each for `PATIENCE` at most.
- Missing rights are said once; then the namespace is left alone for a while.
- When the operator stops, what was told is written, for as long as `FLUSH` at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from ssa_operator.controller.metrics import Metrics
from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.status.event_aggregation import HEARTBEAT, EventCorrelator, EventDropped, Write
from ssa_operator.core.status.events import Event, series_body
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError

log = logging.getLogger("ssa_operator")

EVENTS = Resource(group="events.k8s.io", version="v1", kind="Event", plural="events", namespaced=True)

QUEUE = 1000
"""Events that wait to be written at most."""

FLUSH = 2.0
"""Seconds that the events of a stopping operator get."""

PATIENCE = 1.0
"""Seconds for which an event waits for passes."""

SILENCE = 600.0
"""Seconds for which a namespace that events may not be written to is left alone."""


class Recorder:
    """Tells events on parents. `run` writes them until `close`, whenever `calm` returns."""

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        calm: Callable[[], Awaitable[None]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._calm = calm
        self._metrics = metrics
        self._now = now
        # In a pod, this is the pod's name.
        self._correlator = EventCorrelator(socket.gethostname(), now())
        self._queue: deque[Write] = deque()
        self._news = asyncio.Event()
        self._closed = False
        self._silent: dict[str, float] = {}
        self._complained = False

    def tell(self, parent: LiveObject, events: Iterable[Event]) -> None:
        """Have events written on a parent."""
        for event in events:
            try:
                write = self._correlator.correlate(parent, event, self._now())
            except EventDropped:
                self._count("dropped")
                continue
            if write is not None:
                self._put(write)

    async def run(self) -> None:
        """Write what is told until the recorder is closed, and then what is left."""
        while not self._closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT):
                    await self._news.wait()
            self._news.clear()
            self._put_all(self._correlator.due_series(self._now()))
            await self._drain()
        self._put_all(self._correlator.due_series(self._now(), end=True))
        await self._drain()

    async def close(self, running: asyncio.Task[None]) -> None:
        """End `run`, which `running` is: at once where nothing is left to write."""
        self._closed = True
        self._news.set()
        await asyncio.wait([running], timeout=FLUSH)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    def _put_all(self, writes: Iterable[Write]) -> None:
        for write in writes:
            self._put(write)

    def _put(self, write: Write) -> None:
        if len(self._queue) >= QUEUE:
            self._count("dropped")
            return
        self._queue.append(write)
        self._news.set()

    async def _drain(self) -> None:
        while self._queue:
            write = self._queue.popleft()
            if self._silent.get(write.namespace, 0.0) > self._now():
                self._count("dropped")
                continue
            await self._wait()
            try:
                await self._write(write)
            except (ApiError, CredentialsError) as error:
                self._failed(write, error)
            except Exception:
                log.exception("the event %s/%s could not be written", write.namespace, write.name)
                self._count("failed")
            else:
                self._count("written")

    async def _wait(self) -> None:
        if not self._closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._calm()

    async def _write(self, write: Write) -> None:
        if write.series is not None:
            patch = encode(series_body(write.series))
            request = calls.merge_patch(EVENTS, write.namespace, write.name, patch)
        else:
            request = calls.create(EVENTS, write.namespace, encode(write.body or {}))
        try:
            # An event has a name of its own, a series its count: twice is once.
            await self._client.send(replace(request, repeatable=True))
        except ApiError as error:
            if not error.already_exists:
                raise

    def _failed(self, write: Write, error: ApiError | CredentialsError) -> None:
        self._count("failed")
        self._correlator.forget(write.namespace, write.name)
        if isinstance(error, ApiError) and (error.forbidden or error.unknown_resource):
            self._silent[write.namespace] = self._now() + SILENCE
            if not self._complained:
                self._complained = True
                log.warning("events are not written: %s; grant create and patch on events.events.k8s.io", error)
        else:
            log.debug("an event was not written: %s", error)

    def _count(self, result: str) -> None:
        self._metrics.events.labels(result).inc()
