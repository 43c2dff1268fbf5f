"""Whatever a server answers, a call returns a result or raises an ApiError; a watch lists again."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.kube.api import transport
from ssa_operator.kube.api.access_reviews import authenticate, is_allowed
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError, read_error_status
from ssa_operator.kube.api.leases import LeaseAccess
from ssa_operator.kube.api.openapi import read_openapi, read_version
from ssa_operator.kube.api.request import DeleteOptions, Scope
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.kinds import Permission
from tests.kube.fakes import CONFIG_MAPS, StillClock, scripted

BIG = "9" * 5000
ANSWERS = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "NUL": b"\0",
    "HTML": b"<html>",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "no fields": b"{}",
    "fields of null": b'{"metadata":null,"items":null,"status":null,"paths":null,"groups":null,"major":null}',
    "wrong types": b'{"metadata":[],"items":{},"status":1,"paths":[],"groups":"","major":[],"minor":1}',
    "items of null": b'{"metadata":{},"items":[null],"groups":[null],"resources":[null],"paths":{"api/v1":null}}',
    "no UTF-8": b'{"metadata":{"name":"\xff","continue":"\xff"},"paths":{"\xff":1},"major":"\xff","minor":"\xfe"}',
    "half a surrogate pair": rb'{"metadata":{"name":"\ud800"},"major":"\udfff","minor":"\ud800"}',
    "lists without end": b"[" * 100_000,
    "mappings without end": b'{"metadata":' * 100_000,
    "deep lists": b'{"metadata":{"name":"a"},"major":"1","minor":"2","x":' + b"[" * 9999 + b"]" * 9999 + b"}",
    "numbers beyond floats": b'{"metadata":{"generation":1e400},"items":[{"metadata":{"generation":1e400}}]}',
    "a large number": f'{{"metadata":{{"generation":{BIG},"resourceVersion":"{BIG}"}}}}'.encode(),
    "odd versions": '{"metadata":{"resourceVersion":"²"},"items":[{"metadata":{"resourceVersion":"-1"}}]}'.encode(),
    "keys that are twice": b'{"metadata":{"name":"a"},"metadata":{"name":"b"},"items":[],"items":[{"metadata":{}}]}',
    "a Status of a success": b'{"kind":"Status","metadata":{},"status":"Success","code":-1}',
    "odd causes": b'{"kind":"Status","metadata":{},"details":{"causes":[{}],"retryAfterSeconds":-1e300}}',
}
"""Bodies by what is wrong with them. A line adds another one."""

KIND = GroupKind("example.com", "Thing")
REVIEWED = Permission(group="", resource="pods", verb="get")


async def _lease(client: Client) -> object:
    return await LeaseAccess(client, "default", "a", timeout=5.0).get()


CALLS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "get": lambda client: client.get(CONFIG_MAPS, "a", "default"),
    "list": lambda client: client.list(CONFIG_MAPS),
    "latest version": lambda client: client.latest_version(Scope(CONFIG_MAPS)),
    "apply": lambda client: client.apply(CONFIG_MAPS, "default", "a", b"{}"),
    "create": lambda client: client.create(CONFIG_MAPS, "default", b"{}"),
    "delete": lambda client: client.delete(CONFIG_MAPS, "default", "a", DeleteOptions(uid="u")),
    "discovery": lambda client: RESTMapper(client, StillClock()).resource(KIND),
    "version": read_version,
    "OpenAPI": read_openapi,
    "review": lambda client: is_allowed(client, REVIEWED, None),
    "token review": lambda client: authenticate(client, "t"),
    "Lease": _lease,
}


def answering(
    body: bytes, code: int = 200, encoding: str = "identity"
) -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    async def script(request: web.BaseRequest) -> web.Response:
        await request.read()
        return web.Response(body=body, status=code, headers={"Content-Encoding": encoding})

    return script


@pytest.mark.more_cases
@pytest.mark.parametrize("call", CALLS)
async def test_an_answer_is_a_result_or_an_api_error(call: str) -> None:
    body, code = b"", 200

    async def script(request: web.BaseRequest) -> web.Response:
        await request.read()
        return web.Response(body=body, status=code)

    async with scripted(script) as client:
        for name, body in ANSWERS.items():  # noqa: B007 - the script answers with it
            for code in (200, 409):
                try:
                    await CALLS[call](client)
                except (ApiError, UnknownKind):
                    continue
                except Exception as error:
                    raise AssertionError(f"{name}, {code}") from error


@pytest.mark.more_cases
@pytest.mark.parametrize("name", ANSWERS)
async def test_an_event_is_an_object_or_causes_a_new_list(name: str, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[str] = []
    second = asyncio.Event()

    async def script(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.query.get("watch", ""))
        if len(asked) > 2:
            second.set()
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":' + ANSWERS[name].replace(b"\n", b"") + b"}\n")
        await response.write_eof()
        return response

    async with scripted(script) as client:
        reflector = Reflector(client, Scope(CONFIG_MAPS), Cache(), clock=StillClock())
        running = asyncio.create_task(reflector.run())
        try:
            await second.wait()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert "unexpected error" not in caplog.text


@given(st.integers(400, 599), st.binary(max_size=60), st.text(max_size=10))
def test_any_error_has_a_status(code: int, body: bytes, retry_after: str) -> None:
    found = read_error_status(code, body, retry_after=retry_after)
    assert isinstance(found.message, str)
    assert isinstance(ApiError("get of x", found).terminal, bool)


async def test_an_answer_that_is_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ANSWER_LIMIT", 2**20)
    bomb = gzip.compress(b" " * (64 * 2**20))
    for body, encoding in ((b" " * (2**20 + 1), "identity"), (bomb, "gzip")):
        async with scripted(answering(body, encoding=encoding)) as client:
            with pytest.raises(ApiError, match=r"get of ConfigMap default/a failed .*: .*larger than 1 MiB|decompress"):
                await client.get(CONFIG_MAPS, "a", "default")


async def test_an_error_that_is_too_large_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ERROR_LIMIT", 1000)
    async with scripted(answering(b"x" * 2**20, 409)) as client:
        with pytest.raises(ApiError, match=r"failed \(409\): x+$") as found:
            await client.get(CONFIG_MAPS, "a", "default")
    assert len(str(found.value)) < 600
