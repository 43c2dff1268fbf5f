"""The requests of a start: wait until the API server is ready, and create the first objects.

Promises:
- The client trusts the cluster's own certificate authority only, and ignores the environment's proxies.
- A request returns None while the server can't answer it yet. If the server refuses it, it raises AdminRequestError
  with the server's message.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from ssa_operator.devcluster.components import Layout

_TIMEOUT = aiohttp.ClientTimeout(total=5, connect=2)


class AdminRequestError(Exception):
    """The API server refused a request of the start. The text has its message."""


class AdminClient:
    """The administrator's client of one API server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def is_ready(self) -> bool:
        """Whether /readyz answers ok."""
        return await self._request("GET", "/readyz") is not None

    async def get(self, path: str) -> Any:
        """The decoded object at `path`, or None while it does not exist or the server does not answer."""
        return await self._request("GET", path)

    async def create(self, path: str, body: dict[str, Any]) -> bool:
        """Creates an object. Returns True if it exists now, False if the server can't create it yet."""
        return await self._request("POST", path, body) is not None

    async def delete(self, path: str) -> bool:
        """Deletes an object without waiting for its finalizers."""
        return await self._request("DELETE", path) is not None

    async def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        try:
            async with self._session.request(method, path, json=body) as response:
                if response.status in {200, 201, 202}:
                    # The answer to a DELETE may have all deleted objects, of any depth.
                    is_json = method == "GET" and response.content_type == "application/json"
                    return await response.json() if is_json else await response.text()
                if response.status == 409 and method == "POST":  # it exists already
                    return {}
                # 403 before the default roles exist, 404 before the object exists, 429 and 5xx while the server starts
                if response.status in {403, 404, 429} or response.status >= 500:
                    return None
                raise AdminRequestError(f"{method} {path}: {response.status} {await response.text()}")
        except (aiohttp.ClientConnectionError, TimeoutError):
            return None


@asynccontextmanager
async def connect(url: str, layout: Layout) -> AsyncIterator[AdminClient]:
    """An administrator's client of the API server at `url`, with the certificates of the cluster's folder."""
    context = ssl.create_default_context(cafile=layout.certificate("ca"))
    context.load_cert_chain(layout.certificate("admin"), layout.key("admin"))
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(url, connector=connector, timeout=_TIMEOUT, trust_env=False) as session:
        yield AdminClient(session)


STORAGE_CLASS = "standard"


def initial(nodes: int) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The API path and the body of each object to create, in order."""
    return (
        *(("/api/v1/nodes", _node(index)) for index in range(nodes)),
        ("/apis/storage.k8s.io/v1/storageclasses", _storage_class()),
    )


def count_ready(nodes: dict[str, Any]) -> int:
    """How many nodes of a NodeList are Ready and have no taint."""
    return sum(1 for node in nodes["items"] if _is_ready(node))


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not node["spec"].get("taints")


def _node(index: int) -> dict[str, Any]:
    name = f"node-{index + 1}"
    capacity = {"cpu": "1000", "memory": "1Ti", "pods": "10000", "ephemeral-storage": "1Ti"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kwok.x-k8s.io/volume",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
