"""Completes kinds, names, namespaces and contexts for the user's shell.

Promises:
- Kinds are first those of the template folders, which need no cluster, and then those that the cluster serves.
- Without a cluster, and after `TIMEOUT` seconds, the cluster completes nothing. A completion never prints an error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typer._click import Context, Parameter

    from ssa_operator.kube.api.client import Client
    from ssa_operator.kube.api.discovery import RESTMapper

TIMEOUT = 3.0
"""Seconds that the API server has to answer."""


def objects(ctx: Context, parameter: Parameter, incomplete: str) -> list[str]:
    """`KIND`, `KIND/NAME`, and `NAME` after a kind."""
    kind, slash, start = incomplete.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _names(ctx, kind) if name.startswith(start)]
    given = [str(each) for each in _values(ctx.params.get(str(parameter.name)))]
    if given and "/" not in given[0]:
        return [name for name in _names(ctx, given[0]) if name.startswith(incomplete)]
    folders = _folders(ctx)
    return _starting(incomplete, folders) or _starting(incomplete, _from_cluster(ctx, _kinds))


def namespaces(ctx: Context, _parameter: Parameter, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""
    return [name for name in _names(ctx, "namespaces") if name.startswith(incomplete)]


def contexts(ctx: Context, _parameter: Parameter, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig."""
    import os

    from ssa_operator.kube.auth.credentials import CredentialsError
    from ssa_operator.kube.auth.kubeconfig import contexts

    paths = ctx.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    with contextlib.suppress(CredentialsError):
        return _starting(incomplete, contexts(paths))
    return []


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value] if value else []


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if word.startswith(incomplete)})


def _folders(ctx: Context) -> list[str]:
    """The names of the template folders."""
    roots = [Path(each) for each in _values(ctx.params.get("templates"))] or [Path("templates")]
    found = [folder for root in roots if root.is_dir() for folder in root.iterdir() if folder.is_dir()]
    return [folder.name for folder in found if not folder.name.startswith(("_", "."))]


def _names(ctx: Context, kind: str) -> list[str]:
    """The names of a kind's objects, in the namespace that the user chose."""
    chosen = _values(ctx.params.get("namespace"))
    namespace = str(chosen[0]) if chosen else ""

    async def names(client: Client, mapper: RESTMapper) -> list[str]:
        from ssa_operator.tools.connection.object_reference import list_names, resolve_kind

        resource = await resolve_kind(mapper, kind, _folders(ctx))
        found = await list_names(client, resource, namespace or client.credentials.namespace)
        return [name for _, name in found]

    return sorted(set(_from_cluster(ctx, names)))


async def _kinds(_client: Client, mapper: RESTMapper) -> list[str]:
    listed = [each for each in await mapper.resources() if "list" in each.verbs]
    return [word for each in listed for word in (each.singular or each.kind.lower(), each.name)]


def _from_cluster(ctx: Context, read: Callable[[Client, RESTMapper], Awaitable[list[str]]]) -> list[str]:
    """The result of `read`, empty if the cluster can't be read in time."""
    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.operator.process.connection import Target, connect

    async def work() -> list[str]:
        target = Target(kubeconfig=ctx.params.get("kubeconfig"), context=ctx.params.get("context"))
        async with asyncio.timeout(TIMEOUT), connect(target) as client:
            return await read(client, RESTMapper(client))

    try:
        return asyncio.run(work())
    except Exception:  # noqa: BLE001 - an error must not appear in the line that the user types
        return []
