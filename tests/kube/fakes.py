"""A clock that never waits, credentials without TLS, and a server that answers by a script.

The script is for faults that a real API server doesn't produce on demand. Tests of an API server's behaviour use a
real one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import Credentials
from ssa_operator.kube.auth.server_config import CredentialProvider, FetchedCredential, ServerConfig
from ssa_operator.kube.clock import Clock
from ssa_operator.objects.live_object import LiveObject

CONFIG_MAPS = Resource(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
SECRETS = Resource(group="", version="v1", kind="Secret", plural="secrets", namespaced=True)

Script = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class StillClock:
    """A clock that only `sleep` moves, without waiting; its random number is always the same."""

    def __init__(self, chance: float = 0.5) -> None:
        self.time = 1_000_000.0
        self.chance = chance
        self.stepped = 0.0
        """The seconds by which the wall clock was set forward, negative for back."""
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time + self.stepped

    def random(self) -> float:
        return self.chance

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class TokenSequence:
    """A provider of these tokens, one after the other. After the last one it returns the last one again."""

    renewable = True

    def __init__(self, *tokens: str, expires: float | None = None) -> None:
        self.tokens = list(tokens)
        self.expires = expires
        self.reads = 0

    async def fetch(self) -> FetchedCredential:
        self.reads += 1
        token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        return FetchedCredential(headers={"Authorization": f"Bearer {token}"}, expires=self.expires)


def _plain_http(certificate: object) -> None:
    return None


def credentials(server: str, provider: CredentialProvider, clock: Clock) -> Credentials:
    config = ServerConfig(server=server, namespace="default", context="test", proxy=None, tls_server_name=None)
    return Credentials(config, provider, _plain_http, clock)


@asynccontextmanager
async def scripted(script: Script, *tokens: str, clock: Clock | None = None) -> AsyncIterator[Client]:
    """A client of a server whose every answer is the script's."""
    runner = web.ServerRunner(web.Server(script), shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    clock = clock or StillClock()
    try:
        async with Client(
            credentials(f"http://127.0.0.1:{port}", TokenSequence(*(tokens or ("t",))), clock), clock
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
