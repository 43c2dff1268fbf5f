"""The HTTPS server of a webhook.

Promises:
- At most `requests` wait, and at most `size` bytes are read of each, within `deadline` seconds.
- Clients that stall, however many, delay no request, as `operator/http_connections.py` promises.
- A request for another path is not answered. Its last part can't be guessed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeAlias

import msgspec
from aiohttp import web
from msgspec import Struct

from ssa_operator.operator.http_connections import Connections, track_request
from ssa_operator.operator.serving_certificate import ServerContext
from ssa_operator.operator.webhooks.shared_certificate import WebhookCertificate

MAX_PEER_CONNECTIONS = 224
"""More than an API server handles writes in parallel by default (200)."""

Answer: TypeAlias = Callable[[bytes], Awaitable[dict[str, Any]]]
"""The answer to the body of a request. Raises ValueError if the body is no review."""


class WebhookKind(Struct, frozen=True, kw_only=True):
    """What a webhook is for, and how much it takes on."""

    path: str
    """The first part of its path."""
    requests: int
    size: int
    deadline: float


class WebhookServer:
    """The server, as an async context manager. `port` is the port that it listens on."""

    def __init__(
        self, kind: WebhookKind, answer: Answer, host: str | None, port: int, certificate: WebhookCertificate
    ) -> None:
        self._kind = kind
        self._answer = answer
        self._tls = ServerContext(certificate.context())
        self.certificate = certificate
        """The certificate of new connections."""
        self._waiting = 0
        app = web.Application(client_max_size=kind.size, middlewares=[track_request])
        app.add_routes([web.post(f"/{kind.path}/{{token}}", self._handle)])
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        self._connections = Connections(runner, host, port, self._tls.context, per_peer=MAX_PEER_CONNECTIONS)

    @property
    def port(self) -> int:
        return self._connections.port

    def use(self, certificate: WebhookCertificate) -> None:
        """Use another certificate for new connections."""
        self._tls.current, self.certificate = certificate.context(), certificate

    async def __aenter__(self) -> Self:
        await self._connections.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connections.__aexit__()

    async def _handle(self, request: web.Request) -> web.Response:
        if not secrets.compare_digest(request.match_info["token"].encode(), self.certificate.token.encode()):
            raise web.HTTPNotFound
        if self._waiting >= self._kind.requests:
            # The API server treats it like a webhook that is down.
            raise web.HTTPServiceUnavailable(text="too many requests are answered at this moment\n")
        self._waiting += 1
        try:
            return await self._answered(request)
        finally:
            self._waiting -= 1

    async def _answered(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(self._kind.deadline):
                body = await request.read()
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="the request did not arrive in time\n") from error
        try:
            answer = await self._answer(body)
        except ValueError as error:
            raise web.HTTPBadRequest(text="the request is no review that this webhook answers\n") from error
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
