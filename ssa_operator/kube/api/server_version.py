"""Reads the version of Kubernetes from the API server."""

from __future__ import annotations

import msgspec

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import Unreachable
from ssa_operator.objects.json_decoding import decoder


class _ServerVersion(msgspec.Struct):
    major: str
    minor: str


_decode = decoder(_ServerVersion)


async def read_version(client: Client) -> str:
    """The version of the API server, as in 1.36. Raises ApiError."""
    body = (await client.send(calls.raw_get("/version"))).body
    try:
        found = _decode(body)
    except msgspec.DecodeError as error:
        raise Unreachable("GET /version", f"the answer can't be read: {error}", sent=True) from error
    return f"{found.major}.{found.minor.rstrip('+')}"
