"""Reads the version of Kubernetes from the API server."""

from __future__ import annotations

import msgspec

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client


class _Version(msgspec.Struct):
    major: str
    minor: str


async def read_version(client: Client) -> str:
    """The version of the API server, as in 1.36. Raises ApiError."""
    found = msgspec.json.decode((await client.send(calls.raw_get("/version"))).body, type=_Version)
    return f"{found.major}.{found.minor.rstrip('+')}"
