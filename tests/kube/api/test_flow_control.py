from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, ErrorStatus, NotLeader, Unreachable
from ssa_operator.kube.api.flow_control import (
    ATTEMPTS,
    INITIAL_WRITES,
    MAX_WRITES,
    PATIENCE,
    WriteFence,
    WriteLimiter,
    retry_delay,
    watch_backoff,
)
from ssa_operator.kube.api.request import ApplyOptions, DeleteOptions, Request
from tests.kube.fakes import CONFIG_MAPS, StillClock, TokenSequence, config_map, credentials

GET = calls.get(CONFIG_MAPS, "a", "default")
APPLY = calls.apply(CONFIG_MAPS, "default", "a", b"{}")
DELETE = calls.delete(CONFIG_MAPS, "default", "a", calls.DeleteOptions(uid="uid"))
CREATE = calls.create(CONFIG_MAPS, "default", b"{}")
MERGE = calls.merge_patch(CONFIG_MAPS, "default", "a", b"{}")


def refused(code: int, message: str = "", retry_after: float | None = None) -> ApiError:
    return ApiError("x", ErrorStatus(code=code, message=message, retry_after=retry_after))


BROKEN = Unreachable("x", "reset", sent=True)
NOT_CONNECTED = Unreachable("x", "refused", sent=False)


@pytest.mark.parametrize("request_", [GET, APPLY, DELETE], ids=str)
@pytest.mark.parametrize(
    "error", [BROKEN, NOT_CONNECTED, refused(429), refused(500), refused(503), refused(504)], ids=str
)
def test_an_idempotent_request_is_retried_after_a_transient_error(request_: Request, error: ApiError) -> None:
    assert retry_delay(request_, error, 0, 0.5) is not None


@pytest.mark.parametrize("request_", [CREATE, MERGE], ids=str)
@pytest.mark.parametrize("error", [BROKEN, refused(500), refused(504)], ids=str)
def test_a_request_that_the_server_may_have_processed_is_not_retried(request_: Request, error: ApiError) -> None:
    assert retry_delay(request_, error, 0, 0.5) is None


@pytest.mark.parametrize("error", [NOT_CONNECTED, refused(429)], ids=str)
def test_every_request_that_the_server_has_not_processed_is_retried(error: ApiError) -> None:
    assert retry_delay(CREATE, error, 0, 0.5) is not None


@pytest.mark.parametrize(
    "error",
    [refused(400), refused(403), refused(409), refused(422), refused(500, "failed to create typed patch object")],
)
def test_a_terminal_error_is_not_retried(error: ApiError) -> None:
    assert retry_delay(APPLY, error, 0, 0.5) is None


def test_the_retry_delays_grow_and_end() -> None:
    pauses = [retry_delay(APPLY, BROKEN, attempt, 0.5) for attempt in range(ATTEMPTS)]
    assert pauses == [0.05, 0.1, 0.2, None]


def test_the_client_waits_for_retry_after_unless_it_is_longer_than_its_patience() -> None:
    assert retry_delay(APPLY, refused(429, retry_after=2), 0, 0.5) == 2.05
    assert retry_delay(APPLY, refused(429, retry_after=PATIENCE + 1), 0, 0.5) is None


def test_a_watch_backs_off_for_0_8_to_60_seconds() -> None:
    assert [watch_backoff(failures, 0.0) for failures in (1, 2, 3, 7, 1000)] == [0.8, 1.6, 3.2, 30.0, 30.0]
    assert watch_backoff(1, 0.99) < 1.6


def test_an_apply_request_has_its_field_manager_force_and_validation() -> None:
    assert APPLY.target == (
        "/api/v1/namespaces/default/configmaps/a?fieldManager=ssa-operator&force=true&fieldValidation=Strict"
    )
    assert APPLY.content_type == "application/apply-patch+yaml"
    assert calls.apply(CONFIG_MAPS, "default", "a", b"", calls.ApplyOptions(dry_run=True)).target.endswith(
        "&dryRun=All"
    )


def test_a_list_names_its_labels_its_page_and_its_token_encoded() -> None:
    scope = calls.Scope(CONFIG_MAPS, "default", "a in (b,c)")
    assert calls.list_page(scope, limit=500, token="x=/+").target == (
        "/api/v1/namespaces/default/configmaps?labelSelector=a%20in%20%28b%2Cc%29&limit=500&continue=x%3D%2F%2B"
    )


def test_a_watch_begins_with_a_version_or_with_the_present_objects() -> None:
    scope = calls.Scope(CONFIG_MAPS)
    assert "resourceVersion=5" in calls.watch(scope, resource_version="5", seconds=300).target
    streamed = calls.watch(scope, resource_version="", seconds=300).target
    assert "sendInitialEvents=true&resourceVersionMatch=NotOlderThan" in streamed


def test_a_request_never_shows_its_body() -> None:
    secret = calls.apply(CONFIG_MAPS, "default", "a", b"hunter2")
    assert "hunter2" not in f"{secret!r} {secret}"


@asynccontextmanager
async def slot(limiter: WriteLimiter) -> AsyncIterator[int]:
    number = await limiter.acquire()
    try:
        yield number
    finally:
        limiter.release()


async def use(limiter: WriteLimiter, entered: list[int], number: int, leave: asyncio.Event) -> None:
    async with slot(limiter):
        entered.append(number)
        await leave.wait()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_limiter_runs_a_limited_number_of_writes_and_the_others_in_order() -> None:
    limiter, entered = WriteLimiter(), list[int]()
    leave = [asyncio.Event() for _ in range(INITIAL_WRITES + 3)]
    tasks = [asyncio.create_task(use(limiter, entered, number, each)) for number, each in enumerate(leave)]
    await settle()
    assert entered == list(range(INITIAL_WRITES))
    leave[5].set()
    leave[9].set()
    await settle()
    assert entered == list(range(INITIAL_WRITES + 2))
    for each in leave:
        each.set()
    await asyncio.gather(*tasks)
    assert limiter.running == 0


async def test_a_cancelled_write_frees_its_slot() -> None:
    limiter, entered = WriteLimiter(), list[int]()
    limiter.limit = 1
    leave = asyncio.Event()
    first, waiting, last = (asyncio.create_task(use(limiter, entered, number, leave)) for number in range(3))
    await settle()
    first.cancel()  # its place goes to the second, which is cancelled in the same moment
    await asyncio.sleep(0)
    waiting.cancel()
    await settle()
    assert entered[-1] == 2
    leave.set()
    await last
    assert limiter.running == 0


async def test_several_429s_for_writes_that_were_sent_together_halve_the_limit_once() -> None:
    limiter = WriteLimiter()
    async with slot(limiter) as one, slot(limiter) as two:
        limiter.throttled(one)
        limiter.throttled(two)
    assert limiter.limit == INITIAL_WRITES / 2
    async with slot(limiter) as later:
        limiter.throttled(later)
    assert limiter.limit == INITIAL_WRITES / 4


async def test_the_limit_is_never_less_than_one_write() -> None:
    limiter = WriteLimiter()
    for _ in range(20):
        async with slot(limiter) as number:
            limiter.throttled(number)
    assert limiter.limit == 1


async def test_the_limit_grows_only_while_it_is_reached() -> None:
    limiter = WriteLimiter()
    async with slot(limiter):
        limiter.accepted()
    assert limiter.limit == INITIAL_WRITES
    limiter.limit = 1
    async with slot(limiter):
        limiter.accepted()
    assert limiter.limit == 2
    limiter.limit = float(MAX_WRITES)
    limiter.running = MAX_WRITES
    limiter.accepted()
    assert limiter.limit == pytest.approx(MAX_WRITES)


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
        async with slot(api.client.write_limiter):
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
