"""Accepts the connections of an HTTP server, limits their number, and closes those of clients that stall.

Promises:
- A connection without a complete request header is closed after HEADER_TIMEOUT seconds, with its TLS handshake; one
  that waits for its next request after IDLE_TIMEOUT; one whose client does not read its answer after ANSWER_TIMEOUT.
- At most MAX_CONNECTIONS are open, and fewer of one peer. Beyond them, a new connection replaces the oldest one
  without a request in progress, of the peer that has the most. So a probe always gets through.
- A request in progress is never aborted for another connection.
- If the process has no free file descriptor, it closes such a connection, too, and accepts again a moment later.

`asyncio` and aiohttp bound neither the number of connections nor the time of a header. Connections are counted where
they are accepted, because aiohttp learns of one only after its TLS handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, Self

from aiohttp import web
from aiohttp.typedefs import Handler

log = logging.getLogger("ssa_operator")

HEADER_TIMEOUT = 10.0
"""Seconds from the first byte of a request, or from the connection, to the end of the request's header."""

IDLE_TIMEOUT = 120.0
"""Seconds for which a connection may wait for its next request: longer than the intervals of Prometheus, and than the
API server keeps connections to webhooks.
"""

ANSWER_TIMEOUT = 60.0
"""Seconds in which a client has to read an answer."""

MAX_CONNECTIONS = 256
"""More than the requests that may wait for reviews of their tokens, and a quarter of the usual 1024 open files."""

MAX_PEER_CONNECTIONS = 64
"""Connections of one address, or of one /64 network of IPv6, which is what one host gets."""

_BACKLOG = 128
"""Connections that the kernel completes before they are accepted."""

_BATCH = 16
"""Connections that are accepted in one turn of the event loop, so that their data is read in between."""

_SWEEP_INTERVAL = 1.0
_ACCEPT_PAUSE = 0.2
_WARNING_INTERVAL = 60.0


class _Phase(Enum):
    HEADER = auto()
    """The client sends a request, or has not sent one yet."""
    HANDLING = auto()
    ANSWER = auto()
    """The answer is being sent, or the client is idle."""


class _Connection(asyncio.Protocol):
    """One connection. It passes everything on to aiohttp's protocol, and knows since when its client has been idle."""

    def __init__(self, connections: Connections, accepted: socket.socket, peer: str, now: float) -> None:
        self.peer = peer
        self.phase = _Phase.HEADER
        self.since = now
        self.opening: asyncio.Task[None] | None = None
        self.began = False
        """Whether the task has begun, so that asyncio closes the socket."""
        self._connections = connections
        self._accepted = accepted
        self._transport: asyncio.Transport | None = None
        self._handler: asyncio.Protocol | None = None

    @property
    def idle(self) -> bool:
        """Whether the last answer was read, and no next request has begun."""
        return self.phase is _Phase.ANSWER and not self._unread

    @property
    def _unread(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def enter(self, phase: _Phase) -> None:
        self.phase, self.since = phase, asyncio.get_running_loop().time()

    def is_overdue(self, now: float) -> bool:
        """Whether the client has exceeded its time."""
        if self.phase is _Phase.HANDLING:
            return False
        if self.phase is _Phase.HEADER:
            return now - self.since >= HEADER_TIMEOUT
        return now - self.since >= (IDLE_TIMEOUT if self.idle else ANSWER_TIMEOUT)

    def abort(self) -> None:
        """Close it at once. Unread data is lost."""
        self._connections.forget(self)
        if self._transport is not None:
            self._transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        else:
            self._accepted.close()

    def end_opening(self, _: asyncio.Task[None]) -> None:
        """Stop counting it if its client didn't complete the handshake."""
        self.opening = None
        if self._transport is None:
            self._connections.forget(self)
        if not self.began:
            self._accepted.close()

    # The callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._handler = self._connections.new_handler()
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.idle:
            self.enter(_Phase.HEADER)
        if self._handler is not None:
            self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received() if self._handler is not None else None

    def pause_writing(self) -> None:
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self._handler is not None:
            self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.forget(self)
        if self._handler is not None:
            self._handler.connection_lost(exc)


@web.middleware
async def track_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The middleware, the outermost one, of each application whose connections `Connections` accepts."""
    protocol = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(protocol, _Connection):
        return await handler(request)
    protocol.enter(_Phase.HANDLING)
    try:
        return await handler(request)
    finally:
        protocol.enter(_Phase.ANSWER)


class Connections:
    """The listening sockets of a server and their connections, as an async context manager.

    `runner` has the application, with `track_request`, and is set up and cleaned up here. `per_peer` is how many
    connections a peer may have. Entering raises OSError if it can't listen.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        host: str | None,
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        per_peer: int = MAX_PEER_CONNECTIONS,
    ) -> None:
        self._runner = runner
        self._host = host
        self._port = port
        self._tls = tls
        self._per_peer = per_peer
        self._listening: list[socket.socket] = []
        self._open: set[_Connection] = set()
        self._peers: Counter[str] = Counter()
        self._sweeping: asyncio.Task[None] | None = None
        self._warned = float("-inf")

    @property
    def port(self) -> int:
        """The port of the first socket."""
        port: int = self._listening[0].getsockname()[1]
        return port

    def __len__(self) -> int:
        return len(self._open)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await self._listen()
        except BaseException:
            await self.__aexit__()
            raise
        self._sweeping = asyncio.create_task(self._sweep(), name="close idle connections")
        return self

    async def __aexit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for listening in self._listening:
            loop.remove_reader(listening)
            listening.close()
        self._listening.clear()
        await self._runner.cleanup()
        opening = [connection.opening for connection in self._open if connection.opening is not None]
        for connection in tuple(self._open):
            connection.abort()
        await asyncio.gather(*opening, return_exceptions=True)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        # aiohttp resolves the host and binds the sockets. Copies of them listen, because aiohttp accepts without a
        # limit.
        bound = await loop.create_server(asyncio.Protocol, self._host, self._port, start_serving=False)
        try:
            self._listening = [each.dup() for each in bound.sockets]
        finally:
            bound.close()
        for listening in self._listening:
            listening.listen(_BACKLOG)
            listening.setblocking(False)
            loop.add_reader(listening, self._accept, listening)

    def new_handler(self) -> asyncio.Protocol:
        """aiohttp's protocol for one connection."""
        assert self._runner.server is not None
        return self._runner.server()

    def forget(self, connection: _Connection) -> None:
        """Count a connection no longer."""
        if connection in self._open:
            self._open.discard(connection)
            self._peers[connection.peer] -= 1
            self._peers += Counter()  # drops the peers without connections

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._on_no_descriptor(listening, error)
                return
            self._admit(accepted, peer_of(address))

    def _on_no_descriptor(self, listening: socket.socket, error: OSError) -> None:
        self._warn(f"no connection can be accepted: {error.strerror}; raise the limit of open files")
        if (oldest := _oldest(self._open)) is not None:
            oldest.abort()
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(_ACCEPT_PAUSE, self._accept_again, listening)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _admit(self, accepted: socket.socket, peer: str) -> None:
        if not self._make_room(peer):
            accepted.close()
            return
        loop = asyncio.get_running_loop()
        connection = _Connection(self, accepted, peer, loop.time())
        self._open.add(connection)
        self._peers[peer] += 1
        connection.opening = loop.create_task(self._open_connection(connection, accepted))
        connection.opening.add_done_callback(connection.end_opening)

    async def _open_connection(self, connection: _Connection, accepted: socket.socket) -> None:
        connection.began = True
        accepted.setblocking(False)
        timeout = {} if self._tls is None else {"ssl_handshake_timeout": HEADER_TIMEOUT}
        # A client that aborts its handshake is not an error of the server.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, **timeout
            )

    def _make_room(self, peer: str) -> bool:
        """Whether one more connection of the peer may be open; closes another one for it if necessary."""
        if self._peers[peer] >= self._per_peer:
            self._warn(f"{peer} has {self._peers[peer]} connections open")
            return _closed(_oldest(each for each in self._open if each.peer == peer))
        if len(self._open) < MAX_CONNECTIONS:
            return True
        most, count = self._peers.most_common(1)[0]
        self._warn(f"{len(self._open)} connections are open, {count} of them from {most}")
        oldest = _oldest(each for each in self._open if self._peers[each.peer] == count)
        return _closed(oldest or _oldest(self._open))

    def _warn(self, why: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._warned >= _WARNING_INTERVAL:
            self._warned = now
            log.warning("HTTP port %d: %s; idle connections are closed for new ones", self.port, why)

    async def _sweep(self) -> None:
        """Close overdue connections, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_INTERVAL)
            for connection in tuple(self._open):
                if connection.is_overdue(loop.time()):
                    connection.abort()


def peer_of(address: Any) -> str:
    """The key of a peer: the IPv4 address, or the /64 network of an IPv6 address."""
    host = ipaddress.ip_address(address[0].partition("%")[0])
    if isinstance(host, ipaddress.IPv4Address):
        return str(host)
    return str(host.ipv4_mapped or ipaddress.IPv6Network((int(host) >> 64 << 64, 64)))


def _oldest(connections: Iterable[_Connection]) -> _Connection | None:
    """The connection that may be closed for another one: those that wait for their client first."""
    waiting = [each for each in connections if each.phase is not _Phase.HANDLING]
    return min(waiting, key=lambda each: (each.phase is _Phase.ANSWER and not each.idle, each.since), default=None)


def _closed(connection: _Connection | None) -> bool:
    if connection is not None:
        connection.abort()
    return connection is not None
