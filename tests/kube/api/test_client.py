"""Faults of connections and answers that a real API server doesn't produce on demand, and pauses between retries."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator import __version__
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api import transport as transports
from ssa_operator.kube.api.backoff import BACKOFF_CAP, backoff
from ssa_operator.kube.api.client import Client, DryRunClient, has_null_for_empty, without_emptied_mappings
from ssa_operator.kube.api.errors import ApiError, Unreachable
from ssa_operator.kube.api.request import DeleteOptions, Request
from ssa_operator.kube.api.transport import Transport
from ssa_operator.kube.auth.certificate_authority import CertificateAuthority
from ssa_operator.kube.auth.credentials import Credentials, CredentialsError
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.live_object import LiveObject
from tests.devcluster.waiting import until
from tests.faults.injections import server_context
from tests.kube.fakes import (
    CONFIG_MAPS,
    SECRETS,
    StillClock,
    TokenSequence,
    config_map,
    credentials,
    refuse,
    scripted,
    status,
)

Answer = web.StreamResponse | Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Script:
    """Answers one after the other, and keeps what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        answer = self.answers.pop(0)
        return answer if isinstance(answer, web.StreamResponse) else await answer(request)


async def reset(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    raise asyncio.CancelledError


async def half(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"apiVersion"')
    return await reset(request)


def fine(version: int = 1) -> web.Response:
    return web.json_response(config_map("a", version))


async def test_an_apply_survives_a_connection_that_breaks_before_and_within_the_answer() -> None:
    script = Script(reset, half, fine())
    async with scripted(script) as client:
        applied = await client.apply(CONFIG_MAPS, "default", "a", b"{}")
    assert applied.live.resource_version == "1"
    assert script.bodies == [b"{}"] * 3


async def test_a_create_is_not_sent_twice_when_the_connection_breaks() -> None:
    script = Script(reset, fine())
    async with scripted(script) as client:
        with pytest.raises(Unreachable, match=r"create of ConfigMap in default failed .* broke"):
            await client.create(CONFIG_MAPS, "default", b"{}")
    assert len(script.asked) == 1


async def test_a_dry_run_client_sends_no_request_that_changes_the_cluster() -> None:
    script = Script(fine(), fine())
    async with scripted(script) as client, DryRunClient(client.credentials) as previewing:
        await previewing.get(CONFIG_MAPS, "a", "default")
        await previewing.apply(CONFIG_MAPS, "default", "a", b"{}", calls.ApplyOptions(dry_run=True))
        for change in (
            previewing.apply(CONFIG_MAPS, "default", "a", b"{}"),
            previewing.create(CONFIG_MAPS, "default", b"{}"),
            previewing.delete(CONFIG_MAPS, "default", "a", DeleteOptions(uid="u")),
            previewing.json_patch(CONFIG_MAPS, "default", "a", b"[]"),
        ):
            with pytest.raises(RuntimeError, match="is no dry run"):
                await change
    assert [each.method for each in script.asked] == ["GET", "PATCH"]


async def test_a_transient_error_is_retried_a_few_times_only() -> None:
    clock = StillClock()
    script = Script(*(refuse(503, "ServiceUnavailable", "not now") for _ in range(9)))
    async with scripted(script, clock=clock) as client:
        with pytest.raises(ApiError, match="not now"):
            await client.get(CONFIG_MAPS, "a", "default")
    assert len(script.asked) == 4
    assert clock.slept == [0.05, 0.1, 0.2]


async def test_the_client_waits_for_retry_after_and_halves_the_write_limit() -> None:
    clock = StillClock()
    throttled = web.json_response(status(429, "TooManyRequests"), status=429, headers={"Retry-After": "3"})
    async with scripted(Script(throttled, fine()), clock=clock) as client:
        before = client.write_limiter.limit
        await client.apply(CONFIG_MAPS, "default", "a", b"{}")
        assert client.write_limiter.limit == before / 2
        assert client.write_limiter.running == 0
    assert clock.slept == [3.05]


async def test_after_a_401_the_credentials_are_renewed_once() -> None:
    script = Script(refuse(401, "Unauthorized"), fine())
    async with scripted(script, "old", "new") as client:
        await client.get(CONFIG_MAPS, "a", "default")
    assert [each.headers["Authorization"] for each in script.asked] == ["Bearer old", "Bearer new"]


async def test_a_second_401_is_an_error() -> None:
    script = Script(refuse(401, "Unauthorized", "Unauthorized"), refuse(401, "Unauthorized", "Unauthorized"))
    async with scripted(script, "old", "new") as client:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await client.get(CONFIG_MAPS, "a", "default")


async def test_many_requests_that_get_a_401_renew_the_credentials_once() -> None:
    source = TokenSequence("old", "new", "newer")
    arrived = asyncio.Barrier(5)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer old":
            await arrived.wait()
            return refuse(401)
        return fine()

    async with scripted(answer) as client:
        client.credentials = credentials(client.credentials.server, source, StillClock())
        await asyncio.gather(*(client.get(CONFIG_MAPS, "a", "default") for _ in range(5)))
    assert source.reads == 2


async def test_a_refused_connection_is_an_error_and_is_retried() -> None:
    clock = StillClock()
    async with scripted(Script()) as gone:
        server = gone.credentials.server
    async with Client(credentials(server, TokenSequence("t"), clock), clock) as client:
        with pytest.raises(Unreachable, match=f"no connection to {server}") as found:
            await client.create(CONFIG_MAPS, "default", b"{}")
    assert not found.value.sent
    assert len(clock.slept) == 3


async def test_missing_credentials_are_a_credentials_error() -> None:
    class Nothing:
        renewable = True

        async def fetch(self) -> None:
            raise CredentialsError("the token file is empty")

    async with Client(credentials("http://127.0.0.1:1", Nothing(), StillClock())) as client:  # type: ignore[arg-type]
        with pytest.raises(CredentialsError, match="empty"):
            await client.get(CONFIG_MAPS, "a", "default")


async def test_warnings_are_unquoted_and_returned_once() -> None:
    response = fine()
    response.headers.add("Warning", r'299 - "say \"please\"", 299 - "old"')
    response.headers.add("Warning", '299 kube "old"')
    async with scripted(Script(response)) as client:
        applied = await client.apply(CONFIG_MAPS, "default", "a", b"{}")
    assert applied.warnings == ('say "please"', "old")


async def test_a_warning_about_a_secret_shows_nothing_of_it() -> None:
    response = fine()
    response.headers.add("Warning", '299 - "hunter2 is weak"')
    async with scripted(Script(response)) as client:
        applied = await client.apply(SECRETS, "default", "a", b"{}")
    assert "hunter2" not in str(applied.warnings)


async def test_an_expired_continue_token_starts_the_list_again_in_one_piece() -> None:
    def page(*names: str, token: str = "") -> web.Response:
        items = [config_map(name, 1) for name in names]
        return web.json_response({"metadata": {"resourceVersion": "9", "continue": token}, "items": items})

    script = Script(page("a", token="x"), refuse(410, "Expired"), page("a", "b"))
    async with scripted(script) as client:
        items, version = await client.list(CONFIG_MAPS, limit=1)
    assert ([each.identity.name for each in items], version) == (["a", "b"], "9")
    assert [(each.query.get("limit"), each.query.get("continue")) for each in script.asked] == [
        ("1", None),
        ("1", "x"),
        (None, None),
    ]


@pytest.mark.parametrize(
    ("size", "limits"), [(100, ["16", "500", "500"]), (600_000, ["16", "13", "13"])], ids=["small", "large"]
)
async def test_the_pages_of_a_list_whose_objects_are_reduced_are_small_while_the_objects_are_large(
    size: int, limits: list[str]
) -> None:
    async def page(request: web.BaseRequest) -> web.Response:
        count, token = int(request.query["limit"]), str(len(script.asked)) if script.answers else ""
        items = [{**config_map("a", 1), "data": {"v": "x" * size}}] * count
        return web.json_response({"metadata": {"resourceVersion": "9", "continue": token}, "items": items})

    script = Script(page, page, page)
    scope = calls.Scope(CONFIG_MAPS)
    async with scripted(script) as client:
        items, _ = await client.list_scope(scope, reduce=LiveObject.as_partial)
    assert [each.query["limit"] for each in script.asked] == limits
    assert all(live.partial and len(live.raw) < 500 for live in items)


async def test_items_of_a_list_have_their_kind() -> None:
    item = {"metadata": {"name": "a"}}
    answer = web.json_response({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": [item]})
    async with scripted(Script(answer)) as client:
        items, _ = await client.list(CONFIG_MAPS)
    assert str(items[0].identity) == "ConfigMap a"
    assert items[0].body["kind"] == "ConfigMap"


async def test_a_redirect_is_not_followed() -> None:
    async with scripted(Script(web.Response(status=302, headers={"Location": "http://elsewhere.invalid/"}))) as client:
        with pytest.raises(ApiError, match="302"):
            await client.get(CONFIG_MAPS, "a", "default")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>welcome to the hotel</html>",
        b"[]",
        b'{"items":[{"metadata":3}]}',
        b'{"metadata":{"name":"\xff","continue":"\xff"}}',
        b'{"metadata":' * 100_000,
    ],
    ids=["nothing", "HTML", "a list", "no metadata", "no UTF-8", "mappings without end"],
)
async def test_an_answer_that_is_not_an_object_is_an_api_error(body: bytes) -> None:
    async with scripted(Script(web.Response(body=body), web.Response(body=body))) as client:
        with pytest.raises(ApiError, match=r"get of ConfigMap default/a failed .*not an object"):
            await client.get(CONFIG_MAPS, "a", "default")
        with pytest.raises(ApiError, match=r"list of configmaps failed .*not a list"):
            await client.list(CONFIG_MAPS)


async def test_a_delete_sends_the_uid_and_returns_an_object_that_finalizers_keep() -> None:
    going = web.json_response(config_map("a", 2, uid="u", deletionTimestamp="2026-01-01T00:00:00Z"))
    script = Script(
        web.json_response({**status(0), "metadata": {}}), going, refuse(404, "NotFound", 'configmaps "a" not found')
    )
    async with scripted(script) as client:
        gone = await client.delete(CONFIG_MAPS, "default", "a", DeleteOptions(uid="u"))
        left = await client.delete(
            CONFIG_MAPS, "default", "a", DeleteOptions(uid="u", propagation="Foreground", resource_version="2")
        )
        missing = await client.delete(CONFIG_MAPS, "default", "a", DeleteOptions(uid="u"))
    assert (gone, left and left.resource_version, missing) == (None, "2", None)
    assert json.loads(script.bodies[1]) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "2"},
        "propagationPolicy": "Foreground",
    }


async def test_every_request_has_the_operators_user_agent() -> None:
    script = Script(fine())
    async with scripted(script) as client:
        await client.send(calls.get(CONFIG_MAPS, "a", "default"))
    assert script.asked[0].headers["User-Agent"] == f"ssa-operator/{__version__}"


async def test_the_client_ignores_the_environments_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with scripted(Script(fine())) as client:
        await client.get(CONFIG_MAPS, "a", "default")


async def test_a_client_that_is_cancelled_while_it_closes_leaves_no_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close, closed = aiohttp.ClientSession.close, list[aiohttp.ClientSession]()

    async def cancelled(session: aiohttp.ClientSession) -> None:
        await close(session)
        closed.append(session)
        raise asyncio.CancelledError

    monkeypatch.setattr(aiohttp.ClientSession, "close", cancelled)
    with pytest.raises(asyncio.CancelledError):
        async with Client(credentials("http://127.0.0.1:1", TokenSequence(), StillClock())):
            pass
    assert len(closed) == 2


BODY: dict[str, Any] = {
    "spec": {
        "resources": {},
        "selector": {},
        "nothing": None,
        "outer": {"inner": {}},
        "members": [{"name": "a", "labels": {}}, {"name": "b", "labels": {"x": "y"}}, {}, "text"],
        "byName": {"a.b": {"labels": {}}, "c": {}},
    }
}


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ("spec.resources", {"resources": None}),
        ("spec.outer.inner", {"outer": None}),
        ("spec.members[1].labels", {"members": [{"name": "a"}, *BODY["spec"]["members"][1:]]}),
        ("spec.byName.a.b.labels", {"byName": {"c": {}}}),
        ("spec.outer", {}),
        ("spec.nothing", {}),
    ],
)
def test_only_what_is_refused_is_left_out(refused: str, expected: dict[str, Any]) -> None:
    spec = {key: expected.get(key, value) for key, value in BODY["spec"].items() if expected.get(key, 1) is not None}
    assert without_emptied_mappings(BODY, [refused]) == {"spec": spec}


def test_a_mapping_that_has_nothing_else_is_left_out() -> None:
    body = {"kind": "Pool", "spec": {"a": {}, "b": {"c": {}}}}
    assert without_emptied_mappings(body, ["spec.a", "spec.b.c"]) == {"kind": "Pool"}
    assert without_emptied_mappings(body, ["spec.a"]) == {"kind": "Pool", "spec": {"b": {"c": {}}}}
    assert without_emptied_mappings({"spec": {}}, ["spec"]) == {}


@pytest.mark.parametrize(
    ("body", "live", "expected"),
    [
        ({"spec": {"a": {}}}, {"spec": {"a": None}}, True),
        ({"spec": {"a": [{"b": {}}]}}, {"spec": {"a": [{"c": 1}, {"b": None}]}}, True),
        ({"spec": {}}, {"spec": None}, True),
        ({"spec": {"a": {}}}, {"spec": {"a": {}}}, False),
        ({"spec": {"a": {}}}, {"spec": {"a": {"default": None}}}, False),
        ({"spec": {"a": {}, "b": 1}}, {"spec": {"b": None}}, False),
        ({"spec": {"a": None}}, {"spec": {"a": None}}, False),
    ],
)
def test_a_null_in_place_of_an_empty_mapping_is_found(
    body: dict[str, Any], live: dict[str, Any], expected: bool
) -> None:
    assert has_null_for_empty(body, live) is expected


ANSWER = 640 * 1024
"""Bytes. More than what aiohttp reads ahead, and less than what it and asyncio's TLS do together."""


REQUEST = Request(method="GET", path="/", subject="the request")

Leave = Callable[[Transport, Callable[[], bool]], Awaitable[None]]
"""Sends a request, and leaves it when the condition holds."""


async def leave_watch(transport: Transport, paused: Callable[[], bool]) -> None:
    async with transport.stream(REQUEST) as pieces:
        await anext(aiter(pieces))
        await until(paused)


async def cancel_request(transport: Transport, paused: Callable[[], bool]) -> None:
    async def read_nothing(*_: object) -> bytes:
        await asyncio.Event().wait()
        return b""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transports, "_read", read_nothing)
        sending = asyncio.create_task(transport.send(REQUEST))
        await until(paused)
        sending.cancel()
        await asyncio.wait([sending])


@pytest.mark.parametrize("leave", [leave_watch, cancel_request])
async def test_what_the_server_ends_while_nobody_reads_leaves_no_open_socket(
    leave: Leave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an API server dies while the operator is busy."""
    ended = asyncio.Event()

    async def answer_and_die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2 * ANSWER))
        writer.write(bytes(ANSWER))
        connection: Any = writer.transport
        await until(lambda: not connection._ssl_protocol._transport.get_write_buffer_size())
        connection.abort()
        ended.set()

    sockets: list[socket.socket] = []
    opened = transports._keep_alive_socket

    def record(*about: Any) -> socket.socket:
        sockets.append(opened(*about))
        return sockets[-1]

    monkeypatch.setattr(transports, "_keep_alive_socket", record)
    authority = CertificateAuthority("ca", dt.datetime.now(dt.UTC))
    server = await asyncio.start_server(answer_and_die, "127.0.0.1", 0, ssl=server_context(authority, tmp_path))
    config = credentials(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", TokenSequence("t"), SYSTEM).config
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    trusting = Credentials(config, TokenSequence("t"), lambda _: context, SYSTEM)
    loop: Any = asyncio.get_running_loop()

    def paused() -> bool:
        return ended.is_set() and sockets[0].fileno() not in loop._selector.get_map()

    async with server, Transport(trusting) as transport:
        await leave(transport, paused)
        await until(lambda: sockets[0].fileno() == -1)


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_backoff_grows_to_its_cap_and_never_ends(failures: int, jitter: float) -> None:
    wait = backoff(failures, jitter)
    assert 0.25 <= wait <= BACKOFF_CAP
    assert backoff(failures + 1, 0) >= backoff(failures, 0)
