"""The validating webhook of a running operator: its server, its certificate and its registration.

Promises:
- The API server trusts a certificate before the server uses it.
- The registration follows the loaded folders. The operator writes it again every CHECK_INTERVAL seconds, so that a
  deleted or changed registration comes back.
- Behind a Service, the registration stays when the operator stops, because replicas use it, too. A webhook with a URL
  removes its own registration when it stops in order.
- A request that fails is logged once, and is repeated. Reconciles go on.
- All replicas do this, including those that do not lead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from typing import TypeVar

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions, DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.json_encoding import encode
from ssa_operator.objects.secret_fields import SecretFields
from ssa_operator.operator.admission.parent_review import ParentReview
from ssa_operator.operator.admission.shared_certificate import (
    CertificateStore,
    OwnCertificate,
    SharedCertificate,
    WebhookCertificate,
)
from ssa_operator.operator.admission.webhook_configuration import (
    JudgedResource,
    WebhookAddress,
    configuration,
    field_manager,
    webhook,
    webhook_name,
)
from ssa_operator.operator.admission.webhook_server import WebhookServer, path_of
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.permissions.rules import CONFIGURATION

log = logging.getLogger("ssa_operator")

CHECK_INTERVAL = 60.0
"""Seconds between two checks of the certificate, each followed by a write of the registration."""

RETRY_INTERVAL = 5.0
"""Seconds after which a failed request is repeated."""

PROPAGATION = 5.0
"""Seconds after which API servers have noticed that the registration changed."""

REMOVAL_TIMEOUT = 5.0
"""Seconds that a stop waits for the removal of the registration."""

CONFIGURATIONS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingWebhookConfiguration",
    plural="validatingwebhookconfigurations",
    namespaced=False,
)

_Result = TypeVar("_Result")


_PATHS = SecretFields((("webhooks",),))


class Webhook:
    """The webhook of an operator that listens on `host` (None: all addresses) and `port`."""

    def __init__(self, operator: Operator, host: str | None, port: int, clock: Clock = SYSTEM) -> None:
        self._operator = operator
        self._host = host
        self._port = port
        self._service = operator.options.admission_service
        self._clock = clock
        self._changed = asyncio.Event()
        self._problem = ""

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError if it can't listen."""
        # A replica that does not lead takes part, too. The operator's own client would refuse its writes.
        async with Client(self._operator.client.credentials) as client:
            store = self._store(client)
            certificate = await self._current(store)
            server = WebhookServer(ParentReview(self._operator), self._host, self._port, certificate)
            async with server:
                log.info("the webhook listens on https://%s:%d", self._host or "*", server.port)
                self._operator.controllers.on_refreshed = self._changed.set
                try:
                    await self._follow(client, store, server)
                finally:
                    if self._service is None:
                        await self._unregister(client)

    def _store(self, client: Client) -> CertificateStore:
        if self._service is not None:
            return SharedCertificate(client, self._operator.namespace, self._clock.now)
        return OwnCertificate(self._url_host, self._clock.now)

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
            used = await self._logged(self._update(client, store, server))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_INTERVAL if used is None else CHECK_INTERVAL):
                    await self._changed.wait()

    async def _update(self, client: Client, store: CertificateStore, server: WebhookServer) -> WebhookCertificate:
        """Write the registration, and use the present certificate. Raises ApiError."""
        certificate = await store.current()
        await self._register(client, server.port, certificate)
        if certificate != server.certificate:
            await self._clock.sleep(PROPAGATION)
            server.use(certificate)
        return certificate

    async def _register(self, client: Client, port: int, certificate: WebhookCertificate) -> None:
        """Write the registration. Raises ApiError."""
        address = self._address(path_of(certificate), port)
        served = [parents.served.resource for parents in self._operator.folders.values()]
        options = self._operator.options
        made = webhook(
            webhook_name(self._operator.namespace),
            address.client_config(certificate.authorities),
            [JudgedResource(each.group, each.version, each.plural, each.namespaced) for each in served],
            options.namespaces,
            options.selector,
        )
        await self._apply(client, [made])

    def _address(self, path: str, port: int) -> WebhookAddress:
        if self._service is not None:
            name, port = self._service
            return WebhookAddress(path=path, namespace=self._operator.namespace, service=name, port=port)
        host = f"[{self._url_host}]" if ":" in self._url_host else self._url_host
        return WebhookAddress(path=path, url=f"https://{host}:{port}")

    async def _apply(self, client: Client, webhooks: list[dict[str, object]]) -> None:
        # The path of the webhook is a secret.
        options = ApplyOptions(manager=field_manager(self._operator.namespace), secret=_PATHS)
        await client.apply(CONFIGURATIONS, "", CONFIGURATION, encode(configuration(webhooks)), options)

    async def _unregister(self, client: Client) -> None:
        """Remove the registration of this operator, and the object if no other operator is registered in it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REMOVAL_TIMEOUT):
                await self._logged(self._remove(client))

    async def _remove(self, client: Client) -> None:
        live = await client.find(CONFIGURATIONS, CONFIGURATION)
        if live is None:
            return
        own = webhook_name(self._operator.namespace)
        if all(each["name"] == own for each in live.body.get("webhooks") or ()):
            options = DeleteOptions(uid=live.uid, resource_version=live.resource_version)
            await client.delete(CONFIGURATIONS, "", CONFIGURATION, options)
        else:
            await self._apply(client, [])

    async def _logged(self, work: Awaitable[_Result]) -> _Result | None:
        """The result; None, and a line in the log, if the request failed."""
        try:
            result = await work
        except (ApiError, CredentialsError) as error:
            if self._problem != str(error):
                log.warning("the webhook is not registered: %s", error)
            self._problem = str(error)
            return None
        self._problem = ""
        return result
