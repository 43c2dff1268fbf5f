"""Requests to one API server, over connections that are kept open.

Promises:
- Every failure is an `ApiError` or `CredentialsError`; nothing of aiohttp's comes through.
- Connecting takes at most 5 s and a request at most 35 s; watches have no end of their own, but connections of theirs.
- What may be repeated is repeated by the rules of `retry`; a 401 makes the credentials be read again once.
- The environment's proxies and netrc play no part beyond what the credentials say.
"""

from __future__ import annotations

import builtins
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
from yarl import URL

from ssa_operator import __version__
from ssa_operator.core.existing import in_version
from ssa_operator.core.live import MANAGER, Live
from ssa_operator.core.secrecy import NOTHING, Secrecy
from ssa_operator.kube import request as calls
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.kube.credentials import Credentials
from ssa_operator.kube.errors import ApiError, Unreachable, refusal
from ssa_operator.kube.pace import MOST, Pace
from ssa_operator.kube.redaction import redacted_warning
from ssa_operator.kube.request import Deletion, Request, Scope
from ssa_operator.kube.resource import Resource
from ssa_operator.kube.retry import pause

CONNECT_TIMEOUT = 5.0
REQUEST_TIMEOUT = 35.0
"""Seconds; the API server ends a request of its own after 34 s at most."""

IDLE = 60.0
"""Seconds that an unused connection stays open: longer than the default interval between two passes."""

PAGE = 500
"""Objects in one page of a list; kubectl and client-go ask for as many."""

_HEADERS = {
    "User-Agent": f"ssa-operator/{__version__}",
    # Compressing costs the API server and us more than a cluster's network saves: kubernetes/kubernetes#112296.
    "Accept-Encoding": "identity",
}
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(_Page).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A 2xx answer."""

    status: int
    body: bytes
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an apply gave: the object as it now is, whether it is new, and the server's warnings."""

    live: Live
    created: bool
    warnings: tuple[str, ...]


class Client:
    """Two pools of connections, one for requests and one for watches. Use it as an async context manager."""

    def __init__(self, credentials: Credentials, clock: Clock = SYSTEM) -> None:
        self.credentials = credentials
        self.pace = Pace()
        self._clock = clock
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._requests = _session(
            aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, sock_connect=CONNECT_TIMEOUT), limit=MOST
        )
        # No total: a watch lives for minutes. The reflector judges silence.
        self._watches = _session(aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT), limit=0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Live:
        """Raises ApiError (`not_found` where there is none)."""
        request = calls.get(resource, name, namespace)
        return _live((await self.send(request)).body, request)

    async def list(
        self, resource: Resource, namespace: str = "", label_selector: str = "", limit: int = PAGE
    ) -> tuple[list[Live], str]:
        """All objects of a scope and the version of the list, as of one moment; `limit` is the size of a page."""
        return await self.list_scope(Scope(resource, namespace, label_selector), limit)

    async def list_scope(self, scope: Scope, limit: int = PAGE) -> tuple[builtins.list[Live], str]:
        """`list` of a scope."""
        found: list[Live] = []
        token = ""
        while True:
            try:
                response = await self.send(calls.list_page(scope, limit=limit, token=token))
            except ApiError as error:
                if not (error.gone and token):
                    raise
                # The moment that the pages showed is compacted away. In one piece it can't happen again.
                found, token, limit = [], "", 0
                continue
            items, metadata = _page(response.body, scope)
            found += items
            token = metadata.token
            if not token:
                return found, metadata.resource_version

    async def apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: bytes,
        *,
        subresource: str = "",
        dry_run: bool = False,
        secrecy: Secrecy = NOTHING,
        manager: str = MANAGER,
    ) -> Applied:
        """Server-side apply of an encoded manifest, forced, as the operator's field manager. Raises ApiError.

        Where errors and warnings would hold what `secrecy` knows, they don't quote values; for Secrets they never do.
        """
        request = calls.apply(
            resource, namespace, name, body, subresource=subresource, dry_run=dry_run, manager=manager
        )
        if secrecy:
            request = replace(request, secrecy=secrecy)
        try:
            response = await self.send(request)
        except ApiError as error:
            if dry_run or not error.missing_version:
                raise
            await self._forget_version(resource, namespace, name, error.missing_version)
            response = await self.send(request)
        return Applied(live=_live(response.body, request), created=response.status == 201, warnings=response.warnings)

    async def _forget_version(self, resource: Resource, namespace: str, name: str, version: str) -> None:
        """Make the fields that an object's managers wrote in a version that is gone fields of the present one. With
        them as they are, the object can't be applied to any more.
        """
        live = await self.get(resource, name, namespace)
        patch = in_version(live, resource.api_version, instead_of=version)
        await self.send(calls.merge_patch(resource, namespace, name, patch))

    async def create(self, resource: Resource, namespace: str, body: bytes, *, dry_run: bool = False) -> Applied:
        """POST of an encoded object. Raises ApiError (`already_exists`)."""
        request = calls.create(resource, namespace, body, dry_run=dry_run)
        response = await self.send(request)
        return Applied(live=_live(response.body, request), created=True, warnings=response.warnings)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        propagation: str = "Background",
        resource_version: str = "",
    ) -> Live | None:
        """Delete the object with that uid: None when it is gone, the object while its finalizers keep it.

        Raises ApiError: `conflict` where another object has taken the name.
        """
        request = calls.delete(resource, namespace, name, Deletion(uid, propagation, resource_version))
        try:
            response = await self.send(request)
        except ApiError as error:
            if error.not_found:
                return None
            raise
        live = _live(response.body, request)
        # A Status, which has no uid, says that it is gone; the object that it isn't yet.
        return live if live.deleting and live.uid == uid else None

    async def send(self, request: Request) -> Response:
        """Any request. Raises ApiError for every answer other than 2xx, and CredentialsError."""
        attempt = 0
        while True:
            try:
                return await self._paced(request)
            except ApiError as error:
                wait = pause(request, error, attempt, self._clock.random())
                if wait is None:
                    raise
            attempt += 1
            await self._clock.sleep(wait)

    async def _paced(self, request: Request) -> Response:
        if not request.writes:
            return await self._authorized(request)
        async with self.pace.turn() as turn:
            try:
                response = await self._authorized(request)
            except ApiError as error:
                if error.throttled:
                    self.pace.refused(turn)
                raise
            self.pace.accepted()
            return response

    async def _authorized(self, request: Request) -> Response:
        headers = await self.credentials.headers()
        try:
            return await self._attempt(request, headers)
        except ApiError as error:
            if error.code != 401 or not await self.credentials.refused(headers):
                raise
        return await self._attempt(request, await self.credentials.headers())

    async def _attempt(self, request: Request, headers: Mapping[str, str]) -> Response:
        assert self._requests is not None, "the client is used outside `async with`"
        try:
            async with self._requests.request(**self._arguments(request, headers)) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(request, error, self.credentials.server) from error
        _check(request, answer, body)
        warnings = _warnings(answer.headers.getall("Warning", ()), request) if "Warning" in answer.headers else ()
        return Response(status=answer.status, body=body, warnings=warnings)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of a watch in pieces as they come. Raises ApiError, also while the pieces are read."""
        assert self._watches is not None, "the client is used outside `async with`"
        headers = await self.credentials.headers()
        for last in (False, True):
            try:
                async with self._watches.request(**self._arguments(request, headers)) as answer:
                    if answer.status == 401 and not last and await self.credentials.refused(headers):
                        headers = await self.credentials.headers()
                        continue
                    if answer.status != 200:
                        _check(request, answer, await answer.read())
                    async with aclosing(_pieces(request, answer.content, self.credentials.server)) as pieces:
                        yield pieces
                    return
            except (aiohttp.ClientError, OSError) as error:
                raise _unreachable(request, error, self.credentials.server) from error

    def _arguments(self, request: Request, headers: Mapping[str, str]) -> dict[str, Any]:
        endpoint = self.credentials.endpoint
        sent = {**headers, "Accept": request.accept}
        if request.body:
            sent["Content-Type"] = request.content_type
        arguments: dict[str, Any] = {
            "method": request.method,
            "url": URL(endpoint.server + request.target, encoded=True),
            "headers": sent,
            "data": request.body or None,
            "allow_redirects": False,
            # With the request, not the pool: after the client certificate changed, the old connections no longer match.
            "ssl": self.credentials.ssl or True,
        }
        if endpoint.proxy:
            arguments["proxy"] = endpoint.proxy
        if endpoint.tls_server_name:
            arguments["server_hostname"] = endpoint.tls_server_name
        return arguments


def _session(timeout: aiohttp.ClientTimeout, limit: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=IDLE, socket_factory=_kept_alive),
        timeout=timeout,
        headers=_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=True,
    )


def _kept_alive(address: Any) -> socket.socket:
    """A socket that notices within about a minute that the other side is gone."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # macOS calls the first one differently
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


async def _pieces(request: Request, content: aiohttp.StreamReader, server: str) -> AsyncGenerator[bytes]:
    try:
        async for piece in content.iter_any():
            yield piece
    except (aiohttp.ClientError, OSError) as error:
        raise _unreachable(request, error, server) from error


def _check(request: Request, answer: aiohttp.ClientResponse, body: bytes) -> None:
    if 200 <= answer.status < 300:
        return
    refused = refusal(
        answer.status,
        body,
        retry_after=answer.headers.get("Retry-After", ""),
        confidential=request.confidential,
        secrecy=request.secrecy,
    )
    raise ApiError(request.subject, refused)


def _unreachable(request: Request, error: Exception, server: str) -> Unreachable:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError | ssl.SSLError):
        return Unreachable(request.subject, f"the certificate of {server} can't be trusted: {error}", sent=False)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        cause = getattr(error, "os_error", None) or error
        return Unreachable(request.subject, f"no connection to {server}: {cause}", sent=False)
    if isinstance(error, TimeoutError):
        return Unreachable(request.subject, f"{server} gave no answer in {REQUEST_TIMEOUT:g} s", sent=True)
    return Unreachable(request.subject, f"the connection to {server} broke: {error or type(error).__name__}", sent=True)


def _live(body: bytes, request: Request) -> Live:
    try:
        return Live(body)
    except msgspec.DecodeError as error:
        raise Unreachable(request.subject, f"the answer is no object: {error}", sent=True) from error


def _page(body: bytes, scope: Scope) -> tuple[list[Live], _ListMetadata]:
    resource = scope.resource
    try:
        page = _decode_page(body)
        return [Live(item, resource.api_version, resource.kind) for item in page.items or ()], page.metadata
    except msgspec.DecodeError as error:
        raise Unreachable(f"list of {scope}", f"the answer is no list: {error}", sent=True) from error


def _warnings(headers: Sequence[str], request: Request) -> tuple[str, ...]:
    """The texts of `Warning: 299 - "text"` headers (RFC 7234, 5.5)."""
    texts = [re.sub(r"\\(.)", r"\1", text) for header in headers for text in _WARNING.findall(header)]
    texts = [
        redacted_warning(text) if request.confidential or request.secrecy.betrays(text) else text for text in texts
    ]
    return tuple(dict.fromkeys(texts))
