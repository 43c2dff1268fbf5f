"""Webhooks that deny a deletion with a code and a reason that mean something else of the API server."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from ssa_operator.kube.auth.certificate_authority import CertificateAuthority
from ssa_operator.operator.http_connections import Connections, track_request
from tests.faults.injections import server_context
from tests.operator.harness import ECHOES, Desk, MakeOptions, Operate, echo, not_ready_because, only

pytestmark = pytest.mark.cluster

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n"
PAIR = MAP + "{% if spec.replicas > 1 %}\n---\n" + MAP.replace("{{ name }}", "{{ name }}-two") + "{% endif %}\n"


@contextlib.asynccontextmanager
async def denied_deletions(desk: Desk, folder: Path, code: int, reason: str) -> AsyncIterator[None]:
    """A webhook that denies the deletion of the namespace's ConfigMaps whose names end with two."""
    authority = CertificateAuthority("webhook", dt.datetime.now(dt.UTC))

    async def deny(request: web.Request) -> web.StreamResponse:
        review = json.loads(await request.read())
        status = {"code": code, "reason": reason, "message": "no"}
        response = {"uid": review["request"]["uid"], "allowed": False, "status": status}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})

    application = web.Application(middlewares=[track_request])
    application.router.add_post("/", deny)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
    context = server_context(authority, folder)
    async with Connections(runner, "127.0.0.1", 0, context, per_peer=200) as connections:
        ca = base64.b64encode(authority.certificate).decode()
        hook = {
            "name": "test.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{connections.port}/", "caBundle": ca},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}
            ],
            "matchConditions": [{"name": "two", "expression": "request.name.endsWith('two')"}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": desk.namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": desk.namespace},
            "webhooks": [hook],
        }
        await desk.apply(configuration)
        try:
            yield
        finally:
            await desk.delete("validatingwebhookconfiguration", desk.namespace)


@pytest.mark.more_cases
@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (409, "Conflict"), (410, "Gone")])
async def test_a_child_whose_deletion_is_denied_is_reported_and_deleted_when_it_is_allowed_without_a_resync(
    desk: Desk, operate: Operate, options: MakeOptions, tmp_path: Path, code: int, reason: str
) -> None:
    async with operate(templates=only(options().templates[0], child=PAIR)):
        await desk.apply_until_ready(echo("web", replicas=2))
        async with denied_deletions(desk, tmp_path, code, reason):
            await in_force(desk)
            await desk.apply(echo("web", replicas=1))
            await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "web-two", "denied the request"))
            assert await desk.find("configmaps", "web-two") is not None
        await desk.gone("configmaps", "web-two")
        await desk.ready(ECHOES, "web")


async def in_force(desk: Desk) -> None:
    """Return once a deletion is denied."""
    while True:
        try:
            await desk.kubectl("delete", "configmap", "web-two", "--dry-run=server")
        except AssertionError:
            return
