"""The connections of a transport."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api import transport as transports
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.transport import Transport
from ssa_operator.kube.auth.certificate_authority import CertificateAuthority
from ssa_operator.kube.auth.credentials import Credentials
from ssa_operator.kube.clock import SYSTEM
from tests.devcluster.waiting import until
from tests.faults.injections import server_context
from tests.kube.fakes import TokenSequence, credentials

BODY = 640 * 1024
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
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2 * BODY))
        writer.write(bytes(BODY))
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
