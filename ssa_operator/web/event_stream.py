"""Server-sent events that carry what a page shows, and then each change of it.

Promises:
- A page gets at most four events a second. Where one takes long to make, it gets them less often, so that all pages
  together take a small part of the process's time.
- An event has an id, and the first event after a connection has the whole value, so a page that reconnects misses
  nothing.
- A reader that takes nothing for WRITE_TIMEOUT seconds is disconnected. More than MAX_STREAMS pages, or
  MAX_READER_STREAMS of one reader, are refused in words.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.web.merge_patch import merge_patch

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

Values = AsyncGenerator[dict[str, Any], None]
"""The values of a page: each is a whole one, and comes when something may have changed."""


class EventStreams:
    """All open streams of a server."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

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
            return await self._send(request, values, review)
        finally:
            self._open[reader] -= 1
            if not self._open[reader]:
                del self._open[reader]

    async def _send(
        self, request: web.Request, values: Values, review: Callable[[], Awaitable[None]]
    ) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        number, before, reviewed = _next_id(request), None, loop.time()
        async with contextlib.aclosing(_with_heartbeats(values)) as events:
            with contextlib.suppress(ConnectionError, TimeoutError):
                async for value in events:
                    if loop.time() - reviewed >= REVIEW_AFTER:
                        try:
                            await review()
                        except web.HTTPException as refused:
                            await _write(response, _event("refused", number, _words(refused)))
                            return response
                        reviewed = loop.time()
                    if value is None:
                        await _write(response, b": still here\n\n")
                    elif before is None or "error" in value or "error" in before:
                        number, before = number + 1, value
                        await _write(response, _event("state", number, value))
                    elif patch := merge_patch(before, value):
                        number, before = number + 1, value
                        await _write(response, _event("change", number, patch))
        return response


def _words(refused: web.HTTPException) -> dict[str, Any]:
    return {"message": (refused.text or "").strip(), "status": refused.status}


def _next_id(request: web.Request) -> int:
    last = request.headers.get("Last-Event-ID", "")
    return int(last) if last.isascii() and last.isdigit() and len(last) < 16 else 0


def _event(name: str, number: int, value: dict[str, Any]) -> bytes:
    return b"event: %s\nid: %d\ndata: %s\n\n" % (name.encode(), number, msgspec.json.encode(value))


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


async def paced(make: Callable[[], dict[str, Any]], changed: Callable[[], object]) -> Values:
    """A value at once, and one after each time that `changed()` gives another answer."""
    loop = asyncio.get_running_loop()
    seen = object()
    while True:
        now = changed()
        if now != seen:
            seen, started = now, loop.time()
            value = make()
            spent = loop.time() - started
            yield value
            await asyncio.sleep(pause_after(spent))
        else:
            await asyncio.sleep(PAUSE)
