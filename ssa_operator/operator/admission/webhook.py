"""The validating webhook of a running operator: how it answers, and its registration.

Promises:
- A request is answered within ANSWER_DEADLINE seconds, with a warning instead of a judgement if there is no time.
- One request is judged at a time, so that reconciles whose renders are slow get every second turn at least.
- At most MAX_REQUESTS requests wait, and at most MAX_BYTES are read of each.
- A judgement that fails unexpectedly allows the parent, and is logged.
- No request changes the operator or the cluster.
- Behind a Service, the registration stays when the operator stops, because replicas use it, too. A webhook with a URL
  removes its own registration when it stops in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import ApplyOptions, DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.secret_fields import SecretFields
from ssa_operator.operator.admission import rules as admission
from ssa_operator.operator.admission.parent_review import ParentReview
from ssa_operator.operator.admission.rules import (
    JudgedResource,
    configuration,
    field_manager,
    webhook,
    webhook_name,
)
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.permissions.operator_needs import CONFIGURATION
from ssa_operator.operator.webhooks.registered_webhook import RegisteredWebhook
from ssa_operator.operator.webhooks.shared_certificate import KeptCertificate

log = logging.getLogger("ssa_operator")

ANSWER_DEADLINE = 2.0
"""Seconds. The API server waits a little longer, by `timeoutSeconds` of the webhook."""

MAX_BYTES = 8 * 1024 * 1024
"""A review has the new object and the stored one. Each may have 3 MiB: the API server's limit for a request."""

MAX_REQUESTS = 32

REMOVAL_TIMEOUT = 5.0
"""Seconds that a stop waits for the removal of the registration."""

CONFIGURATIONS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    kind="ValidatingWebhookConfiguration",
    plural="validatingwebhookconfigurations",
    namespaced=False,
)

_PATHS = SecretFields((("webhooks",),))


class Webhook(RegisteredWebhook):
    """The webhook of an operator that listens on `host` (None: all addresses) and `port`."""

    path, requests, size, deadline = "validate", MAX_REQUESTS, MAX_BYTES, ANSWER_DEADLINE
    name = "webhook"

    def __init__(self, operator: Operator, host: str | None, port: int, clock: Clock = SYSTEM) -> None:
        super().__init__(operator, host, port, operator.options.admission_service, clock)
        self._review = ParentReview(operator)
        self._turn = asyncio.Lock()

    def _kept(self, client: Client) -> KeptCertificate:
        if self._service is not None:
            return KeptCertificate(client, self._operator.namespace, self._clock.now)
        return KeptCertificate(None, self._operator.namespace, self._clock.now, host=self._url_host)

    async def _answer(self, body: bytes) -> dict[str, Any]:
        asked = admission.REVIEWS.read(body)
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

    async def _register(self, client: Client, config: dict[str, Any]) -> bool:
        served = [parents.served.resource for parents in self._operator.folders.values()]
        options = self._operator.options
        made = webhook(
            webhook_name(self._operator.namespace),
            config,
            [JudgedResource(each.group, each.version, each.plural, each.namespaced) for each in served],
            options.namespaces,
            options.selector,
        )
        await self._apply(client, [made])
        return True

    async def _apply(self, client: Client, webhooks: list[dict[str, object]]) -> None:
        # The path of the webhook is a secret.
        options = ApplyOptions(manager=field_manager(self._operator.namespace), secret=_PATHS)
        await client.apply(CONFIGURATIONS, "", CONFIGURATION, encode(configuration(webhooks)), options)

    async def _stopped(self, client: Client) -> None:
        """Remove the registration of this operator, and the object if no other operator is registered in it."""
        if self._service is not None:
            return
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
