"""Reads an API server's description of its kinds, which is one OpenAPI v3 document for each group version."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.server_version import read_version

_ROOT = "/openapi/v3"

_PARALLEL = 8
"""Documents that are read at once."""


class _Path(msgspec.Struct, rename="camel"):
    server_relative_url: str = msgspec.field(name="serverRelativeURL")


class _Index(msgspec.Struct):
    paths: dict[str, _Path]


async def read_openapi(client: Client) -> tuple[str, list[dict[str, Any]]]:
    """The version of Kubernetes (1.36), and the documents of all group versions. Raises ApiError."""
    version = await read_version(client)
    index = msgspec.json.decode((await client.send(calls.raw_get(_ROOT))).body, type=_Index)
    limit = asyncio.Semaphore(_PARALLEL)

    async def read(path: str) -> dict[str, Any]:
        async with limit:
            response = await client.send(calls.raw_get(f"{_ROOT}/{path}"))
        document: dict[str, Any] = msgspec.json.decode(response.body)
        return document

    versions = [path for path in index.paths if path.startswith("api/") or path.count("/") == _GROUP_VERSION]
    documents = await asyncio.gather(*(read(path) for path in versions))
    return version, list(documents)


async def read_group_version(client: Client, api_version: str) -> dict[str, Any]:
    """The document of one group version (apps/v1, or v1). Raises ApiError."""
    path = f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"
    document: dict[str, Any] = msgspec.json.decode((await client.send(calls.raw_get(f"{_ROOT}/{path}"))).body)
    return document


_GROUP_VERSION = 2
"""Slashes in the path of a group version, apis/apps/v1."""
