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

    def make() -> dict[str, Any]:
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


async def test_a_page_that_comes_back_gets_the_whole_value_and_goes_on_with_the_ids() -> None:
    streams = EventStreams()

    async def answer(request: web.Request) -> web.StreamResponse:
        values = cast("Values", _values({"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2}))
        return await streams.send(request, values, _allowed, "reader")

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestClient(TestServer(app)) as client:
        first = await (await client.get("/")).text()
        assert first == ('event: state\nid: 1\ndata: {"a":1,"b":1}\n\nevent: change\nid: 2\ndata: {"b":2}\n\n'), (
            "what has not changed is no event"
        )
        again = await (await client.get("/", headers={"Last-Event-ID": "2"})).text()
        assert again.startswith('event: state\nid: 3\ndata: {"a":1,"b":1}\n\n')
        for odd in ("-1", "²", "x", "9" * 40):
            assert "\nid: 1\n" in await (await client.get("/", headers={"Last-Event-ID": odd})).text()


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
