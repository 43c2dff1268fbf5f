"""The few requests that starting a control plane takes: is it ready, and create these objects.

Promises:
- TLS is verified against the cluster's own authority, and no proxy or certificate of the environment is used.
- A request that the server cannot answer yet is an answer (`None`), not an exception; a refusal is an ApiError with
  the server's words.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from ssa_operator.devcluster.components import Layout

_TIMEOUT = aiohttp.ClientTimeout(total=5, connect=2)


class ApiError(Exception):
    """The API server refused what a new cluster needs."""


class Api:
    """One API server, spoken to as the administrator."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def is_ready(self) -> bool:
        """Whether /readyz says ok."""
        return await self._request("GET", "/readyz") is not None

    async def get(self, path: str) -> Any:
        """The decoded object at `path`, or None while there is none or no answer."""
        return await self._request("GET", path)

    async def create(self, path: str, body: dict[str, Any]) -> bool:
        """Creates an object; True when it is there, False when the server cannot do it yet."""
        return await self._request("POST", path, body) is not None

    async def delete(self, path: str) -> bool:
        """Asks for a deletion, and does not wait for it."""
        return await self._request("DELETE", path) is not None

    async def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        try:
            async with self._session.request(method, path, json=body) as response:
                if response.status in {200, 201, 202}:
                    is_json = response.content_type == "application/json"
                    return await response.json() if is_json else await response.text()
                if response.status == 409 and method == "POST":  # somebody created it before, which is as good
                    return {}
                # 403 until the default roles are there, 404 until the object is, 429 and 5xx while the server starts
                if response.status in {403, 404, 429} or response.status >= 500:
                    return None
                raise ApiError(f"{method} {path}: {response.status} {await response.text()}")
        except (aiohttp.ClientConnectionError, TimeoutError):
            return None


@asynccontextmanager
async def connect(url: str, layout: Layout) -> AsyncIterator[Api]:
    """An administrator's connection to the API server at `url`, with the certificates of the cluster's folder."""
    context = ssl.create_default_context(cafile=layout.certificate("ca"))
    context.load_cert_chain(layout.certificate("admin"), layout.key("admin"))
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(url, connector=connector, timeout=_TIMEOUT, trust_env=False) as session:
        yield Api(session)
