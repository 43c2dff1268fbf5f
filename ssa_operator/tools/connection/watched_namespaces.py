"""The namespaces that a command watches for parents: all of them, if the user may list parents there.

Promises:
- A user whose permissions are limited to a namespace can preview and apply parents in it.
- With the permissions of an administrator, a command notices the parents of all namespaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.render_result import Document


def namespaces_of_documents(documents: Iterable[Document], namespace: str) -> tuple[str, ...]:
    """The namespaces of parents in files; `namespace` is that of a parent without one."""
    found = (document.body["metadata"].get("namespace") or namespace for document in documents)
    return tuple(dict.fromkeys(found))


async def watched_namespaces(
    client: Client, mapper: RESTMapper, templates: Sequence[Path], needed: Sequence[str]
) -> tuple[str, ...]:
    """() for all namespaces, or the needed ones if the user may not list the parents of all namespaces.

    Raises ApiError if the API server can't be reached.
    """
    names = [path.name for root in templates for path in root.iterdir() if path.is_dir() and path.name[0] not in "_."]
    allowed = await asyncio.gather(*(_may_list(client, mapper, name) for name in names))
    return () if all(allowed) else tuple(needed)


async def _may_list(client: Client, mapper: RESTMapper, name: str) -> bool:
    try:
        resource = await mapper.resource_by_name(name)
    except UnknownKind:
        return True
    if not resource.namespaced:
        return True
    try:
        await client.send(calls.list_page(Scope(resource), limit=1))
    except ApiError as error:
        if not error.forbidden:
            raise
        return False
    return True
