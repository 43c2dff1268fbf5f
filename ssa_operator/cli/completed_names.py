"""The names that a shell completes: objects and namespaces of the cluster, contexts of the kubeconfig.

Promises:
- Kinds are first those of the template folders, which need no cluster, and then those that the cluster serves.
- Without a cluster, and after `TIMEOUT` seconds, the cluster completes nothing. A completion never prints an error.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ssa_operator.kube.api.client import Client
    from ssa_operator.kube.api.discovery import RESTMapper


TIMEOUT = 3.0
"""Seconds that the API server has to answer."""


def objects(ctx: typer.Context, incomplete: str) -> list[str]:
    """`KIND`, `KIND/NAME`, and `NAME` after a kind, for the first argument of a command."""
    kind, slash, _ = incomplete.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _names(ctx, kind)]
    given = [str(each) for each in _values(ctx.params.get(str(ctx.command.params[0].name)))]
    if given and "/" not in given[0]:
        return _names(ctx, given[0])
    folders = _folders(ctx)
    return _starting(incomplete, folders) or _starting(incomplete, _from_cluster(ctx, _kinds))


def namespaces(ctx: typer.Context) -> list[str]:
    """The namespaces of the cluster."""
    return _names(ctx, "namespaces")


def contexts(ctx: typer.Context) -> list[str]:
    """The contexts of the kubeconfig."""
    from ssa_operator.kube.auth.credentials import CredentialsError
    from ssa_operator.kube.auth.kubeconfig import contexts

    paths = ctx.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    with contextlib.suppress(CredentialsError):
        return sorted(contexts(paths))
    return []


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value] if value else []


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if word.startswith(incomplete)})


def _folders(ctx: typer.Context) -> list[str]:
    """The names of the template folders."""
    roots = [Path(each) for each in _values(ctx.params.get("templates"))] or [Path("templates")]
    found = [folder for root in roots if root.is_dir() for folder in root.iterdir() if folder.is_dir()]
    return [folder.name for folder in found if not folder.name.startswith(("_", "."))]


def _names(ctx: typer.Context, kind: str) -> list[str]:
    """The names of a kind's objects, in the namespace that the user chose."""
    chosen = _values(ctx.params.get("namespace"))
    namespace = str(chosen[0]) if chosen else ""

    async def names(client: Client, mapper: RESTMapper) -> list[str]:
        from ssa_operator.tools.command_target import list_names, resolve_kind

        resource = await resolve_kind(mapper, kind, _folders(ctx))
        found = await list_names(client, resource, namespace or client.credentials.namespace)
        return [name for _, name in found]

    return sorted(set(_from_cluster(ctx, names)))


async def _kinds(_client: Client, mapper: RESTMapper) -> list[str]:
    listed = [each for each in await mapper.resources() if "list" in each.verbs]
    return [word for each in listed for word in (each.singular or each.kind.lower(), each.name)]


def _from_cluster(ctx: typer.Context, read: Callable[[Client, RESTMapper], Awaitable[list[str]]]) -> list[str]:
    """The result of `read`, empty if the cluster can't be read in time."""
    import asyncio

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
