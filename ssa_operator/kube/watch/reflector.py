"""Lists and watches one scope until it is cancelled, and keeps a cache equal to the API server's objects.

Promises:
- The cache misses no change: after a 410 (in either of its forms) the reflector lists again, and the listeners get the
  objects that vanished in the meantime as deleted.
- No answer and no failure of the server ends `run`. The reflector sets `state` and `problem`, and retries with the
  backoff of client-go's reflector.
- The reflector replaces a silent watch by a new one from the last resourceVersion.
- The cache does not outlive the history of the API server. If a watch can't be opened because the server is away, or
  if its resourceVersion is older than that of the cache (its etcd was restored), the reflector lists again. A watch
  from a future resourceVersion would be silent until the server reaches it, and then miss what was before.
- An object that `keep` refuses is never in the cache. If it refuses a cached object after a change, the object is
  removed.
- The cache holds the result of `reduce` in place of the object, from the moment at which the object is read.
- After a change of the CRD's schema (`schema_changed`) the cache shows every object by the new schema. The listeners
  get the objects whose content differs, even if nothing wrote them since.
- The reflector replaces an unfinished streamed list by a paged one, and streams the next list again. It stops streaming
  lists if the server refuses them, or falls silent in FAILURES consecutive ones.

How it works:
`_version` is the resourceVersion up to which the cache is complete; '' means that there is none. `run` repeats one
step. Without a version the step is a list, which replaces the content of the cache: either a streamed list (a watch
without a resourceVersion, whose objects `_StreamedList` collects until the server's end marker), or a list in pages.
With a version the step is a watch from there. Each event changes the cache first, and moves the version afterwards, so
a watch that is opened again at the version misses nothing.

A failure either keeps the version or clears it. A watch that breaks keeps it: the next step watches from there, once
`_check_history` has compared it with the server's own version. Whatever may have cost an event clears it, and the next
step lists: a 410, an event that can't be read, a resource that is missing or forbidden, a server that is away when the
watch is opened, an error that would repeat, an exception of a listener. The list then shows the listeners what the
watch did not: `Cache.replace` compares the former content with the list. It takes `Cache.mark` from before the list
began, so that an own write which is newer than the list stays.

The API server answers every new request by a CRD's new schema, but it goes on to serve an open watch by the former one,
without the new fields, and ends it about a second later (crdHandler.tearDown in
apiextensions-apiserver/pkg/apiserver/customresource_handler.go). What that watch delivered is not delivered again. So
`schema_changed` ends the step at once, and after SCHEMA_DELAY the next one lists. The list may reach an API server that
has not seen the change yet. Then that server ends the watch after it, so the first end of a watch causes one more list.

`state` follows from the last step. SYNCING becomes WATCHING with the first complete list. MISSING and FORBIDDEN clear
`synced`, because the operator may no longer see the objects. FAILING does not: the cache was complete, and is only old.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import AsyncIterator, Callable, Iterable

import msgspec
from msgspec import Struct

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, Unreachable, read_error_status
from ssa_operator.kube.api.flow_control import watch_backoff
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.kube.watch.cache import Cache, version_number
from ssa_operator.kube.watch.watch_events import (
    INITIAL_EVENTS_END,
    BookmarkMetadata,
    LineError,
    LineSplitter,
    decode_bookmark,
    decode_event,
)
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.secret_fields import NO_SECRET_FIELDS, WHOLE

log = logging.getLogger(__name__)


class ReflectorTiming(Struct, frozen=True, kw_only=True):
    """The timeouts of a reflector, in seconds."""

    min_timeout: float = 300.0
    """The server ends each watch after a random time of at least this, so that watches spread over API servers."""

    max_timeout: float = 600.0
    """The upper bound of that random time."""

    silence_timeout: float = 70.0
    """A watch without any event or bookmark for this long is dead: the server sends a bookmark about every 60 s."""

    list_timeout: float = 10.0
    """A streamed list is unfinished if the server sends nothing for this long before the end marker."""

    short_watch: float = 1.0
    """A watch that ends sooner and without any event is an error."""

    backoff_reset: float = 120.0
    """After this long without an error the backoff starts from its first delay."""


_TIMING = ReflectorTiming()


class ReflectorState(enum.Enum):
    """Whether a reflector follows the API server, and if not, why."""

    SYNCING = "syncing"
    WATCHING = "watching"
    MISSING = "missing"  # the server does not serve the resource: its CRD does not exist
    FORBIDDEN = "forbidden"  # the operator lacks the permission to list or to watch
    FAILING = "failing"  # any other error; the reflector retries


FAILURES = 3
"""The number of failures in a row that set `problem`. Fewer failures are transient, and are not reported."""

SCHEMA_DELAY = 0.1
"""Seconds after which the API server answers new requests by a CRD's new schema. It learns of the change by a watch, as
the operator does.
"""

SCHEMA_LISTS = 2
"""Lists after a change of a CRD's schema: one at once, and one after the end of a watch that the API server may have
opened by the former schema.
"""


class Reflector:
    """Fills a cache with the objects of one scope."""

    def __init__(
        self,
        client: Client,
        scope: Scope,
        cache: Cache,
        *,
        keep: Callable[[LiveObject], bool] | None = None,
        reduce: Callable[[LiveObject], LiveObject] | None = None,
        timing: ReflectorTiming = _TIMING,
        clock: Clock = SYSTEM,
    ) -> None:
        """`keep` returns whether an object belongs in the cache; the reflector drops the others when it reads them. By
        default it keeps all objects of the scope. `reduce` returns the object to keep in place of one.
        """
        self.scope = scope
        self.cache = cache
        self.synced = asyncio.Event()
        """Set after the first complete list. Cleared while the resource is missing or forbidden."""
        self.was_synced = False
        """Whether there was a complete list, so that the cache had every object then."""
        self.state = ReflectorState.SYNCING
        self.problem = ""
        """The reason of the state, in words; '' without one."""
        self.restarts = -1
        """How many watches it opened after the first one."""
        self.events = 0
        """How many events and bookmarks it received."""
        self.last_event: float | None = None
        """When it last received something, by the clock's `monotonic`."""
        self._client = client
        self._keep = keep
        self._reduce = reduce
        self._timing = timing
        self._clock = clock
        self._synced_or_unavailable = asyncio.Event()
        self._listeners: list[Callable[[Reflector], None]] = []
        self._version = ""
        self._streams_lists = True
        self._silent_lists = 0
        self._page_next_list = False
        self._failures = 0
        self._failed_at = 0.0
        self._gone_at: float | None = None
        self._opened = False
        self._interrupted = False
        self._schema_lists = 0
        """How many lists a change of the schema still needs."""
        self._step_is_outdated = False
        """Whether the schema changed since the running list or watch began."""
        self._waiting: asyncio.Timeout | None = None
        """The wait for the next piece of a stream."""

    @property
    def resource(self) -> Resource:
        return self.scope.resource

    def listen(self, listener: Callable[[Reflector], None]) -> None:
        """Call `listener` whenever `state` or `problem` changes."""
        self._listeners.append(listener)

    @property
    def answered(self) -> bool:
        """Whether the server has listed the objects once, or has answered that the resource is missing or forbidden."""
        return self._synced_or_unavailable.is_set()

    async def synced_or_unavailable(self) -> None:
        """Wait until it is synced, or until the server answers that the resource is missing or forbidden."""
        await self._synced_or_unavailable.wait()

    def schema_changed(self) -> None:
        """List again, because the API server shows the objects by another schema now: at once, and when the next watch
        ends.
        """
        self._schema_lists = SCHEMA_LISTS
        self._step_is_outdated = True
        if self._waiting is not None:
            self._waiting.reschedule(0)

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list_or_watch()
            except (ApiError, CredentialsError) as error:
                await self._clock.sleep(self._record_failure(error))
            except Exception as error:
                log.exception("watch of %s: unexpected error", self.scope)
                self._version = ""
                await self._clock.sleep(self._record_failure(error))

    async def _list_or_watch(self) -> None:
        if self._step_is_outdated:
            await self._clock.sleep(SCHEMA_DELAY)
            self._step_is_outdated = False
            self._version = ""
        if self._version and self._interrupted:
            await self._check_history()
        if self._version or (self._streams_lists and not self._page_next_list):
            await self._watch()
            return
        await self._list()

    async def _check_history(self) -> None:
        """After an interruption: forget the version if the server's version is older, or if the server does not
        answer.
        """
        ours, self._version = self._version, ""
        theirs = await self._client.latest_version(self.scope)
        self._interrupted = False
        before, now = version_number(ours), version_number(theirs)
        if before is not None and now is not None and now < before:
            message = "%s: the API server went back from resourceVersion %s to %s; listing again"
            log.warning(message, self.scope, ours, theirs)
        else:
            self._version = ours

    async def _list(self) -> None:
        mark = self.cache.mark()
        items, version = await self._client.list_scope(self.scope, keep=self._keep, reduce=self._reduce)
        self._replace(items, version, mark)
        self._page_next_list = False

    async def _watch(self) -> None:
        """One watch, from its opening to its end. Without a resourceVersion it begins with a streamed list."""
        self.restarts += 1
        opened, before = self._clock.monotonic(), self.events
        timing = self._timing
        seconds = int(timing.min_timeout + (timing.max_timeout - timing.min_timeout) * self._clock.random())
        request = calls.watch(self.scope, resource_version=self._version, seconds=seconds)
        streamed = _StreamedList(self.cache.mark()) if not self._version else None
        try:
            silent = await self._read_stream(request, streamed)
        except ApiError as error:
            self._interrupted = isinstance(error, Unreachable)
            if self._interrupted and not self._opened:
                self._version = ""
            if streamed is not None and error.code in (400, 422):
                log.info("%s: the server does not stream lists (%s); listing in pages", self.scope, error.message)
                self._streams_lists = False
                return
            raise
        if self._step_is_outdated:
            return
        if streamed is not None and not streamed.done:
            self._page_after_unfinished_list(silent=silent)
            return
        self._interrupted = silent
        if self._schema_lists:
            self._version = ""
        if self.events == before and self._clock.monotonic() - opened < timing.short_watch:
            raise Unreachable(request.subject, "the server ended the watch at once, without any event", sent=True)

    def _page_after_unfinished_list(self, *, silent: bool) -> None:
        """List in pages next, because the streamed list had no end marker. Any server may cut a stream. A server that
        keeps it open and falls silent may not support end markers (an aggregated API server).
        """
        self._silent_lists += silent
        self._streams_lists = self._silent_lists < FAILURES
        self._page_next_list = True
        how = "fell silent" if silent else "ended"
        log.info("%s: the streamed list %s before its end marker; listing in pages", self.scope, how)

    async def _read_stream(self, request: calls.Request, streamed: _StreamedList | None) -> bool:
        """Process the stream's events until it ends or falls silent. Returns whether it fell silent."""
        lines = LineSplitter()
        self._opened = False
        async with self._client.stream(request) as pieces:
            self._opened = True
            if streamed is None:
                self._set_synced()
            while True:
                listing = streamed is not None and not streamed.done
                seconds = self._timing.list_timeout if listing else self._timing.silence_timeout
                piece = await self._next(pieces, seconds)
                if not piece or self._step_is_outdated:
                    return piece is None
                try:
                    complete = lines.feed(piece)
                except LineError as error:
                    raise Unreachable(request.subject, str(error), sent=True) from error
                for line in complete:
                    self._process(line, streamed, request)
                self.last_event = self._clock.monotonic()
                if self._version:
                    self.cache.advance(self._version, namespace=self.scope.namespace)

    async def _next(self, pieces: AsyncIterator[bytes], seconds: float) -> bytes | None:
        """The next piece: empty if the stream has ended, None if it was silent for `seconds` or the schema changed."""
        try:
            async with asyncio.timeout(seconds) as self._waiting:
                return await anext(pieces)
        except StopAsyncIteration:
            return b""
        except TimeoutError:
            return None
        finally:
            self._waiting = None

    def _process(self, line: bytes, streamed: _StreamedList | None, request: calls.Request) -> None:
        self.events += 1
        try:
            event = decode_event(line)
            if event.type == "BOOKMARK":
                self._process_bookmark(decode_bookmark(event.object).metadata, streamed)
                return
            if event.type != "ERROR":
                live = self._client.live_object(event.object)
        except msgspec.DecodeError as error:
            # The cache misses this event, so the reflector has to list again.
            self._version = ""
            raise Unreachable(request.subject, f"an event can't be read: {error}", sent=True) from error
        if event.type == "ERROR":
            status = read_error_status(
                0,
                bytes(event.object),
                confidential=self.resource.confidential,
                secret=WHOLE if self.scope.hidden else NO_SECRET_FIELDS,
            )
            raise ApiError(request.subject, status)
        kept = self._keep is None or self._keep(live)
        if kept and self._reduce is not None and event.type != "DELETED":
            live = self._reduce(live)
        if streamed is not None and not streamed.done:
            streamed.add(event.type if kept else "DELETED", live)
            return
        if event.type == "DELETED" or not kept:
            self.cache.remove(live)
        else:
            self.cache.upsert(live)
        self._version = live.resource_version

    def _process_bookmark(self, metadata: BookmarkMetadata, streamed: _StreamedList | None) -> None:
        if streamed is None or streamed.done:
            self._version = metadata.resource_version
        elif metadata.annotations.get(INITIAL_EVENTS_END) == "true":
            self._replace(streamed.finish(), metadata.resource_version, streamed.mark)
            self._silent_lists = 0

    def _replace(self, items: Iterable[LiveObject], version: str, mark: int) -> None:
        """Replace the objects in the cache by a complete list."""
        changes_schema = self._schema_lists > 0
        self.cache.replace(items, version, mark=mark, namespace=self.scope.namespace, changes_schema=changes_schema)
        self._version = version
        self._schema_lists -= changes_schema and not self._step_is_outdated
        self._client.observer.listed(self.resource.name)
        self._set_synced()

    def _set_synced(self) -> None:
        self.synced.set()
        self.was_synced = True
        self._synced_or_unavailable.set()
        self._set_state(ReflectorState.WATCHING, "")

    def _record_failure(self, error: Exception) -> float:
        """Set the state and problem of a failure. Returns the seconds until the retry."""
        now = self._clock.monotonic()
        if now - self._failed_at > self._timing.backoff_reset:
            self._failures = 0
        self._failed_at = now
        self._failures += 1
        delay = watch_backoff(self._failures, self._clock.random())
        if not isinstance(error, ApiError):
            self._set_state(ReflectorState.FAILING, f"{self.scope} can't be watched: {error}")
            return delay
        if error.gone:
            log.info("%s: %s; listing again", self.scope, error.message)
            self._version = ""
            # The server answers, so the reflector lists at once. Only a second 410 in a short time backs off.
            first = self._gone_at is None or now - self._gone_at > self._timing.backoff_reset
            self._gone_at = now
            return 0.0 if first else delay
        if error.unknown_resource or error.forbidden:
            self._version = ""
            self.synced.clear()
            self._synced_or_unavailable.set()
            self._set_state(ReflectorState.MISSING if error.unknown_resource else ReflectorState.FORBIDDEN, str(error))
            return delay
        if error.too_large_resource_version or error.terminal:
            self._version = ""
        log.log(logging.WARNING if self._failures >= FAILURES else logging.INFO, "%s", error)
        self._set_state(ReflectorState.FAILING, str(error) if self._failures >= FAILURES else "")
        return max(delay, error.retry_after or 0.0)

    def _set_state(self, state: ReflectorState, problem: str) -> None:
        if (state, problem) == (self.state, self.problem):
            return
        self.state, self.problem = state, problem
        for listener in self._listeners:
            listener(self)


class _StreamedList:
    """The objects that a watch without a resourceVersion sends before the end marker (KEP-3157)."""

    def __init__(self, mark: int) -> None:
        self.mark = mark
        """The `Cache.mark` from before the list."""
        self._items: dict[tuple[str, str], LiveObject] = {}
        self.done = False

    def add(self, event_type: str, live: LiveObject) -> None:
        key = (live.identity.namespace, live.identity.name)
        if event_type == "DELETED":
            self._items.pop(key, None)
        else:
            self._items[key] = live

    def finish(self) -> Iterable[LiveObject]:
        """The objects of the complete list."""
        items, self._items = self._items, {}
        self.done = True
        return items.values()
