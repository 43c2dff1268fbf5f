"""A proxy between a client and a real kube-apiserver that produces faults on demand.

A fault is a value: the calls that it meets, and the effect on them. Between `begin` and `end` the proxy produces one
fault. All other calls reach the API server and come back as they are.

Promises:
- The proxy answers nothing by itself but what a fault says.
- A fault that meets watches ends or silences the watches that are open when it begins.
- A connection that a fault silences stays silent, even after the fault ended. The client has to give it up.
- The proxy records every call that reaches it. Refused connections are no calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import aiohttp
import yaml
from aiohttp import web

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.devcluster.components import Layout

# Calls.


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request as RBAC sees it."""

    verb: str
    """get, list, watch, create, apply, patch, update or delete; `discover` for a path that is not a resource's."""

    resource: str = ""
    """The plural name, `configmaps`."""

    subresource: str = ""

    namespace: str = ""

    name: str = ""

    path: str = ""

    @property
    def writes(self) -> bool:
        return self.verb not in ("get", "list", "watch", "discover")


_PATCHES = {"application/apply-patch+yaml": "apply"}
_VERBS = {"POST": "create", "PUT": "update", "DELETE": "delete"}


def read_call(method: str, path: str, query: Mapping[str, str], content_type: str = "") -> Call:
    """The call of an HTTP request."""
    parts = path.strip("/").split("/")
    root = 2 if parts[0] == "api" else 3 if parts[0] == "apis" else len(parts)
    rest = parts[root:]
    if not rest:
        return Call(verb="discover", path=path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if method == "GET":
        verb = "watch" if query.get("watch") == "true" else "get" if name else "list"
    elif method == "PATCH":
        verb = _PATCHES.get(content_type, "patch")
    else:
        verb = _VERBS[method]
    return Call(verb=verb, resource=resource, subresource=subresource, namespace=namespace, name=name, path=path)


# Effects.


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nothing listens on the port, and all open connections are reset. It meets every call."""


@dataclass(frozen=True, slots=True)
class ResetBefore:
    """The connection is reset, and the request does not reach the API server."""


@dataclass(frozen=True, slots=True)
class ResetAfter:
    """The API server carries out the request, and the connection is reset before the answer."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The connection is half-open: it stays open, and nothing comes back on it any more."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The answer takes so many seconds longer. Open watches go on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """The API server carries out the request at once, and its answer takes so many seconds longer. Open watches go
    on.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The proxy answers in place of the API server."""

    status: int
    body: str
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Truncate:
    """The first half of the answer's body, as a complete HTTP answer. In a watch: the first half of the first event as
    a whole line, then the end.
    """


@dataclass(frozen=True, slots=True)
class EndWatch:
    """A watch ends at once, without any event. Other calls go on."""


@dataclass(frozen=True, slots=True)
class WatchError:
    """A watch has an ERROR event with this Status, and ends. Other calls go on."""

    status: str


Effect = Refuse | ResetBefore | ResetAfter | Silence | Delay | LateAnswer | Answer | Truncate | EndWatch | WatchError


def status_body(code: int, reason: str = "", message: str = "", **details: Any) -> str:
    """A Status of the API server, as JSON."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code}
    body |= {"reason": reason, "message": message}
    return json.dumps({**body, "details": details} if details else body)


def refusal(code: int, reason: str, message: str, headers: tuple[tuple[str, str], ...] = (), **details: Any) -> Answer:
    """The answer of an API server that refuses a call."""
    return Answer(code, status_body(code, reason, message, **details), headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An effect and the calls that it meets. Empty sets are all."""

    effect: Effect

    verbs: frozenset[str] = frozenset()

    resources: frozenset[str] = frozenset()

    first: int = 1
    """The first of these calls that it meets, counted from 1 since its beginning."""

    times: int | None = None
    """How many calls it meets, None for all."""

    def selects(self, call: Call) -> bool:
        """Whether it is about such calls. Which of them it meets is a matter of `first` and `times`."""
        if isinstance(self.effect, EndWatch | WatchError) and call.verb != "watch":
            return False
        return (not self.verbs or call.verb in self.verbs) and (not self.resources or call.resource in self.resources)

    def meets(self, number: int) -> bool:
        """Whether it meets the call with this number among the selected ones."""
        return self.first <= number < self.first + (self.times if self.times is not None else number)


# The proxy.

_PASSED_ON = ("Accept", "Content-Type", "User-Agent", "Impersonate-User")
"""The headers of a request that reach the API server."""


@dataclass(slots=True, eq=False)
class _OpenWatch:
    """A watch that the proxy passes on."""

    call: Call
    effect: Effect | None = None
    """What a fault that began meanwhile does to it."""
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)


class FaultProxy:
    """Passes requests to the API server of a cluster as its administrator, or as the user that the administrator
    impersonates. Use it as an async context manager.

    With `tls` it serves https, else http. With `token` set it answers 401 to every other bearer token.
    """

    def __init__(self, cluster: Cluster, tls: ssl.SSLContext | None = None) -> None:
        self.calls: list[Call] = []
        """All calls, in the order in which they came."""
        self.met: list[Call] = []
        """The calls that the faults met."""
        self.token = ""
        self.tls = tls
        """The TLS context of connections from the next `listen` on."""
        self._cluster = cluster
        self._fault: Fault | None = None
        self._number = 0
        self._watches: set[_OpenWatch] = set()
        self._connections: WeakSet[asyncio.BaseTransport] = WeakSet()
        self._dead: WeakSet[asyncio.BaseTransport] = WeakSet()
        self._closed = asyncio.Event()
        self._writing: list[asyncio.Future[None]] = []
        self._reserved: socket.socket | None = None
        self._runner: web.ServerRunner | None = None
        self._site: web.SockSite | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        layout = Layout(directory=self._cluster.directory)
        context = ssl.create_default_context(cafile=layout.certificate("ca"))
        context.load_cert_chain(layout.certificate("admin"), layout.key("admin"))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            trust_env=False,
        )
        self._runner = web.ServerRunner(
            web.Server(self._handle, access_log=None, handler_cancellation=True), shutdown_timeout=0.01
        )
        await self._runner.setup()
        # It never listens. While the proxy does not listen either, no other process gets the port.
        self._reserved = _bound(0)
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        assert self._session is not None
        assert self._reserved is not None
        self._closed.set()
        await self._runner.cleanup()
        await self._session.close()
        self._reserved.close()

    @property
    def port(self) -> int:
        assert self._reserved is not None, "the proxy is used outside `async with`"
        return int(self._reserved.getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def write_kubeconfig(self, path: Path, *, authority: Path | None = None, token_file: Path | None = None) -> Path:
        """Write a kubeconfig of the proxy. `authority` is the file with its certificate authority, `token_file` the one
        with the token. Returns its path.
        """
        cluster: dict[str, Any] = {"server": self.url}
        if authority is not None:
            cluster["certificate-authority"] = str(authority)
        user = {"tokenFile": str(token_file)} if token_file is not None else {}
        context = {"cluster": "proxy", "user": "proxy", "namespace": "default"}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "proxy", "user": user}],
            "contexts": [{"name": "proxy", "context": context}],
            "current-context": "proxy",
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def next_write(self) -> asyncio.Future[None]:
        """Is done when the next write reaches the proxy."""
        coming: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writing.append(coming)
        return coming

    # Faults.

    async def begin(self, fault: Fault) -> None:
        """Begin to produce a fault in place of the present one."""
        self._fault, self._number = fault, 0
        if isinstance(fault.effect, Refuse):
            await self.refuse()
            return
        if isinstance(fault.effect, Silence) and not fault.verbs and not fault.resources:
            self._dead.update(self._connections)
        for watch in self._watches:
            if fault.selects(watch.call) and not isinstance(fault.effect, Delay | LateAnswer):
                watch.effect = fault.effect
                watch.interrupted.set()

    async def end(self) -> None:
        """End the fault. Silenced connections stay silent."""
        fault, self._fault = self._fault, None
        if fault is not None and isinstance(fault.effect, Refuse):
            await self.listen()

    async def refuse(self) -> None:
        """Stop listening, and reset all connections."""
        assert self._site is not None
        await self._site.stop()
        for transport in list(self._connections):
            _reset(transport)

    async def listen(self) -> None:
        """Listen on the port."""
        assert self._runner is not None
        self._site = web.SockSite(self._runner, _bound(self.port), ssl_context=self.tls)
        await self._site.start()

    # One request.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None:  # the client has gone
            raise asyncio.CancelledError
        self._connections.add(transport)
        call = self._record(request)
        if transport in self._dead:
            return await self._stay_silent(transport)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            self.met.append(call)
            return _answered(refusal(401, "Unauthorized", "Unauthorized"))
        effect = self._effect_on(call)
        if effect is not None:
            self.met.append(call)
        match effect:
            case None | EndWatch() | WatchError():
                pass
            case Answer():
                return _answered(effect)
            case ResetBefore() | Refuse():
                return _reset(transport)
            case Silence():
                return await self._stay_silent(transport)
            case Delay(seconds):
                await asyncio.sleep(seconds)
        try:
            return await self._forward(request, call, effect)
        except (aiohttp.ClientError, OSError):
            return _reset(transport)  # the API server is down: so is the proxy

    def _record(self, request: web.BaseRequest) -> Call:
        call = read_call(request.method, request.path, request.query, request.content_type)
        self.calls.append(call)
        if call.writes and call.resource != "events":
            while self._writing:
                coming = self._writing.pop()
                if not coming.done():
                    coming.set_result(None)
        return call

    def _effect_on(self, call: Call) -> Effect | None:
        fault = self._fault
        if fault is None or not fault.selects(call):
            return None
        self._number += 1
        return fault.effect if fault.meets(self._number) else None

    async def _stay_silent(self, transport: asyncio.BaseTransport) -> web.StreamResponse:
        self._dead.add(transport)
        await self._closed.wait()
        return _reset(transport)

    async def _forward(self, request: web.BaseRequest, call: Call, effect: Effect | None) -> web.StreamResponse:
        assert self._session is not None
        transport = request.transport
        sent = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        url = self._cluster.url + request.raw_path
        body = await request.read()
        async with self._session.request(request.method, url, headers=sent, data=body or None) as answer:
            if call.verb == "watch" and answer.status == 200:
                return await self._relay(request, call, answer, effect)
            content = await answer.read()
        if isinstance(effect, LateAnswer):
            await asyncio.sleep(effect.seconds)
        if transport is None or isinstance(effect, ResetAfter):
            return _reset(transport)
        if isinstance(effect, Truncate):
            content = content[: len(content) // 2]
        kept = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
        response = web.Response(status=answer.status, body=content, headers=kept)
        for warning in answer.headers.getall("Warning", ()):
            response.headers.add("Warning", warning)
        return response

    async def _relay(
        self, request: web.BaseRequest, call: Call, answer: aiohttp.ClientResponse, effect: Effect | None
    ) -> web.StreamResponse:
        """Pass a watch on, until it ends or a fault interrupts it."""
        transport = request.transport
        assert transport is not None
        response = web.StreamResponse(headers={"Content-Type": answer.headers.get("Content-Type", "application/json")})
        watch = _OpenWatch(call, effect if not isinstance(effect, Delay | LateAnswer) else None)
        if watch.effect is not None and not isinstance(watch.effect, Truncate):
            watch.interrupted.set()
        await response.prepare(request)
        self._watches.add(watch)
        try:
            async for piece in _until(answer.content.iter_any(), watch.interrupted):
                if isinstance(watch.effect, Truncate):
                    await response.write(piece[: len(piece) // 2] + b"\n")
                    break
                await response.write(piece)
            return await self._finish(watch, response, transport)
        except (ConnectionError, aiohttp.ClientError):
            return _reset(transport)  # one of the two peers has gone
        finally:
            self._watches.discard(watch)

    async def _finish(
        self, watch: _OpenWatch, response: web.StreamResponse, transport: asyncio.BaseTransport
    ) -> web.StreamResponse:
        match watch.effect:
            case ResetBefore() | ResetAfter() | Refuse():
                return _reset(transport)
            case Silence():
                return await self._stay_silent(transport)
            case WatchError(status):
                await response.write(b'{"type":"ERROR","object":' + status.encode() + b"}\n")
        await response.write_eof()
        return response


def _bound(port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    opened.bind(("127.0.0.1", port))
    return opened


def _reset(transport: asyncio.BaseTransport | None) -> web.StreamResponse:
    """Reset a connection: its peer gets a RST. The returned answer can't be sent any more."""
    if isinstance(transport, asyncio.Transport) and not transport.is_closing():
        connection = transport.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response(status=502)


def _answered(answer: Answer) -> web.Response:
    return web.Response(
        status=answer.status, text=answer.body, headers=dict(answer.headers), content_type=answer.content_type
    )


async def _until(pieces: AsyncIterator[bytes], end: asyncio.Event) -> AsyncIterator[bytes]:
    """The pieces up to the event."""
    ending = asyncio.create_task(end.wait())
    coming: asyncio.Future[bytes | None] | None = None
    try:
        while not end.is_set():
            coming = asyncio.ensure_future(anext(pieces, None))
            await asyncio.wait([coming, ending], return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
                return
            piece = coming.result()
            if piece is None:
                return
            yield piece
    finally:
        left = [task for task in (ending, coming) if task is not None]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
