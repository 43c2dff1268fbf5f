"""`ssa-operator status`: parents, their children, and what each waits for, as the cluster has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.failure import CommandError
from ssa_operator.cli.parameters import (
    TEMPLATES,
    Context,
    Format,
    Kubeconfig,
    Namespaces,
    Output,
    Templates,
    check_folders,
    example,
    namespaces_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ssa_operator.core.live import Live
    from ssa_operator.kube.client import Client

REFRESH = 1.0
"""Seconds between two looks with --watch."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator status echo/hello -n default"))(status)


def status(
    parent: Annotated[
        str, typer.Argument(metavar="[KIND/NAME]", help="Only this parent. Default: all of all folders.")
    ] = "",
    templates: Templates = TEMPLATES,
    namespace: Namespaces = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", envvar="SSA_OPERATOR_WATCH", help="Show it anew each second until interrupted."),
    ] = False,
    output: Format = Output.TABLE,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show parents and their children: state, age, and what each waits for."""
    import asyncio

    from ssa_operator.cli import session

    check_folders(templates)
    namespaces = namespaces_of(namespace)

    async def work() -> None:
        async with session.connected(session.Target(kubeconfig=kubeconfig, context=context)) as client:
            while True:
                found = await _parents(client, templates, namespaces, parent)
                if parent and not found:
                    where = f"namespace {' or '.join(namespaces)}" if namespaces else "any namespace"
                    raise CommandError(f"there is no {parent} in {where}")
                _show(found, output)
                if not watch:
                    return
                await asyncio.sleep(REFRESH)

    asyncio.run(work())


async def _parents(client: Client, templates: Sequence[Path], namespaces: Sequence[str], wanted: str) -> list[Live]:
    from ssa_operator.kube.discovery import RESTMapper, UnknownKind
    from ssa_operator.rendering.sources import load_all

    mapper = RESTMapper(client)
    kind, _, name = wanted.rpartition("/")
    found: list[Live] = []
    for folder in load_all(templates).folders:
        try:
            resource = await mapper.resource_by_name(folder)
        except UnknownKind:
            continue
        if kind and kind.lower() not in (resource.kind.lower(), resource.plural, resource.name, *resource.short_names):
            continue
        if resource.built_in and not kind:
            # Nothing of the operator is in their status, and there may be thousands: they are shown when asked for.
            continue
        for namespace in namespaces if namespaces and resource.namespaced else ("",):
            items, _ = await client.list(resource, namespace)
            found.extend(live for live in items if not name or live.identity.name == name)
    return found


def _show(found: Sequence[Live], output: Output) -> None:
    from ssa_operator.cli import printing
    from ssa_operator.cli.tree import entry

    if output is Output.TABLE:
        _table(found)
    else:
        printing.data([entry(live, live.body.get("status") or {}) for live in found], output)


def _table(found: Sequence[Live]) -> None:
    from rich.console import Console

    from ssa_operator.cli.tree import entry, tree

    console = Console(highlight=False)
    if not found:
        console.print("no parents")
    for live in found:
        console.print(tree(entry(live, live.body.get("status") or {})))
