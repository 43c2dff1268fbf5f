"""The events of a page: how often they come, and how a page goes on after a break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.web import event_stream
from ssa_operator.web.event_stream import MAX_PAUSE, PAUSE, SHARE, EventStreams, Values, paced, pause_after


class _Clock:
    """A time that passes while something is made, and while a page waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@given(seconds=st.lists(st.floats(0, 1), min_size=2, max_size=20))
async def test_a_page_gets_at_most_four_events_a_second_and_less_often_what_takes_long(seconds: list[float]) -> None:
    clock, left = _Clock(), iter(seconds)

    async def make() -> dict[str, Any]:
        clock.now += next(left)
        return {}

    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "sleep", clock.sleep)
        patch.setattr(asyncio, "get_running_loop", lambda: clock)
        values = paced(make, count().__next__)
        for _ in seconds:
            await anext(values)
            made.append(clock.now)
        await values.aclose()
    for before, after, took, next_took in zip(made, made[1:], seconds, seconds[1:], strict=False):
        rest = after - before - next_took
        assert rest >= PAUSE - 1e-9
        assert rest >= min(took / SHARE, MAX_PAUSE) - 1e-9


@given(spent=st.floats(0, 1e6))
def test_no_page_waits_for_ever(spent: float) -> None:
    assert PAUSE <= pause_after(spent) <= MAX_PAUSE


async def _values(*values: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    for value in values:
        yield value


async def test_a_page_that_comes_back_gets_what_changed_or_the_whole_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEPT_BYTES", 400)
    streams = EventStreams()
    shown: list[dict[str, Any]] = [{"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2}]

    async def answer(request: web.Request) -> web.StreamResponse:
        values = cast("Values", _values(*shown))
        return await streams.send(request, values, _allowed, request.headers["reader"])

    app = web.Application()
    app.router.add_get("/{page}", answer)
    async with TestClient(TestServer(app)) as client:

        async def read(path: str, last: str = "", reader: str = "one") -> list[tuple[str, str, str]]:
            """The kind, the id and the data of each event."""
            answer = await client.get(path, headers={"reader": reader} | ({"Last-Event-ID": last} if last else {}))
            parts = [line.partition(": ")[2] for line in (await answer.text()).splitlines() if line]
            return list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))

        first = await read("/page?stream=1")
        assert [(kind, data) for kind, _, data in first] == [("state", '{"a":1,"b":1}'), ("change", '{"b":2}')], (
            "what has not changed is no event"
        )
        (_, begun, _), (_, last, _) = first
        assert last.endswith("-2")
        shown[:] = [{"a": 1, "left": 1}, {"a": 1, "b": 2}, {"a": 3, "b": 2}]
        assert [(kind, data) for kind, _, data in await read("/page?stream=1", last)] == [("change", '{"a":3}')]
        # The browser has no header when a page opens its stream again by itself.
        ((_, third, data),) = await read(f"/page?stream=1&last={last}")
        assert (third.endswith("-3"), data) == (True, '{"a":3}')
        # An event that was sent and did not arrive is sent again.
        assert [data for _, _, data in await read("/page?stream=1", begun)] == ['{"b":2}', '{"a":3}']
        stream, _, _ = last.partition("-")
        for unknown in ("x", "-1", f"{stream}-", f"{stream}-7", f"{stream}-²", f"{stream}-{'9' * 40}", "nosuch-2"):
            assert (await read("/page?stream=1", unknown))[0][0] == "state"
        assert (await read("/page?stream=1", last, reader="two"))[0][0] == "state"
        assert (await read("/other?stream=1", last))[0][0] == "state"
        shown[:] = [{"large": "x" * 400}]
        _, large, _ = (await read("/page?stream=1"))[0]
        assert (await read("/page?stream=1", large))[0][0] == "state"
        assert streams._open == {}


async def test_readers_beyond_the_limits_are_told_and_make_room_when_they_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "MAX_STREAMS", 2)
    streams = EventStreams()

    async def endless() -> AsyncIterator[dict[str, Any]]:
        yield {"a": 1}
        await asyncio.Event().wait()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await streams.send(request, cast("Values", endless()), _allowed, request.query["reader"])

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestClient(TestServer(app, handler_cancellation=True)) as client:
        opened = [await client.get(f"/?reader={name}") for name in "ab"]
        refused = await client.get("/?reader=c")
        assert (refused.status, "too many pages" in await refused.text()) == (503, True)
        for each in opened:
            await each.content.readuntil(b"\n\n")
            each.close()
        async with asyncio.timeout(30):
            while (again := await client.get("/?reader=c")).status != 200:
                await again.read()
            again.close()


async def test_a_reader_that_takes_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "WRITE_TIMEOUT", 0.05)
    streams, ended = EventStreams(), asyncio.Event()

    async def much() -> AsyncIterator[dict[str, Any]]:
        try:
            for number in count():
                yield {"a": str(number) * 1_000_000}
        finally:
            ended.set()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await streams.send(request, cast("Values", much()), _allowed, "reader")

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        _, writer = await asyncio.open_connection(server.host, server.port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(30):
            await ended.wait()
        writer.close()
    assert streams._open == {}


async def _allowed() -> None:
    pass
