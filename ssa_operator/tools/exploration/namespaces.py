"""The namespaces of an exploration, and the objects that all of its parents look up.

Promises:
- An error of the API server ends the wait for a new namespace, unless it may pass by itself.
- An object that exists already is neither changed nor deleted.
- Everything that was created is deleted at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.render_result import Document

T = TypeVar("T")

_AGAIN = 0.05
"""Seconds before a request that may pass by itself is sent again."""

_UNAUTHORIZED = 401


class Namespaces:
    """Creates and deletes namespaces. `close` deletes the shared objects."""

    def __init__(self, client: Client, mapper: RESTMapper, patience: float) -> None:
        """`patience` is how many seconds the API server has to create a namespace."""
        self._client = client
        self._mapper = mapper
        self._patience = patience
        self._shared: dict[tuple[str, str, str], None] = {}
        """The kind, namespace and name of the shared objects that exist now."""
        self._created: list[tuple[Resource, str, str, str]] = []
        """The resource, namespace, name and uid of those that were created here."""

    async def create(self, name: str) -> None:
        """Create a namespace in which pods can be created. Raises ApiError."""
        resource = await self._mapper.resource_by_name("namespaces")
        accounts = await self._mapper.resource_by_name("serviceaccounts")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        deadline = time.monotonic() + self._patience

        async def create() -> None:
            try:
                await self._client.create(resource, "", encode(body))
            except ApiError as error:
                if not error.already_exists:  # an answer that was lost
                    raise

        await _until_accepted(create, deadline)
        # The API server refuses a pod before.
        await _until_accepted(lambda: self._client.get(accounts, "default", name), deadline)

    async def delete(self, name: str) -> None:
        """Delete a namespace, if it exists. Raises ApiError."""
        resource = await self._mapper.resource_by_name("namespaces")
        live = await self._client.find(resource, name)
        if live is not None:
            await self._client.delete(resource, "", name, DeleteOptions(uid=live.uid))

    async def create_shared(self, document: Document) -> None:
        """Create an object, and its namespace, unless they exist. Raises ApiError and UnknownKind."""
        metadata = document.body["metadata"]
        namespace = metadata["namespace"]
        key = (str(group_kind(document)), namespace, metadata["name"])
        if key in self._shared:
            return
        self._shared[key] = None
        namespaces = await self._mapper.resource_by_name("namespaces")
        if await self._client.find(namespaces, namespace) is None:
            await self.create(namespace)
            live = await self._client.get(namespaces, namespace)
            self._created.append((namespaces, "", namespace, live.uid))
        version = split_api_version(document.body["apiVersion"])[1]
        resource = await self._mapper.resource(group_kind(document), version)
        if await self._client.find(resource, metadata["name"], namespace) is None:
            created = await self._client.create(resource, namespace, encode(document.body))
            self._created.append((resource, namespace, metadata["name"], created.live.uid))

    async def close(self) -> None:
        """Delete the shared objects that were created here. Raises ApiError."""
        while self._created:
            resource, namespace, name, uid = self._created.pop()
            await self._client.delete(resource, namespace, name, DeleteOptions(uid=uid))


async def _until_accepted(send: Callable[[], Awaitable[T]], deadline: float) -> T:
    """The answer to a request that the API server may refuse for a moment: the object doesn't exist yet, a webhook or
    the server is not ready. Raises ApiError if the error can't pass by itself, or has not passed in time.
    """
    while True:
        try:
            return await send()
        except ApiError as error:
            passing = error.not_found or not (error.terminal or error.code in (404, _UNAUTHORIZED))
            if not passing or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_AGAIN)
