"""The HTTPS server of the validating webhook.

Promises:
- A request is answered within ANSWER_DEADLINE seconds, with a warning instead of a judgement if there is no time.
- One request is judged at a time, so that reconciles whose renders are slow get every second turn at least.
- At most MAX_REQUESTS requests wait, and at most MAX_BYTES are read of each.
- A judgement that fails unexpectedly allows the parent, and is logged.
- Clients that stall, however many, delay no review, as `operator/http_connections.py` promises.
- No request changes the operator or the cluster. A request for another path is not judged.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Any, Self

import msgspec
from aiohttp import web

from ssa_operator.operator.admission import rules as admission
from ssa_operator.operator.admission.parent_review import ParentReview
from ssa_operator.operator.admission.shared_certificate import WebhookCertificate
from ssa_operator.operator.http_connections import Connections, track_request
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
