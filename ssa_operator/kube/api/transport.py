"""Sends requests to one API server over keep-alive connections.

Promises:
- Every failure raises an `ApiError` or `CredentialsError`, never an error of aiohttp.
- Connecting takes at most 5 s, and a request at most 35 s. A watch has to begin in this time, and has no timeout after
  that. Watches have a connection pool of their own.
- The client retries by the rules of `retry`. After a 401 it renews the credentials once. If it does not trust the
  server's certificate, it reads the file of the certificate authorities again.
- The connection of an abandoned watch or request is closed, even if the server has ended it meanwhile.
- With a fence, a request that changes the cluster leaves the process only while the fence is open.
- The transport that `impersonating` returns sends every request as that user, and shares everything else with its
  origin.
- An answer takes no more than ANSWER_LIMIT bytes of memory, compressed or not.
- The client uses the proxy of the credentials, and ignores netrc and every other proxy of the environment.
"""

from __future__ import annotations

import asyncio
import copy
import io
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from ssa_operator import __version__
from ssa_operator.kube.api.errors import ApiError, NotLeader, Unreachable, read_error_status
from ssa_operator.kube.api.flow_control import MAX_WRITES, FencedSocket, WriteFence, WriteLimiter, retry_delay
from ssa_operator.kube.api.redaction import redacted_warning
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.auth.credentials import Credentials
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.json_codec import decoder
from ssa_operator.objects.secret_fields import NO_SECRETS, VALUES, ParentSecrets

CONNECT_TIMEOUT = 5.0
WHOLE_BODY = 2**20
"""Bytes of a body that is sent in one piece; aiohttp warns about longer ones."""

REQUEST_TIMEOUT = 35.0
"""Seconds. The API server itself ends a request after at most 34 s."""

ANSWER_LIMIT = 2**30
"""Bytes of an answer: a page of a list has 500 objects, and the API server stores 1.5 MiB of each by default."""

ERROR_LIMIT = 2**20
"""Bytes that are read of an answer that is an error."""

IDLE_TIMEOUT = 60.0
"""Seconds that an unused connection stays open: longer than the default resync interval."""

_HEADERS = {
    "User-Agent": f"ssa-operator/{__version__}",
    # Within a cluster's network, compression costs the API server and the operator more than it saves:
    # kubernetes/kubernetes#112296.
    "Accept-Encoding": "identity",
}
_WARNING = r'299 \S+ "((?:[^"\\]|\\.)*)"'


class Response(Struct, frozen=True, kw_only=True):
    """A 2xx answer, or a 304 to a request with `if_none_match`."""

    status: int
    body: bytes
    etag: str = ""
    """The version of the body, '' if the API server gave none."""
    warnings: tuple[str, ...] = ()


Document = TypeVar("Document")


def decoded(body: bytes | msgspec.Raw, type_: type[Document], subject: str) -> Document:
    """The answer to a request. Raises Unreachable if it is of another type: a proxy may have cut it off."""
    try:
        return decoder(type_)(body)
    except msgspec.DecodeError as error:
        raise Unreachable(subject, f"the answer can't be read: {error}", sent=True) from error


class RequestObserver(Protocol):
    """Measures requests. It is called for a request after the answer, and for a watch when it is opened."""

    def answered(self, request: Request, code: int, seconds: float) -> None:
        """The API server answered with this HTTP code, or not at all (0), after this number of seconds."""

    def retried(self, request: Request, code: int) -> None:
        """A request is sent again after an answer with this HTTP code, or after none (0)."""

    def limited(self, seconds: float) -> None:
        """A write waited this many seconds for its slot (WriteLimiter)."""

    def listed(self, resource_name: str) -> None:
        """A reflector completed a list."""


class NoObserver:
    """Measures nothing."""

    def answered(self, request: Request, code: int, seconds: float) -> None:
        pass

    def retried(self, request: Request, code: int) -> None:
        pass

    def limited(self, seconds: float) -> None:
        pass

    def listed(self, resource_name: str) -> None:
        pass


class Transport:
    """Two pools of connections, one for requests and one for watches. Use it as an async context manager.

    With a `fence`, the requests that change the cluster have a third one, whose sockets send only while it is open.
    """

    def __init__(self, credentials: Credentials, clock: Clock = SYSTEM, fence: WriteFence | None = None) -> None:
        self.credentials = credentials
        self.fence = fence
        self.write_limiter = WriteLimiter()
        self.observer: RequestObserver = NoObserver()
        self._user = ""
        self._secrets = NO_SECRETS
        self._clock = clock
        self._requests: aiohttp.ClientSession | None = None
        self._writes: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    def impersonating(self, user: str) -> Self:
        """The same connections, limits and measurements, with every request sent as another user. It is open as long as
        its origin.

        The API server adds the groups of a service account. https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
        """
        view = copy.copy(self)
        view._user = user  # noqa: SLF001 - a copy of this one
        return view

    def hiding(self, secrets: ParentSecrets) -> Self:
        """The same, for the children of one parent: no error and no warning quotes contents of Secrets that the
        parent's renders put into them. It is open as long as its origin.
        """
        if secrets == self._secrets:
            return self
        view = copy.copy(self)
        view._secrets = secrets  # noqa: SLF001 - a copy of this one
        return view

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, sock_connect=CONNECT_TIMEOUT)
        self._requests = _session(timeout, limit=MAX_WRITES)
        if self.fence is not None:
            self._writes = _session(timeout, limit=MAX_WRITES, fence=self.fence)
        # No total: a watch lives for minutes. The reflector has a timeout for silence.
        self._watches = _session(aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT), limit=0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The stack closes the second session even if closing the first one is cancelled.
        async with AsyncExitStack() as closing:
            for session in filter(None, (self._requests, self._writes, self._watches)):
                closing.push_async_callback(session.close)

    async def send(self, request: Request) -> Response:
        """Send a request, with retries. Raises ApiError for every other answer, and CredentialsError."""
        attempt = 0
        request = request.hiding(self._secrets)
        # The callers limit reviews: requests of other clients must not use up the operator's slots.
        limited = request.writes and not request.review
        # One coroutine, because the event loop passes through each one that awaits another whenever it goes on.
        while True:
            number = await self._acquire_slot() if limited else None
            try:
                headers = await self.credentials.headers()
                try:
                    response = await self._send_once(request, headers)
                except ApiError as error:
                    if not await self._renewed_after(error, headers):
                        raise
                    response = await self._send_once(request, await self.credentials.headers())
            except ApiError as error:
                if number is not None and error.throttled:
                    self.write_limiter.throttled(number)
                delay = retry_delay(request, error, attempt, self._clock.random())
                if delay is None:
                    raise
                self.observer.retried(request, error.code)
            else:
                if number is not None:
                    self.write_limiter.accepted()
                return response
            finally:
                if number is not None:
                    self.write_limiter.release()
            attempt += 1
            await self._clock.sleep(delay)

    async def _acquire_slot(self) -> int:
        waiting = self._clock.monotonic()
        number = await self.write_limiter.acquire()
        self.observer.limited(self._clock.monotonic() - waiting)
        return number

    async def read(self, request: Request, type_: type[Document]) -> Document:
        """`send`, and the answer decoded. Raises ApiError and CredentialsError."""
        return decoded((await self.send(request)).body, type_, request.subject)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of a watch in pieces, as they arrive. Raises ApiError, even while the pieces are read."""
        headers = await self.credentials.headers()
        async with AsyncExitStack() as stack:
            try:
                answer = await self._open(request, headers, stack)
            except ApiError as error:
                if not await self._renewed_after(error, headers):
                    raise
                answer = await self._open(request, await self.credentials.headers(), stack)
            try:
                async with aclosing(_pieces(request, answer.content, self.credentials.server)) as pieces:
                    yield pieces
            except (aiohttp.ClientError, OSError) as error:
                raise _unreachable(request, error, self.credentials.server) from error

    async def _open(
        self, request: Request, headers: Mapping[str, str], stack: AsyncExitStack
    ) -> aiohttp.ClientResponse:
        """The answer to a watch that has begun. The stack closes it."""
        assert self._watches is not None, "the client is used outside `async with`"
        started = self._clock.monotonic()
        try:
            # A half-open connection takes the request, and never answers it.
            async with asyncio.timeout(REQUEST_TIMEOUT):
                answer = await stack.enter_async_context(self._watches.request(**self._arguments(request, headers)))
                stack.callback(_abort, answer)
                body = b"" if answer.status == 200 else await _read(answer)
        except (aiohttp.ClientError, OSError) as error:
            self.observer.answered(request, 0, self._clock.monotonic() - started)
            raise _unreachable(request, error, self.credentials.server) from error
        self.observer.answered(request, answer.status, self._clock.monotonic() - started)
        if answer.status != 200:
            _check(request, answer, body)
        return answer

    async def _renewed_after(self, error: ApiError, headers: Mapping[str, str]) -> bool:
        """Renew the cause of a failure of a request with these headers. Returns whether another attempt can succeed."""
        if isinstance(error, Unreachable):
            return error.untrusted and self.credentials.renew_authorities()
        return error.code == 401 and await self.credentials.renew_after_401(headers)

    async def _send_once(self, request: Request, headers: Mapping[str, str]) -> Response:
        session = self._requests
        if self.fence is not None and request.changes_cluster:
            if not self.fence.is_open:
                raise NotLeader(request.subject)
            session = self._writes
        assert session is not None, "the client is used outside `async with`"
        started = self._clock.monotonic()
        try:
            async with session.request(**self._arguments(request, headers)) as answer:
                try:
                    body = await _read(answer)
                finally:
                    _abort(answer)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.observer.answered(request, 0, self._clock.monotonic() - started)
            raise _unreachable(request, error, self.credentials.server) from error
        self.observer.answered(request, answer.status, self._clock.monotonic() - started)
        _check(request, answer, body)
        warnings = _warnings(answer.headers.getall("Warning", ()), request) if "Warning" in answer.headers else ()
        return Response(status=answer.status, body=body, etag=answer.headers.get("ETag", ""), warnings=warnings)

    def _arguments(self, request: Request, headers: Mapping[str, str]) -> dict[str, Any]:
        config = self.credentials.config
        sent = {**headers, "Accept": request.accept}
        if request.if_none_match:
            sent["If-None-Match"] = request.if_none_match
        if self._user:
            sent["Impersonate-User"] = self._user
        if request.body:
            sent["Content-Type"] = request.content_type
        arguments: dict[str, Any] = {
            "method": request.method,
            "url": URL(config.server + request.target, encoded=True),
            "headers": sent,
            "data": _data(request.body),
            "allow_redirects": False,
            # An argument of the request, not of the pool: a new client certificate has to open a new connection.
            "ssl": self.credentials.ssl or True,
        }
        if config.proxy:
            arguments["proxy"] = config.proxy
        if config.tls_server_name:
            arguments["server_hostname"] = config.tls_server_name
        return arguments


def _data(body: bytes) -> bytes | io.BytesIO | None:
    """The body for aiohttp: a large one in pieces, between which the event loop runs other tasks."""
    if len(body) > WHOLE_BODY:
        return io.BytesIO(body)
    return body or None


def _session(timeout: aiohttp.ClientTimeout, limit: int, fence: WriteFence | None = None) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=limit, keepalive_timeout=IDLE_TIMEOUT, socket_factory=partial(_keep_alive_socket, fence)
        ),
        timeout=timeout,
        headers=_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=True,
    )


def _keep_alive_socket(fence: WriteFence | None, address: Any) -> socket.socket:
    """A socket with TCP keep-alive: a lost peer is an error after about a minute."""
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol) if fence is None else FencedSocket(fence, family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # on macOS the first option has another name
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return opened


def _abort(answer: aiohttp.ClientResponse) -> None:
    """End the connection of an answer, unless it was read to its end. asyncio's `close` leaves a TLS connection open
    that the server ended while reading was paused.
    """
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()


async def _pieces(request: Request, content: aiohttp.StreamReader, server: str) -> AsyncGenerator[bytes]:
    try:
        async for piece in content.iter_any():
            yield piece
    except (aiohttp.ClientError, OSError) as error:
        raise _unreachable(request, error, server) from error


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """The body. The body of an error is cut off if it is too large."""
    is_error = not 200 <= answer.status < 300
    limit = ERROR_LIMIT if is_error else ANSWER_LIMIT
    pieces: list[bytes] = []
    size = 0
    while piece := await answer.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            if is_error:
                break
            raise aiohttp.ClientPayloadError(f"the answer is larger than {limit // 2**20} MiB")
    return b"".join(pieces)


def _check(request: Request, answer: aiohttp.ClientResponse, body: bytes) -> None:
    if 200 <= answer.status < 300 or (answer.status == HTTPStatus.NOT_MODIFIED and request.if_none_match):
        return
    status = read_error_status(
        answer.status,
        body,
        retry_after=answer.headers.get("Retry-After", ""),
        confidential=request.confidential,
        secret=request.secret,
        sent=request.body,
        quotes_sent_only=request.quotes_sent_only,
    )
    raise ApiError(request.subject, status)


def _unreachable(request: Request, error: Exception, server: str) -> Unreachable:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError | ssl.SSLError):
        message = f"the certificate of {server} can't be trusted: {error}"
        return Unreachable(request.subject, message, sent=False, untrusted=True)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        cause = getattr(error, "os_error", None) or error
        return Unreachable(request.subject, f"no connection to {server}: {cause}", sent=False)
    if isinstance(error, TimeoutError):
        return Unreachable(request.subject, f"{server} gave no answer in {REQUEST_TIMEOUT:g} s", sent=True)
    return Unreachable(request.subject, f"the connection to {server} broke: {error or type(error).__name__}", sent=True)


def _warnings(headers: Sequence[str], request: Request) -> tuple[str, ...]:
    """The texts of `Warning: 299 - "text"` headers (RFC 7234, 5.5)."""
    texts = [re.sub(r"\\(.)", r"\1", text) for header in headers for text in re.findall(_WARNING, header)]
    if request.confidential or request.secret:
        texts = [redacted_warning(text, VALUES if request.confidential else request.secret) for text in texts]
    return tuple(dict.fromkeys(texts))
