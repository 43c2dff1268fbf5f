"""Reads what an API server says about itself: its version, and one OpenAPI v3 document for each group version.

Promises:
- An answer that can't be read is an ApiError that names the request.
- A group version whose last CRD was deleted while the documents are read is left out.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.transport import decoded

_ROOT = "/openapi/v3"

_PARALLEL = 8
"""Number of documents that are read in parallel."""


class _Path(msgspec.Struct, rename="camel"):
    server_relative_url: str = msgspec.field(name="serverRelativeURL")


class _Index(msgspec.Struct):
    paths: dict[str, _Path]


async def read_openapi(client: Client) -> tuple[str, list[dict[str, Any]]]:
    """The version of Kubernetes (1.36), and the documents of all group versions. Raises ApiError."""
    version = await read_version(client)
    index = await client.read(calls.raw_get(_ROOT), _Index)
    limit = asyncio.Semaphore(_PARALLEL)

    async def read(path: str) -> dict[str, Any] | None:
        try:
            async with limit:
                # While the first or the last CRD of a group comes or goes, its document is empty for a moment.
                request = calls.raw_get(f"{_ROOT}/{path}")
                body = (await client.send(request)).body
                return decoded(body, dict[str, Any], request.subject) if body else None
        except ApiError as error:
            if error.unknown_resource:
                return None
            raise

    versions = [path for path in index.paths if path.startswith("api/") or path.count("/") == _GROUP_VERSION]
    documents = await asyncio.gather(*(read(path) for path in versions))
    return version, [document for document in documents if document is not None]


_GROUP_VERSION = 2
"""Slashes in the path of a group version, apis/apps/v1."""


class _ServerVersion(msgspec.Struct):
    major: str
    minor: str


async def read_version(client: Client) -> str:
    """The version of the API server, as in 1.36. Raises ApiError."""
    found = await client.read(calls.raw_get("/version"), _ServerVersion)
    return f"{found.major}.{found.minor.rstrip('+')}"
