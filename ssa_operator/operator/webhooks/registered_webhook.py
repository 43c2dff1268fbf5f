"""A webhook of a running operator: its HTTPS server, and what the API server knows about it.

Promises:
- The API server trusts a certificate before the server uses it.
- The registration follows the loaded folders. The operator writes it again every CHECK_INTERVAL seconds, so that a
  deleted or changed registration comes back.
- A request that fails is logged once, and is repeated. Reconciles go on.
- All replicas do this, including those that do not lead.
- At most `requests` wait, and at most `size` bytes are read of each, within `deadline` seconds.
- Clients that stall, however many, delay no request, as `operator/http_connections.py` promises.
- A request for another path is not answered. Its last part can't be guessed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, ClassVar, TypeVar

import msgspec
from aiohttp import web

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.operator.http_connections import Connections, track_request
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.serving_certificate import ServerContext
from ssa_operator.operator.webhooks.shared_certificate import KeptCertificate, WebhookCertificate

log = logging.getLogger("ssa_operator")

CHECK_INTERVAL = 60.0
"""Seconds between two checks of the certificate, each followed by a write of the registration."""

RETRY_INTERVAL = 5.0
"""Seconds after which a failed request is repeated."""

PROPAGATION = 5.0
"""Seconds after which API servers have noticed that the registration changed."""

MAX_PEER_CONNECTIONS = 224
"""More than an API server handles writes in parallel by default (200)."""

_Result = TypeVar("_Result")


class RegisteredWebhook(ABC):
    """A webhook that listens on `host` (None: all addresses) and `port`. The API server finds it by `service`, or
    without one by its URL.
    """

    path: ClassVar[str]
    """The first part of its path."""
    requests: ClassVar[int]
    size: ClassVar[int]
    deadline: ClassVar[float]
    name: ClassVar[str]
    """What it is called in logs."""

    def __init__(
        self,
        operator: Operator,
        host: str | None,
        port: int,
        service: tuple[str, int] | None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._operator = operator
        self._host = host
        self._port = port
        self._service = service
        self._clock = clock
        self._changed = asyncio.Event()
        self._problem = ""
        self._waiting = 0

    @abstractmethod
    def _kept(self, client: Client) -> KeptCertificate:
        """The certificate."""

    @abstractmethod
    async def _answer(self, body: bytes) -> dict[str, Any]:
        """The answer to a request. Raises ValueError."""

    @abstractmethod
    async def _register(self, client: Client, config: dict[str, Any]) -> bool:
        """Write the registration with this clientConfig. Returns whether all of it is written. Raises ApiError."""

    async def _stopped(self, client: Client) -> None:  # noqa: B027 - most need nothing
        """Called when the server stops."""

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError if it can't listen."""
        # A replica that does not lead takes part, too. The operator's own client would refuse its writes.
        async with Client(self._operator.client.credentials) as client:
            kept = self._kept(client)
            self._use(await self._current(kept))
            self._tls = ServerContext(self._certificate.context())
            app = web.Application(client_max_size=self.size, middlewares=[track_request])
            app.add_routes([web.post(f"/{self.path}/{{token}}", self._handle)])
            runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
            tls = self._tls.context
            async with Connections(runner, self._host, self._port, tls, per_peer=MAX_PEER_CONNECTIONS) as connections:
                log.info("the %s listens on https://%s:%d", self.name, self._host or "*", connections.port)
                self._operator.controllers.refresh_listeners.append(self._changed.set)
                try:
                    await self._follow(client, kept, connections.port)
                finally:
                    self._operator.controllers.refresh_listeners.remove(self._changed.set)
                    await self._stopped(client)

    def _use(self, certificate: WebhookCertificate) -> None:
        """Use a certificate for new connections, from now on."""
        self._certificate = certificate

    @property
    def _url_host(self) -> str:
        return self._host or "127.0.0.1"

    async def _current(self, kept: KeptCertificate) -> WebhookCertificate:
        """The certificate, as soon as the API server gives it."""
        while True:
            if (certificate := await self._logged(kept.current())) is not None:
                return certificate
            await self._clock.sleep(RETRY_INTERVAL)

    async def _follow(self, client: Client, kept: KeptCertificate, port: int) -> None:
        """Keep the registration and the certificate up to date."""
        while True:
            self._changed.clear()
            complete = await self._logged(self._update(client, kept, port))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL if complete else RETRY_INTERVAL):
                    await self._changed.wait()

    async def _update(self, client: Client, kept: KeptCertificate, port: int) -> bool:
        """Write the registration, and use the present certificate. Returns whether all of it is written. Raises
        ApiError.
        """
        certificate = await kept.current()
        complete = await self._register(client, self._client_config(certificate, port))
        if certificate != self._certificate:
            # A renewed one is trusted beside its predecessor. Another one replaces it at once.
            if certificate.token == self._certificate.token:
                await self._clock.sleep(PROPAGATION)
            self._tls.current = certificate.context()
            self._use(certificate)
        return complete

    def _client_config(self, certificate: WebhookCertificate, port: int) -> dict[str, Any]:
        """How the API server finds the webhook: by the Service, or else by a URL."""
        found: dict[str, Any] = {"caBundle": base64.b64encode(certificate.authorities).decode()}
        path = f"/{self.path}/{certificate.token}"
        if self._service is not None:
            name, port = self._service
            service = {"namespace": self._operator.namespace, "name": name, "port": port, "path": path}
            return {**found, "service": service}
        host = f"[{self._url_host}]" if ":" in self._url_host else self._url_host
        return {**found, "url": f"https://{host}:{port}{path}"}

    async def _handle(self, request: web.Request) -> web.Response:
        if not secrets.compare_digest(request.match_info["token"].encode(), self._certificate.token.encode()):
            raise web.HTTPNotFound
        if self._waiting >= self.requests:
            # The API server treats it like a webhook that is down.
            raise web.HTTPServiceUnavailable(text="too many requests are answered at this moment\n")
        self._waiting += 1
        try:
            async with asyncio.timeout(self.deadline):
                body = await request.read()
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="the request did not arrive in time\n") from error
        else:
            return await self._answered(body)
        finally:
            self._waiting -= 1

    async def _answered(self, body: bytes) -> web.Response:
        try:
            answer = await self._answer(body)
        except ValueError as error:
            raise web.HTTPBadRequest(text="the request is no review that this webhook answers\n") from error
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def _logged(self, work: Awaitable[_Result]) -> _Result | None:
        """The result; None, and a line in the log, if the request failed."""
        try:
            result = await work
        except (ApiError, CredentialsError) as error:
            if self._problem != str(error):
                log.warning("the %s is not registered: %s", self.name, error)
            self._problem = str(error)
            return None
        self._problem = ""
        return result
