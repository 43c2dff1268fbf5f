"""A clock that never waits, credentials without a server's certificate, and a server that answers by script.

The script is for faults that a real API server doesn't produce on demand; what one does is tested against a real one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credential_types import Credential, CredentialSource, Endpoint
from ssa_operator.kube.auth.credentials import Credentials
from ssa_operator.kube.clock import Clock

CONFIG_MAPS = Resource(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
SECRETS = Resource(group="", version="v1", kind="Secret", plural="secrets", namespaced=True)

Script = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class StillClock:
    """Time passes only by sleeping, which takes no time; chance is always the same."""

    def __init__(self, chance: float = 0.5) -> None:
        self.time = 1_000_000.0
        self.chance = chance
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    def random(self) -> float:
        return self.chance

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class Granted:
    """A source that gives these headers, one after the other; the last one for ever."""

    renewable = True

    def __init__(self, *tokens: str, expires: float | None = None) -> None:
        self.tokens = list(tokens)
        self.expires = expires
        self.reads = 0

    async def grant(self) -> Credential:
        self.reads += 1
        token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        return Credential(headers={"Authorization": f"Bearer {token}"}, expires=self.expires)


def _plain_http(certificate: object) -> None:
    return None


def credentials(server: str, source: CredentialSource, clock: Clock) -> Credentials:
    endpoint = Endpoint(server=server, namespace="default", context="test", proxy=None, tls_server_name=None)
    return Credentials(endpoint, source, _plain_http, clock)


@asynccontextmanager
async def scripted(script: Script, *tokens: str, clock: Clock | None = None) -> AsyncIterator[Client]:
    """A client of a server that answers every request by the script."""
    runner = web.ServerRunner(web.Server(script), shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    clock = clock or StillClock()
    try:
        async with Client(
            credentials(f"http://127.0.0.1:{port}", Granted(*(tokens or ("t",))), clock), clock
        ) as client:
            yield client
    finally:
        await runner.cleanup()


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return {**body, "details": details} if details else body


def refuse(code: int, reason: str = "", message: str = "", **details: Any) -> web.Response:
    return web.json_response(status(code, reason, message, **details), status=code)


def config_map(
    name: str, version: int | str, *, uid: str = "", namespace: str = "default", **extra: Any
) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        **extra,
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def live(name: str, version: int | str, *, uid: str = "", **extra: Any) -> LiveObject:
    return LiveObject.of(config_map(name, version, uid=uid, **extra))


def event(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def bookmark(version: int, *, end: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
