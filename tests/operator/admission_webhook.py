"""Admission webhooks on loopback, which change or deny objects in the namespace of a test."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from ssa_operator.kube.auth.certificate_authority import CertificateAuthority
from ssa_operator.operator.http_connections import Connections, track_request
from tests.faults.injections import server_context
from tests.operator.admission_policies import ADMISSION
from tests.operator.harness import PATIENCE, Desk

Body = dict[str, Any]


def changed(*operations: Body) -> Body:
    """A webhook's answer that changes the object by JSON patches."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def denied(message: str, code: int = 403) -> Body:
    """A webhook's answer that denies the object."""
    return {"allowed": False, "status": {"code": code, "message": message}}


ALLOWED: Body = {"allowed": True}


@contextlib.asynccontextmanager
async def webhook(
    desk: Desk,
    folder: Path,
    resources: Sequence[str],
    answer: Callable[[Body], Body | Awaitable[Body]],
    form: str = "Mutating",
) -> AsyncIterator[None]:
    """A webhook that answers creations and updates of resources, once the API server asks it about an update of the
    object `web` of the first one. `answer` takes an AdmissionRequest.
    """
    authority = CertificateAuthority("webhook", dt.datetime.now(dt.UTC))
    asked = asyncio.Event()

    async def respond(request: web.Request) -> web.StreamResponse:
        review = json.loads(await request.read())
        asked.set()
        found = answer(review["request"])
        response = {"uid": review["request"]["uid"], **(await found if inspect.isawaitable(found) else found)}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})

    application = web.Application(middlewares=[track_request])
    application.router.add_post("/review", respond)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
    context = server_context(authority, folder)
    async with Connections(runner, "127.0.0.1", 0, context, per_peer=200) as connections:
        url = f"https://127.0.0.1:{connections.port}/review"
        name = f"{desk.namespace}-{form.lower()}"
        client = {"url": url, "caBundle": base64.b64encode(authority.certificate).decode()}
        await desk.apply(_configuration(name, form, desk.namespace, resources, client))
        try:
            async with asyncio.timeout(PATIENCE):
                while not asked.is_set():
                    with contextlib.suppress(AssertionError):
                        await desk.kubectl("annotate", resources[0], "web", "a=b", "--dry-run=server")
                    await asyncio.sleep(0.1)
            yield
        finally:
            await desk.delete(f"{form.lower()}webhookconfiguration", name)


def _configuration(name: str, form: str, namespace: str, resources: Sequence[str], client: Body) -> Body:
    named = [resource.partition(".") for resource in resources]
    rules = [
        {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [plural]}
        for plural, _, group in named
    ]
    return {
        "apiVersion": ADMISSION,
        "kind": f"{form}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "test.example.com",
                "clientConfig": client,
                "rules": rules,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 30,
            }
        ],
    }
