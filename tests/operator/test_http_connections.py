"""Clients that stall the HTTP port of an operator, and many of them: the probes go on."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from ssa_operator.operator import http_connections
from ssa_operator.operator.http_connections import Connections, peer_of, track_request
from tests.cli.process import started
from tests.devcluster.waiting import until
from tests.operator.harness import PATIENCE, MakeOptions
from tests.operator.test_health import UNREACHABLE
from tests.operator.test_http import TRUST, Reader, new_pair, without_api_server, write

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Rest: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def many_files() -> Iterator[None]:
    """The test holds the clients' ends of all connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def opened(stack: contextlib.ExitStack, port: int, sent: bytes, source: str = "127.0.0.1") -> socket.socket:
    """A connection from an address of this host, on which this was sent. Closed with the stack."""
    client = stack.enter_context(socket.socket())
    client.setblocking(False)
    client.bind((source, 0))
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE):
        await loop.sock_connect(client, ("127.0.0.1", port))
        # The server may have closed it already.
        with contextlib.suppress(ConnectionError):
            await loop.sock_sendall(client, sent)
    return client


async def closed(client: socket.socket) -> bytes:
    """What the server sent on a connection, once it has closed it."""
    received = b""
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionError):
            while part := await asyncio.get_running_loop().sock_recv(client, 65536):
                received += part
    return received


@pytest.mark.parametrize(
    "sources",
    [pytest.param(1, id="one address", marks=pytest.mark.slow), pytest.param(200, id="200 addresses")],
)
async def test_probes_answer_while_more_connections_are_open_than_files_may_be(
    tmp_path: Path, many_files: None, sources: int
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(UNREACHABLE)
    async with started("run", f"--kubeconfig={path}", "--templates=templates", "--listen=127.0.0.1:0") as command:
        resource.prlimit(command.process.pid, resource.RLIMIT_NOFILE, (400, 400))
        port = int((await command.says("listening on")).strip().rpartition(":")[2])
        with contextlib.ExitStack() as stack:
            for number in range(1000):
                await opened(stack, port, (b"", b"G", HALF)[number % 3], f"127.0.0.{1 + number % sources}")
                if number % 100 == 99:
                    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
                        for probe in ("healthz", "healthz", "healthz"):
                            async with session.get(f"http://127.0.0.1:{port}/{probe}") as answer:
                                assert answer.status == 200
        assert "idle connections are closed for new ones" in await command.says("connections")


@pytest.mark.more_cases
@pytest.mark.parametrize("sent", [b"", HALF], ids=["nothing", "half of a header"])
async def test_a_header_that_does_not_come_is_given_up(
    options: MakeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_connections, "HEADER_TIMEOUT", 0.0)
    async with without_api_server(options, tmp_path, "127.0.0.1") as server:
        with contextlib.ExitStack() as stack:
            assert await closed(await opened(stack, server.port, sent)) == b""


@pytest.mark.exhaustive
async def test_bytes_that_drip_do_not_prolong_a_header(
    options: MakeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connections, "HEADER_TIMEOUT", 1.5)
    async with without_api_server(options, tmp_path, "127.0.0.1") as server:
        with contextlib.ExitStack() as stack:
            client = await opened(stack, server.port, HALF)
            gone = asyncio.create_task(closed(client))
            with contextlib.suppress(ConnectionError):
                while not gone.done():
                    await asyncio.get_running_loop().sock_sendall(client, b"x")
                    await asyncio.sleep(0.01)
            assert await gone == b""


async def test_a_connection_serves_many_requests_and_is_closed_when_none_comes(
    options: MakeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with without_api_server(options, tmp_path, "127.0.0.1") as server:
        with contextlib.ExitStack() as stack:
            loop, client = asyncio.get_running_loop(), await opened(stack, server.port, WHOLE)
            for _ in range(3):
                assert (await loop.sock_recv(client, 65536)).endswith(b"ok\n")
                await loop.sock_sendall(client, WHOLE)
            monkeypatch.setattr(http_connections, "IDLE_TIMEOUT", 0.0)
            assert (await closed(client)).endswith(b"ok\n")
        await until(lambda: not len(server.connections))


async def test_a_body_that_does_not_come_holds_no_answer_up(options: MakeOptions, tmp_path: Path) -> None:
    sent = WHOLE[:-2] + b"Content-Length: 1000000\r\n\r\nhalf"
    async with without_api_server(options, tmp_path, "127.0.0.1") as server:
        with contextlib.ExitStack() as stack:
            client = await opened(stack, server.port, sent)
            assert b"200 OK" in await asyncio.get_running_loop().sock_recv(client, 65536)


@contextlib.asynccontextmanager
async def application(handler: object, tls: ssl.SSLContext | None = None) -> AsyncIterator[Connections]:
    app = web.Application(middlewares=[track_request])
    app.add_routes([web.get("/{path}", handler)])  # type: ignore[arg-type]
    async with Connections(web.AppRunner(app, access_log=None, shutdown_timeout=0.1), "127.0.0.1", 0, tls) as server:
        yield server


async def large(_request: web.Request) -> web.Response:
    return web.Response(body=bytes(30_000_000))


async def test_a_client_that_does_not_read_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with application(large) as server:
        with contextlib.ExitStack() as stack:
            client = await opened(stack, server.port, WHOLE)
            monkeypatch.setattr(http_connections, "ANSWER_TIMEOUT", 0.0)
            await until(lambda: not len(server))
            assert 0 < len(await closed(client)) < 30_000_000


async def test_a_client_that_reads_slowly_gets_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not idle meanwhile."""
    monkeypatch.setattr(http_connections, "IDLE_TIMEOUT", 0.0)
    monkeypatch.setattr(http_connections, "_SWEEP_INTERVAL", 0.1)
    async with (
        application(large) as server,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{server.port}/large") as answer,
    ):
        await asyncio.sleep(1.5 * http_connections._SWEEP_INTERVAL)
        assert len(await answer.read()) == 30_000_000


async def test_a_request_in_progress_is_not_given_up_for_other_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "MAX_CONNECTIONS", 10)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        begun.set()
        await go_on.wait()
        return web.Response(text="done\n")

    async with application(slow) as server, aiohttp.ClientSession() as session:
        with contextlib.ExitStack() as stack:
            answer = asyncio.create_task(session.get(f"http://127.0.0.1:{server.port}/slow"))
            await begun.wait()
            first = await opened(stack, server.port, HALF)
            for _ in range(30):
                await opened(stack, server.port, HALF)
            assert await closed(first) == b""
            assert len(server) == 10
            go_on.set()
            assert await (await answer).text() == "done\n"


async def test_requests_in_progress_leave_no_room_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "MAX_CONNECTIONS", 10)
    begun: list[object] = []

    async def slow(request: web.Request) -> web.Response:
        begun.append(request)
        await asyncio.Event().wait()
        return web.Response()

    async with application(slow) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                await opened(stack, server.port, WHOLE)
            await until(lambda: len(begun) == 10)
            assert await closed(await opened(stack, server.port, WHOLE)) == b""
            assert len(server) == 10


async def test_one_address_with_many_connections_closes_its_own_only(
    options: MakeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connections, "MAX_CONNECTIONS", 20)
    async with without_api_server(options, tmp_path, "127.0.0.1") as server:
        with contextlib.ExitStack() as stack:
            loop = asyncio.get_running_loop()
            other = await opened(stack, server.port, WHOLE, "127.0.0.9")
            assert (await loop.sock_recv(other, 65536)).endswith(b"ok\n")
            for _ in range(60):
                await opened(stack, server.port, HALF)
            await loop.sock_sendall(other, WHOLE)
            assert (await loop.sock_recv(other, 65536)).endswith(b"ok\n")


async def test_connections_that_do_not_shake_hands_hold_no_probe_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ok(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    monkeypatch.setattr(http_connections, "MAX_CONNECTIONS", 10)
    files = write(new_pair(), tmp_path)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(files.certificate, files.key)
    trusting = ssl.create_default_context(cadata=TRUST.certificate.decode())
    async with application(ok, serving) as server, aiohttp.ClientSession() as session:
        with contextlib.ExitStack() as stack:
            first = await opened(stack, server.port, b"")
            for sent in (b"", b"\x16\x03\x01", WHOLE) * 10:
                await opened(stack, server.port, sent)
            async with session.get(f"https://127.0.0.1:{server.port}/healthz", ssl=trusting) as answer:
                assert await answer.text() == "ok\n"
            assert await closed(first) == b""
            assert len(server) <= 10
            monkeypatch.setattr(http_connections, "HEADER_TIMEOUT", 0.0)
            await until(lambda: len(server) <= 1)


async def test_a_port_in_use_is_an_error(options: MakeOptions, tmp_path: Path) -> None:
    async with without_api_server(options, tmp_path, "127.0.0.1") as server:
        again = Connections(web.AppRunner(web.Application()), "127.0.0.1", server.port)
        with pytest.raises(OSError, match="in use"):
            await again.__aenter__()
        assert await Reader(server).status("/healthz") == 200


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.0.0.1", 1), "10.0.0.1"),
        (("2001:db8:1:2:3::1", 1, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::/64"),
        (("::ffff:10.0.0.1", 1, 0, 0), "10.0.0.1"),
        (("::1", 1, 0, 0), "::/64"),
    ],
)
def test_a_network_of_ipv6_is_one_peer(address: tuple[object, ...], peer: str) -> None:
    assert peer_of(address) == peer
