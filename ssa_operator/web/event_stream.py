"""Server-sent events that carry what a page shows, and then each change of it.

Promises:
- A page gets at most four events a second. Where one takes long to make, it gets them less often, so that all pages
  together take a small part of the process's time.
- An event has an id. A page that reconnects with its last one gets what changed since, if this process still knows
  that, and the whole value otherwise, so it misses nothing. No other reader, and no other page, goes on with it.
- What is kept of pages that went away has at most KEPT_BYTES.
- A reader that takes nothing for WRITE_TIMEOUT seconds is disconnected. More than MAX_STREAMS pages, or
  MAX_READER_STREAMS of one reader, are refused in words.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.operator.process.streams import CommandError

PAUSE = 0.25
"""Seconds between two events of a page."""

SHARE = 0.05
"""The part of the process's time that making the events of one page may take."""

MAX_PAUSE = 5.0
"""Seconds after which a page gets what has changed, however long it takes to make."""

HEARTBEAT = 15.0
"""Seconds after which a comment shows that the connection stands."""

REVIEW_AFTER = 10.0
"""Seconds after which a reader's permission is reviewed again."""

WRITE_TIMEOUT = 10.0

MAX_STREAMS = 100

MAX_READER_STREAMS = 40
"""Fewer than the connections of one address, so that its other requests are answered, too."""

KEPT_BYTES = 4_000_000
"""Bytes of JSON of the pages that went away and may come back."""

KEPT_EVENTS = 16
"""The last events of a page, which it may not have got although they were sent."""

Values = AsyncGenerator[dict[str, Any], None]
"""The values of a page: each is a whole one, and comes when something may have changed."""


class _Sent(Struct, kw_only=True):
    """What a page got."""

    page: tuple[str, str]
    """Its reader and its address."""
    number: int = 0
    """The number of its last event."""
    value: dict[str, Any] | None = None
    """The value after that event."""
    events: deque[bytes]
    """Its last changes, without a gap."""
    size: int = 0
    """The bytes of the value as JSON, once the page is away."""


class EventStreams:
    """All open streams of a server."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._sent: dict[str, _Sent] = {}
        """By the first part of their ids; those that went away first come first."""

    async def send(
        self, request: web.Request, values: Values, review: Callable[[], Awaitable[None]], reader: str
    ) -> web.StreamResponse:
        """Send the values to a reader until it leaves. `review` raises what ends the stream."""
        if self._open[reader] >= MAX_READER_STREAMS:
            raise web.HTTPTooManyRequests(text=f"you have {MAX_READER_STREAMS} pages open; close some of them\n")
        if self._open.total() >= MAX_STREAMS:
            raise web.HTTPServiceUnavailable(text="too many pages are open; try again when others are closed\n")
        self._open[reader] += 1
        try:
            return await self._send(request, values, review, reader)
        finally:
            self._open[reader] -= 1
            if not self._open[reader]:
                del self._open[reader]

    async def _send(
        self, request: web.Request, values: Values, review: Callable[[], Awaitable[None]], reader: str
    ) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        reviewed = loop.time()
        name, sent, missed = self._begin((reader, str(request.rel_url.without_query_params("last"))), _last_id(request))
        try:
            async with contextlib.aclosing(_with_heartbeats(values)) as events:
                with contextlib.suppress(ConnectionError, TimeoutError):
                    for event in missed:
                        await _write(response, event)
                    async for value in events:
                        if loop.time() - reviewed >= REVIEW_AFTER:
                            try:
                                await review()
                            except web.HTTPException as refused:
                                sent.value = None
                                await _write(response, _event("refused", name, sent.number, _words(refused)))
                                return response
                            reviewed = loop.time()
                        if value is None:
                            await _write(response, b": still here\n\n")
                        elif event := _next_event(name, sent, value):
                            await _write(response, event)
            return response
        finally:
            self._end(name)

    def _begin(self, page: tuple[str, str], last: str) -> tuple[str, _Sent, list[bytes]]:
        """The name of a page's new stream, what the page has got, and the events that it missed."""
        name, missed, sent = secrets.token_hex(6), [], _Sent(page=page, events=deque(maxlen=KEPT_EVENTS))
        before, _, number = last.partition("-")
        known = self._sent.get(before)
        if known is not None and known.page == page and known.value is not None:
            behind = known.number - (int(number) if number.isdecimal() and len(number) < 16 else -1)
            if 0 <= behind <= min(len(known.events), known.number):
                missed = list(known.events)[len(known.events) - behind :]
                sent.value, sent.number = known.value, known.number
        self._sent[name] = sent
        return name, sent, missed

    def _end(self, name: str) -> None:
        """Keep what a page got, if it may come back, and as much as fits of the pages before."""
        sent = self._sent.pop(name)
        if sent.value is None or "error" in sent.value:
            return
        sent.size = len(msgspec.json.encode(sent.value)) + sum(map(len, sent.events))
        self._sent[name] = sent
        left = KEPT_BYTES
        for each, kept in reversed(list(self._sent.items())):
            left -= kept.size
            if left < 0 and kept.size:
                del self._sent[each]


def _next_event(name: str, sent: _Sent, value: dict[str, Any]) -> bytes:
    """The event that makes the value of a page another one; b"" if it is the same."""
    before = sent.value
    if before is not None and "left" in value and "left" not in before:
        return b""  # a portion of what the page has as a whole
    if before is None or "error" in value or "error" in before:
        sent.events.clear()
        kind, data = "state", value
    elif patch := merge_patch(before, value):
        kind, data = "change", patch
    else:
        return b""
    sent.number, sent.value = sent.number + 1, value
    event = _event(kind, name, sent.number, data)
    if kind == "change":
        sent.events.append(event)
    return event


def _words(refused: web.HTTPException) -> dict[str, Any]:
    return {"message": (refused.text or "").strip(), "status": refused.status}


def _last_id(request: web.Request) -> str:
    """The id of the last event that a page has. A browser that opened the page's stream again names it as `last`."""
    return request.headers.get("Last-Event-ID", "") or request.query.get("last", "")


def _event(kind: str, stream: str, number: int, value: dict[str, Any]) -> bytes:
    return b"event: %s\nid: %s-%d\ndata: %s\n\n" % (
        kind.encode(),
        stream.encode(),
        number,
        msgspec.json.encode(value),
    )


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_TIMEOUT):
        await response.write(data)


async def _with_heartbeats(values: Values) -> AsyncGenerator[dict[str, Any] | None, None]:
    """The values, and None where none came for HEARTBEAT seconds. An error of the cluster is a value, and the end."""
    pending: asyncio.Task[dict[str, Any]] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(values))
            done, _ = await asyncio.wait([pending], timeout=HEARTBEAT)
            if not done:
                yield None
                continue
            ended, pending = pending, None
            try:
                value = ended.result()
            except StopAsyncIteration:
                return
            except (ApiError, CommandError) as error:
                yield {"error": str(error)}
                return
            yield value
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        await values.aclose()


def pause_after(spent: float) -> float:
    """Seconds until the next event of a page, if making the last one took `spent` seconds."""
    return min(max(PAUSE, spent / SHARE), MAX_PAUSE)


async def paced(make: Callable[[], Awaitable[dict[str, Any]]], changed: Callable[[], object]) -> Values:
    """A value at once, and one after each time that `changed()` gives another answer. What is gone may come back."""
    loop = asyncio.get_running_loop()
    seen = object()
    while True:
        now = changed()
        if now != seen:
            seen, started = now, loop.time()
            try:
                value = await make()
            except web.HTTPNotFound as error:
                value = {"error": (error.text or "").strip()}
            spent = loop.time() - started
            yield value
            await asyncio.sleep(pause_after(spent))
        else:
            await asyncio.sleep(PAUSE)


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The JSON Merge Patch (RFC 7386) from one mapping to another. A list is one value. No mapping has a null."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if old is value and key in before:
            continue
        if isinstance(old, dict) and isinstance(value, dict):
            if below := merge_patch(old, value):
                patch[key] = below
        elif key not in before or old != value or type(old) is not type(value):
            patch[key] = value
    return patch
