"""The fence of writes: what a client sends while it is open, and after it has closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, NotLeader
from ssa_operator.kube.api.request import ApplyOptions, DeleteOptions
from ssa_operator.kube.api.write_fence import WriteFence
from tests.kube.fakes import CONFIG_MAPS, StillClock, TokenSequence, config_map, credentials


@dataclass(slots=True)
class Time:
    """A clock that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Api:
    """A server that counts the requests that reach it."""

    client: Client
    fence: WriteFence
    time: Time
    requests: list[str] = field(default_factory=list)


@asynccontextmanager
async def fenced_client() -> AsyncIterator[Api]:
    requests: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request.method)
        await request.read()
        return web.json_response(config_map("web", 1))

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    time, clock = Time(), StillClock()
    fence = WriteFence(time)
    own = credentials(f"http://127.0.0.1:{runner.addresses[0][1]}", TokenSequence("t"), clock)
    try:
        async with Client(own, clock, fence) as client:
            yield Api(client, fence, time, requests)
    finally:
        await runner.cleanup()


WRITES = (
    calls.apply(CONFIG_MAPS, "default", "web", b"{}"),
    calls.merge_patch(CONFIG_MAPS, "default", "web", b"{}"),
    calls.json_patch(CONFIG_MAPS, "default", "web", b"[]"),
    calls.create(CONFIG_MAPS, "default", b"{}"),
    calls.update(CONFIG_MAPS, "default", "web", b"{}"),
    calls.delete(CONFIG_MAPS, "default", "web", DeleteOptions(uid="u")),
)


@pytest.mark.parametrize("request_", WRITES, ids=str)
async def test_a_write_is_sent_until_the_deadline_and_refused_from_then_on(request_: calls.Request) -> None:
    async with fenced_client() as api:
        api.fence.open_until(10.0)
        await api.client.send(request_)
        api.time.now = 10.0
        with pytest.raises(NotLeader, match="this replica does not lead"):
            await api.client.send(request_)
    assert api.requests == [request_.method]


async def test_reads_reviews_and_dry_runs_pass_a_closed_fence() -> None:
    dry_run = calls.apply(CONFIG_MAPS, "default", "web", b"{}", ApplyOptions(dry_run=True))
    review = replace(calls.create(CONFIG_MAPS, "", b"{}"), review=True)
    async with fenced_client() as api:
        for each in (calls.get(CONFIG_MAPS, "web", "default"), dry_run, review):
            await api.client.send(each)
    assert api.requests == ["GET", "PATCH", "POST"]


async def test_a_write_that_waits_for_a_slot_is_refused_if_the_fence_closes_meanwhile() -> None:
    async with fenced_client() as api:
        api.fence.open_until(10.0)
        api.client.write_limiter.limit = 1.0
        async with api.client.write_limiter.slot():
            waiting = asyncio.create_task(api.client.send(WRITES[0]))
            await asyncio.sleep(0)
            assert not waiting.done()
            api.fence.close()
        with pytest.raises(NotLeader):
            await waiting
    assert api.requests == []


async def test_a_write_that_waits_for_a_connection_is_not_sent_if_the_fence_closes_meanwhile() -> None:
    async with fenced_client() as api:
        api.fence.open_until(10.0)
        sending = asyncio.create_task(api.client.send(WRITES[0]))
        # The request has passed the first check and opens a connection, which takes more than one turn of the loop.
        await asyncio.sleep(0)
        assert not sending.done()
        api.time.now = 10.0
        with pytest.raises(ApiError):
            await sending
    assert api.requests == []
