"""A conversion webhook on loopback, and a CRD whose two versions have different shapes.

The API server calls it for each object that it reads or writes in another version than the stored one.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from ssa_operator.kube.auth.certificate_authority import CertificateAuthority
from ssa_operator.operator.http_connections import Connections, track_request
from tests.faults.injections import server_context

Body = dict[str, Any]


class ConversionWebhook:
    """Converts Meters. `crd` is their CRD; v2 is stored and preferred."""

    def __init__(self, group: str, folder: Path) -> None:
        self.group = group
        self._authority = CertificateAuthority("conversion", dt.datetime.now(dt.UTC))
        self._context = server_context(self._authority, folder)
        self._connections: Connections | None = None
        self._port = 0

    @property
    def crd(self) -> Body:
        client = {
            "url": f"https://127.0.0.1:{self._port}/convert",
            "caBundle": base64.b64encode(self._authority.certificate).decode(),
        }
        conditions = {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        }
        versions = [
            _version("v1", {"size": {"type": "string"}}, {"conditions": conditions}, stored=False),
            _version(
                "v2",
                {"count": {"type": "integer"}, "unit": {"type": "string"}},
                {"ready": {"type": "string"}},
                stored=True,
            ),
        ]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"meters.{self.group}"},
            "spec": {
                "group": self.group,
                "names": {"kind": "Meter", "plural": "meters"},
                "scope": "Namespaced",
                "versions": versions,
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
                },
            },
        }

    async def start(self) -> None:
        """Listen, at the same port as before."""
        application = web.Application(middlewares=[track_request])
        application.router.add_post("/convert", self._answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
        self._connections = Connections(runner, "127.0.0.1", self._port, self._context, per_peer=200)
        await self._connections.__aenter__()
        self._port = self._connections.port

    async def stop(self) -> None:
        """Close the port, and also connections whose handshake has not ended, as aiohttp alone doesn't."""
        if self._connections is not None:
            await self._connections.__aexit__()
            self._connections = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        review = json.loads(await request.read())
        asked = review["request"]
        response = {
            "uid": asked["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [converted(each, asked["desiredAPIVersion"]) for each in asked["objects"]],
        }
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})


@contextlib.asynccontextmanager
async def conversion_webhook(group: str, folder: Path) -> AsyncIterator[ConversionWebhook]:
    """A running webhook."""
    webhook = ConversionWebhook(group, folder)
    await webhook.start()
    try:
        yield webhook
    finally:
        await webhook.stop()


def converted(body: Mapping[str, Any], api_version: str) -> Body:
    """A Meter in another version. It may be a part of one: the API server converts the fields of each manager, too."""
    found = {**body, "apiVersion": api_version}
    if body["apiVersion"] == api_version:
        return found
    to_v2 = api_version.endswith("/v2")
    if "spec" in body:
        found["spec"] = _spec_v2(body["spec"]) if to_v2 else _spec_v1(body["spec"])
    if "status" in body:
        found["status"] = _status_v2(body["status"]) if to_v2 else _status_v1(body["status"])
    return found


def _spec_v2(spec: Mapping[str, Any]) -> Body:
    count, _, unit = spec.get("size", "").partition(" ")
    return ({"count": int(count)} if count else {}) | ({"unit": unit} if unit else {})


def _spec_v1(spec: Mapping[str, Any]) -> Body:
    return {"size": f"{spec['count']} {spec.get('unit', '')}".strip()} if "count" in spec else {}


def _status_v2(status: Mapping[str, Any]) -> Body:
    return next(({"ready": each["status"]} for each in status.get("conditions", []) if each.get("status")), {})


def _status_v1(status: Mapping[str, Any]) -> Body:
    return {"conditions": [{"type": "Ready", "status": status["ready"]}]} if "ready" in status else {}


def _version(name: str, spec: Body, status: Body, *, stored: bool) -> Body:
    properties = {"spec": {"type": "object", "properties": spec}, "status": {"type": "object", "properties": status}}
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
