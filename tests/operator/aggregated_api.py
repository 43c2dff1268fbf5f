"""An aggregated API server: it serves one kind, and the APIService that has the API server forward requests to it.

The real API server proxies to it and discovers it. What it lists is a script, because the project ships none.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.auth.certificate_authority import CertificateAuthority
from tests.faults.injections import server_context
from tests.operator.harness import PATIENCE, Desk


class AggregatedAPI:
    """The API `v1` of a group, with objects of the kind Gadget."""

    def __init__(self, desk: Desk, group: str, port: int) -> None:
        self.group = group
        self.objects: list[dict[str, Any]] = []
        self._desk = desk
        self._port = port
        self._service = group.partition(".")[0]

    async def register(self, *, port: int | None = None) -> None:
        """Create or change the APIService; `port`: where no server listens, as during an upgrade."""
        # An ExternalName is the one kind of Service that leads to a process of this machine.
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": self._service},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        reference = {"namespace": self._desk.namespace, "name": self._service, "port": port or self._port}
        api_service = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1.{self.group}"},
            "spec": {
                "group": self.group,
                "version": "v1",
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
                "insecureSkipTLSVerify": True,
                "service": reference,
            },
        }
        await self._desk.apply(service, api_service)

    async def unregister(self) -> None:
        """Delete the APIService."""
        await self._desk.delete("apiservice", f"v1.{self.group}")

    async def until_discovered(self, version: str) -> None:
        """Return once discovery of the group is as wanted: `Current` or `Stale`, '' for none."""
        async with asyncio.timeout(PATIENCE):
            while await self._freshness() != version:  # noqa: ASYNC110 - discovery has no watch
                await asyncio.sleep(0.05)

    async def _freshness(self) -> str:
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        response = await self._desk.client.send(calls.raw_get("/apis", accept=accept))
        groups = [each for each in json.loads(response.body)["items"] if each["metadata"]["name"] == self.group]
        return str(groups[0]["versions"][0]["freshness"]) if groups else ""

    def gadget(self, name: str, **labels: str) -> None:
        """Add an object."""
        self.objects.append(
            {
                "apiVersion": f"{self.group}/v1",
                "kind": "Gadget",
                "metadata": {
                    "name": name,
                    "namespace": self._desk.namespace,
                    "uid": f"uid-{name}",
                    "resourceVersion": "1",
                    "labels": labels,
                },
            }
        )

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to a request that the API server forwards."""
        base = f"/apis/{self.group}/v1"
        if request.path == base:
            resource = {"name": "gadgets", "kind": "Gadget", "namespaced": True, "verbs": ["get", "list", "watch"]}
            return web.json_response(
                {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": base[6:], "resources": [resource]}
            )
        if not request.path.startswith(base):
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        if request.query.get("sendInitialEvents"):
            return web.json_response({"kind": "Status", "code": 422, "reason": "Invalid"}, status=422)
        if request.query.get("watch") == "true":
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            await asyncio.Event().wait()
        name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
        items = [each for each in self.objects if not name or each["metadata"]["name"] == name]
        return web.json_response(
            {"kind": "GadgetList", "apiVersion": base[6:], "metadata": {"resourceVersion": "1"}, "items": items}
        )


@contextlib.asynccontextmanager
async def aggregated_api(desk: Desk, group: str, folder: Path) -> AsyncIterator[AggregatedAPI]:
    """A running server of the group; it is not registered yet."""
    authority = CertificateAuthority("aggregated", dt.datetime.now(dt.UTC))
    api: AggregatedAPI | None = None

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert api is not None
        return await api.answer(request)

    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.01)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(authority, folder)).start()
        api = AggregatedAPI(desk, group, runner.addresses[0][1])
        yield api
    finally:
        with contextlib.suppress(AssertionError):
            await desk.delete("apiservice", f"v1.{group}")
        await runner.cleanup()
