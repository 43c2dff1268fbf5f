"""The HTTPS server of the validating webhook.

Promises:
- A request is answered within ANSWER_DEADLINE seconds, with a warning instead of a judgement if there is no time.
- At most MAX_REQUESTS requests are judged or wait for it, and at most MAX_BYTES are read of each, so that no client holds
  up reconciles. Renders keep their limits, and slow ones take turns with those of the reconciles.
- A judgement that fails unexpectedly allows the parent, and is logged.
- It only answers: no request changes the operator or the cluster.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Self

import msgspec
from aiohttp import web

from ssa_operator.controller.admission.parent_review import ParentReview
from ssa_operator.controller.serving_certificate import CertificateFiles, ServingCertificate
from ssa_operator.core.policies import admission

log = logging.getLogger("ssa_operator")

PATH = "/validate"

ANSWER_DEADLINE = 2.0
"""Seconds. The API server waits a little longer, by `timeoutSeconds` of the webhook."""

MAX_BYTES = 8 * 1024 * 1024
"""A review has the new object and the stored one, each of which may have 3 MiB: the API server's limit for a request."""

MAX_REQUESTS = 32


class WebhookServer:
    """The server, as an async context manager. `port` is the port that it listens on. Raises CertificateError."""

    def __init__(self, review: ParentReview, host: str | None, port: int, certificate: CertificateFiles) -> None:
        self._review = review
        self._host = host
        self._port = port
        self._certificate = ServingCertificate(certificate)
        self._renewing: asyncio.Task[None] | None = None
        self._running = 0
        app = web.Application(client_max_size=MAX_BYTES)
        app.add_routes([web.post(PATH, self._validate)])
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)

    @property
    def port(self) -> int:
        port: int = self._runner.addresses[0][1]
        return port

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port, ssl_context=self._certificate.context).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self._renewing = asyncio.create_task(self._certificate.follow(), name="renew the webhook's certificate")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        await self._runner.cleanup()

    async def _validate(self, request: web.Request) -> web.Response:
        if self._running >= MAX_REQUESTS:
            # The API server takes it for a webhook that is down, and allows the parent.
            raise web.HTTPServiceUnavailable(text="too many requests are judged at this moment\n")
        self._running += 1
        try:
            async with asyncio.timeout(ANSWER_DEADLINE):
                asked = admission.read_request(await request.read())
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="the request did not arrive in time\n") from error
        except ValueError as error:
            raise web.HTTPBadRequest(text="the request is no AdmissionReview\n") from error
        else:
            return web.Response(body=msgspec.json.encode(await self._judged(asked)), content_type="application/json")
        finally:
            self._running -= 1

    async def _judged(self, asked: admission.AdmissionRequest) -> dict[str, Any]:
        try:
            async with asyncio.timeout(ANSWER_DEADLINE):
                return admission.answer(asked.uid, await self._review.problems(asked))
        except TimeoutError:
            why = f"its templates were not rendered in {ANSWER_DEADLINE:g} s"
        except Exception as error:  # noqa: BLE001 - an error of the operator's own must not stop users
            # The text of the error may quote the parent or a Secret.
            log.error("a parent of %s was not judged: %s", asked.resource.resource, type(error).__name__)
            why = "the operator failed to judge it"
        return admission.answer(asked.uid, warnings=(f"ssa-operator allows this object unchecked: {why}",))
