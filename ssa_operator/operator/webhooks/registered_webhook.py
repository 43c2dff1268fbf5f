"""A webhook of a running operator: it serves, and keeps what the API server knows about it up to date.

Promises:
- The API server trusts a certificate before the server uses it.
- The registration follows the loaded folders. The operator writes it again every CHECK_INTERVAL seconds, so that a
  deleted or changed registration comes back.
- A request that fails is logged once, and is repeated. Reconciles go on.
- All replicas do this, including those that do not lead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, ClassVar, TypeVar

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.webhooks.shared_certificate import CertificateStore, WebhookCertificate
from ssa_operator.operator.webhooks.webhook_address import WebhookAddress
from ssa_operator.operator.webhooks.webhook_server import WebhookKind, WebhookServer

log = logging.getLogger("ssa_operator")

CHECK_INTERVAL = 60.0
"""Seconds between two checks of the certificate, each followed by a write of the registration."""

RETRY_INTERVAL = 5.0
"""Seconds after which a failed request is repeated."""

PROPAGATION = 5.0
"""Seconds after which API servers have noticed that the registration changed."""

_Result = TypeVar("_Result")


class RegisteredWebhook(ABC):
    """A webhook that listens on `host` (None: all addresses) and `port`. The API server finds it by `service`, or
    without one by its URL.
    """

    kind: ClassVar[WebhookKind]
    name: ClassVar[str]
    """What it is called in logs."""
    not_registered: ClassVar[str]
    """The message about an error of the registration."""

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

    @abstractmethod
    def _store(self, client: Client) -> CertificateStore:
        """Where the certificate is kept."""

    @abstractmethod
    async def _answer(self, body: bytes) -> dict[str, Any]:
        """The answer to a request. Raises ValueError."""

    @abstractmethod
    async def _register(self, client: Client, address: WebhookAddress, certificate: WebhookCertificate) -> bool:
        """Write the registration. Returns whether all of it is written. Raises ApiError."""

    async def _stopped(self, client: Client) -> None:  # noqa: B027 - most need nothing
        """Called when the server stops."""

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError if it can't listen."""
        # A replica that does not lead takes part, too. The operator's own client would refuse its writes.
        async with Client(self._operator.client.credentials) as client:
            store = self._store(client)
            certificate = await self._current(store)
            server = WebhookServer(self.kind, self._answer, self._host, self._port, certificate)
            self._serving(certificate)
            async with server:
                log.info("the %s listens on https://%s:%d", self.name, self._host or "*", server.port)
                self._operator.controllers.refresh_listeners.append(self._changed.set)
                try:
                    await self._follow(client, store, server)
                finally:
                    self._operator.controllers.refresh_listeners.remove(self._changed.set)
                    await self._stopped(client)

    def _serving(self, certificate: WebhookCertificate) -> None:  # noqa: B027 - most need nothing
        """Called with the certificate of the server, before it serves, and with each other one."""

    @property
    def _url_host(self) -> str:
        return self._host or "127.0.0.1"

    async def _current(self, store: CertificateStore) -> WebhookCertificate:
        """The certificate, as soon as the API server gives it."""
        while True:
            if (certificate := await self._logged(store.current())) is not None:
                return certificate
            await self._clock.sleep(RETRY_INTERVAL)

    async def _follow(self, client: Client, store: CertificateStore, server: WebhookServer) -> None:
        """Keep the registration and the certificate up to date."""
        while True:
            self._changed.clear()
            complete = await self._logged(self._update(client, store, server))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL if complete else RETRY_INTERVAL):
                    await self._changed.wait()

    async def _update(self, client: Client, store: CertificateStore, server: WebhookServer) -> bool:
        """Write the registration, and use the present certificate. Returns whether all of it is written. Raises
        ApiError.
        """
        certificate = await store.current()
        address = self._address(f"/{self.kind.path}/{certificate.token}", server.port)
        complete = await self._register(client, address, certificate)
        if certificate != server.certificate:
            # A renewed one is trusted beside its predecessor. Another one replaces it at once.
            if certificate.token == server.certificate.token:
                await self._clock.sleep(PROPAGATION)
            server.use(certificate)
            self._serving(certificate)
        return complete

    def _address(self, path: str, port: int) -> WebhookAddress:
        if self._service is not None:
            name, port = self._service
            return WebhookAddress(path=path, namespace=self._operator.namespace, service=name, port=port)
        host = f"[{self._url_host}]" if ":" in self._url_host else self._url_host
        return WebhookAddress(path=path, url=f"https://{host}:{port}")

    async def _logged(self, work: Awaitable[_Result]) -> _Result | None:
        """The result; None, and a line in the log, if the request failed."""
        try:
            result = await work
        except (ApiError, CredentialsError) as error:
            if self._problem != str(error):
                log.warning(self.not_registered, error)
            self._problem = str(error)
            return None
        self._problem = ""
        return result
