"""The validating webhook of a running operator: its HTTPS server, its certificate and its registration.

Promises:
- A request is answered within ANSWER_DEADLINE seconds, with a warning instead of a judgement if there is no time.
- One request is judged at a time, so that reconciles whose renders are slow get every second turn at least.
- At most MAX_REQUESTS requests wait, and at most MAX_BYTES are read of each.
- A judgement that fails unexpectedly allows the parent, and is logged.
- Clients that stall, however many, delay no review, as `operator/http_connections.py` promises.
- No request changes the operator or the cluster. A request for another path is not judged.
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
import secrets
from collections.abc import Awaitable
from typing import Any, Self, TypeVar

import msgspec
from aiohttp import web

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions, DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.secret_fields import SecretFields
from ssa_operator.operator.admission import rules as admission
from ssa_operator.operator.admission.parent_review import ParentReview
from ssa_operator.operator.admission.rules import (
    JudgedResource,
    WebhookAddress,
    configuration,
    field_manager,
    webhook,
    webhook_name,
)
from ssa_operator.operator.admission.shared_certificate import (
    CertificateStore,
    OwnCertificate,
    SharedCertificate,
    WebhookCertificate,
)
from ssa_operator.operator.http_connections import Connections, track_request
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.permissions.operator_needs import CONFIGURATION
from ssa_operator.operator.serving_certificate import ServerContext

log = logging.getLogger("ssa_operator")

ANSWER_DEADLINE = 2.0
"""Seconds. The API server waits a little longer, by `timeoutSeconds` of the webhook."""

MAX_BYTES = 8 * 1024 * 1024
"""A review has the new object and the stored one. Each may have 3 MiB: the API server's limit for a request."""

MAX_REQUESTS = 32

MAX_PEER_CONNECTIONS = 224
"""More than an API server judges writes in parallel by default (200)."""


def path_of(certificate: WebhookCertificate) -> str:
    """The path of the webhook."""
    return f"/validate/{certificate.token}"


class WebhookServer:
    """The server, as an async context manager. `port` is the port that it listens on."""

    def __init__(self, review: ParentReview, host: str | None, port: int, certificate: WebhookCertificate) -> None:
        self._review = review
        self._tls = ServerContext(certificate.context())
        self.certificate = certificate
        """The certificate of new connections."""
        self._waiting = 0
        self._turn = asyncio.Lock()
        app = web.Application(client_max_size=MAX_BYTES, middlewares=[track_request])
        app.add_routes([web.post("/validate/{token}", self._validate)])
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

    async def _validate(self, request: web.Request) -> web.Response:
        if not secrets.compare_digest(request.match_info["token"].encode(), self.certificate.token.encode()):
            raise web.HTTPNotFound
        if self._waiting >= MAX_REQUESTS:
            # The API server treats it like a webhook that is down, and allows the parent.
            raise web.HTTPServiceUnavailable(text="too many requests are judged at this moment\n")
        self._waiting += 1
        try:
            return await self._answer(request)
        finally:
            self._waiting -= 1

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(ANSWER_DEADLINE):
                asked = admission.read_request(await request.read())
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="the request did not arrive in time\n") from error
        except ValueError as error:
            raise web.HTTPBadRequest(text="the request is no AdmissionReview\n") from error
        answer = await self._judged(asked)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def _judged(self, asked: admission.AdmissionRequest) -> dict[str, Any]:
        try:
            async with asyncio.timeout(ANSWER_DEADLINE), self._turn:
                return admission.answer(asked.uid, await self._review.problems(asked))
        except TimeoutError:
            why = f"its templates were not rendered in {ANSWER_DEADLINE:g} s"
        except Exception as error:  # noqa: BLE001 - an error of the operator's own must not stop users
            # No traceback: the text of the error may quote the parent or a Secret.
            log.warning("a parent of %s was not judged: %s", asked.resource.resource, type(error).__name__)
            why = "the operator failed to judge it"
        return admission.answer(asked.uid, warning=f"ssa-operator did not check this object: {why}")


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
