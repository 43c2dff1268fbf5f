"""One list and watch, kept alive until it is cancelled: a cache follows what the API server has.

Promises:
- No change is lost: after a gap that the server can't fill (410, in either of its forms) everything is listed again and
  what vanished meanwhile is delivered as deleted.
- Nothing that a server sends or fails to send ends `run`; trouble is a `state` and a `problem` in words, and is tried
  again with backoff (the rules of client-go's reflector).
- A stream that has gone silent is replaced from the last version.
- A streamed list that comes to no end is replaced by a paged one. The next list is streamed again, unless the server
  refused to stream lists, or fell silent in FAILURES streamed lists in a row: then it doesn't know them.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, StatusError, Unreachable, refusal
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.api.retry import watch_pause
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.watch_lines import Lines

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long a watch lasts and what counts as trouble; all in seconds."""

    shortest: float = 300.0
    longest: float = 600.0
    """The server is asked to end a watch between these two, so that watches spread over API servers."""

    silence: float = 70.0
    """A bookmark comes about every 60 s, so a stream without anything for longer is dead."""

    marker: float = 10.0
    """A streamed list that pauses for longer before its end marker may come from a server that doesn't know them."""

    brief: float = 1.0
    """A watch that ends sooner and without any event counts as an error."""

    healthy: float = 120.0
    """After that long without an error the backoff starts anew."""


class WatchState(enum.Enum):
    """Where a reflector stands."""

    SYNCING = "syncing"
    WATCHING = "watching"
    MISSING = "missing"  # the server has no such resource: its CRD is gone, or not there yet
    FORBIDDEN = "forbidden"  # we lack the right to list or to watch
    FAILING = "failing"  # anything else; it is tried again


FAILURES = 3
"""So many failures in a row make a `problem`; fewer are a passing thing that nobody has to be told of."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BookmarkMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMetadata


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode


class Reflector:
    """Fills a cache with the objects of one resource in one namespace ('' is all), with some labels ('' is all), of one
    name ('' is all).

    `secrecy` is what must not be said of it.

    `synced` is set once the cache has held everything; it is cleared while the resource is missing or forbidden.
    `restarts` counts the watches that were opened after the first one, `events` what came over them.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        cache: Cache,
        *,
        namespace: str = "",
        label_selector: str = "",
        name: str = "",
        redactor: Redactor = NO_SECRETS,
        timing: Timing = Timing(),
        clock: Clock = SYSTEM,
    ) -> None:
        self.resource = resource
        self.cache = cache
        self.scope = Scope(resource, namespace, label_selector, name, redactor)
        self.synced = asyncio.Event()
        self.state = WatchState.SYNCING
        self.problem = ""
        self.restarts = -1
        self.events = 0
        self.last_event: float | None = None
        self._client = client
        self._timing = timing
        self._clock = clock
        self._settled = asyncio.Event()
        self._listeners: list[Callable[[Reflector], None]] = []
        self._version = ""
        self._streams_lists = True
        self._silent_lists = 0
        self._page_next_list = False
        self._failures = 0
        self._failed_at = 0.0
        self._gone_at: float | None = None

    def listen(self, listener: Callable[[Reflector], None]) -> None:
        """Have `listener` called when `state` or `problem` changes."""
        self._listeners.append(listener)

    async def settled(self) -> None:
        """Wait until it is synced, or known that it can't be: the resource is missing or forbidden."""
        await self._settled.wait()

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._round()
            except (ApiError, CredentialsError) as error:
                await self._clock.sleep(self._failed(error))
            except Exception as error:
                log.exception("watch of %s: unexpected error", self.scope)
                self._version = ""
                await self._clock.sleep(self._failed(error))

    async def _round(self) -> None:
        if self._version or (self._streams_lists and not self._page_next_list):
            await self._watch()
            return
        await self._list()

    async def _list(self) -> None:
        mark = self.cache.mark()
        items, version = await self._client.list_scope(self.scope)
        self.cache.replace(items, version, mark=mark, namespace=self.scope.namespace)
        self._version = version
        self._page_next_list = False
        self._now_synced()

    async def _watch(self) -> None:
        """One stream, from its opening to its end; with no version to start from it begins with a list."""
        self.restarts += 1
        opened, before = self._clock.monotonic(), self.events
        timing = self._timing
        seconds = int(timing.shortest + (timing.longest - timing.shortest) * self._clock.random())
        request = calls.watch(self.scope, resource_version=self._version, seconds=seconds)
        stream = _Stream(self, self.cache.mark()) if not self._version else None
        try:
            silent = await self._consume(request, stream)
        except ApiError as error:
            if stream is not None and error.code in (400, 422):
                log.info("%s: the server does not stream lists (%s); listing in pages", self.scope, error.message)
                self._streams_lists = False
                return
            raise
        if stream is not None and not stream.done:
            self._note_unfinished_list(silent=silent)
            return
        if self.events == before and self._clock.monotonic() - opened < timing.brief:
            raise Unreachable(request.subject, "the server ended the watch at once, without any event", sent=True)

    def _note_unfinished_list(self, *, silent: bool) -> None:
        """A streamed list has no end marker. Any server may cut a stream; one that keeps it open and sends nothing more
        may have sent all objects, without a marker because it knows none (an aggregated API server).
        """
        self._silent_lists += silent
        self._streams_lists = self._silent_lists < FAILURES
        self._page_next_list = True
        how = "fell silent" if silent else "ended"
        log.info("%s: the streamed list %s before its end marker; listing in pages", self.scope, how)

    async def _consume(self, request: calls.Request, stream: _Stream | None) -> bool:
        """Take what comes until the stream ends, or falls silent, which is returned."""
        lines = Lines()
        async with self._client.stream(request) as pieces:
            if stream is None:
                self._now_synced()
            while True:
                filling = stream is not None and not stream.done
                piece = await _next(pieces, self._timing.marker if filling else self._timing.silence)
                if not piece:
                    return piece is None
                for line in lines.feed(piece):
                    self._take(line, stream, request)
                self.last_event = self._clock.monotonic()
                if self._version:
                    self.cache.advance(self._version, namespace=self.scope.namespace)

    def _take(self, line: bytes, stream: _Stream | None, request: calls.Request) -> None:
        self.events += 1
        try:
            event = _decode_event(line)
            if event.type == "BOOKMARK":
                self._bookmark(_decode_bookmark(event.object).metadata, stream)
                return
            if event.type != "ERROR":
                live = LiveObject(event.object)
        except msgspec.DecodeError as error:
            # Without it the cache would be wrong from here on: start over.
            self._version = ""
            raise Unreachable(request.subject, f"an event can't be read: {error}", sent=True) from error
        if event.type == "ERROR":
            raise ApiError(request.subject, self._refusal(bytes(event.object)))
        if stream is not None and not stream.done:
            stream.take(event.type, live)
            return
        if event.type == "DELETED":
            self.cache.remove(live)
        else:
            self.cache.upsert(live)
        self._version = live.resource_version

    def _refusal(self, body: bytes) -> StatusError:
        return refusal(0, body, confidential=self.resource.confidential, redactor=self.scope.redactor)

    def _bookmark(self, metadata: _BookmarkMetadata, stream: _Stream | None) -> None:
        if stream is None or stream.done:
            self._version = metadata.resource_version
        elif metadata.annotations.get(INITIAL_EVENTS_END) == "true":
            stream.finish(metadata.resource_version)
            self._silent_lists = 0
            self._version = metadata.resource_version
            self._now_synced()

    def _now_synced(self) -> None:
        self.synced.set()
        self._settled.set()
        self._become(WatchState.WATCHING, "")

    def _failed(self, error: Exception) -> float:
        """Take note of what went wrong; returns the seconds to wait."""
        now = self._clock.monotonic()
        if now - self._failed_at > self._timing.healthy:
            self._failures = 0
        self._failed_at = now
        self._failures += 1
        wait = watch_pause(self._failures, self._clock.random())
        if not isinstance(error, ApiError):
            self._become(WatchState.FAILING, f"{self.scope} can't be watched: {error}")
            return wait
        if error.gone:
            log.info("%s: %s; listing again", self.scope, error.message)
            self._version = ""
            # The server answers, so whatever failed before is over; only one that says nothing but 410 is waited for.
            first = self._gone_at is None or now - self._gone_at > self._timing.healthy
            self._gone_at = now
            return 0.0 if first else wait
        if error.unknown_resource or error.forbidden:
            self._version = ""
            self.synced.clear()
            self._become(WatchState.MISSING if error.unknown_resource else WatchState.FORBIDDEN, str(error))
            self._settled.set()
            return wait
        if error.too_large_resource_version or error.terminal:
            self._version = ""
        log.log(logging.WARNING if self._failures >= FAILURES else logging.INFO, "%s", error)
        self._become(WatchState.FAILING, str(error) if self._failures >= FAILURES else "")
        return max(wait, error.retry_after or 0.0)

    def _become(self, state: WatchState, problem: str) -> None:
        if (state, problem) == (self.state, self.problem):
            return
        self.state, self.problem = state, problem
        for listener in self._listeners:
            listener(self)


class _Stream:
    """The present objects of a watch that began without a version, until their end is marked (KEP-3157)."""

    def __init__(self, reflector: Reflector, mark: int) -> None:
        self._reflector = reflector
        self._mark = mark
        self._items: dict[tuple[str, str], LiveObject] = {}
        self.done = False

    def take(self, kind: str, live: LiveObject) -> None:
        key = (live.identity.namespace, live.identity.name)
        if kind == "DELETED":
            self._items.pop(key, None)
        else:
            self._items[key] = live

    def finish(self, version: str) -> None:
        reflector = self._reflector
        reflector.cache.replace(self._items.values(), version, mark=self._mark, namespace=reflector.scope.namespace)
        self._items.clear()
        self.done = True


async def _next(pieces: AsyncIterator[bytes], silence: float) -> bytes | None:
    """The next piece, empty where the stream has ended, None where it was silent for so many seconds."""
    try:
        async with asyncio.timeout(silence):
            return await anext(pieces)
    except StopAsyncIteration:
        return b""
    except TimeoutError:
        return None
