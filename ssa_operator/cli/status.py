"""`ssa-operator status`: shows parents, their children, and the object that each waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.command_error import CommandError
from ssa_operator.cli.options import (
    TEMPLATES,
    Context,
    Kubeconfig,
    OutputFormat,
    OutputOption,
    ShownNamespaces,
    Templates,
    check_folders,
    example,
    namespaces_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REFRESH = 1.0
"""Seconds between two updates with --watch. If an update takes longer, the pause is as long as the update."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator status echo/hello -n default"))(status)


def status(
    parent: Annotated[
        str,
        typer.Argument(
            metavar="[KIND/NAME]", help="Show only this parent. Default: all parents of all template folders."
        ),
    ] = "",
    templates: Templates = TEMPLATES,
    namespace: ShownNamespaces = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", envvar="SSA_OPERATOR_WATCH", help="Update every second until interrupted."),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show parents and their children. Each line has the state, the age, and the reason for waiting."""
    import asyncio
    import time

    from ssa_operator.cli import session
    from ssa_operator.cli.parents import list_parents, parent_entries
    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.kube.api.errors import ApiError
    from ssa_operator.kube.auth.credentials import CredentialsError

    check_folders(templates)
    namespaces = namespaces_of(namespace)

    async def work() -> None:
        async with session.connect(session.Target(kubeconfig=kubeconfig, context=context)) as client:
            mapper = RESTMapper(client)
            while True:
                began = time.monotonic()
                found = await list_parents(client, mapper, templates, namespaces, parent)
                if parent and not found:
                    where = f"namespace {' or '.join(namespaces)}" if namespaces else "any namespace"
                    raise CommandError(f"there is no {parent} in {where}")
                now = time.time()
                _show(await parent_entries(client, mapper, found, namespaces, now), now, output)
                if not watch:
                    return
                await asyncio.sleep(max(REFRESH, time.monotonic() - began))

    try:
        asyncio.run(work())
    except (ApiError, CredentialsError) as error:
        raise CommandError(str(error)) from error


def _show(found: Sequence[Mapping[str, Any]], now: float, output: OutputFormat) -> None:
    from ssa_operator.cli import printing

    if output is OutputFormat.TABLE:
        _table(found, now)
    else:
        printing.data(found, output)


def _table(found: Sequence[Mapping[str, Any]], now: float) -> None:
    from rich.console import Console

    from ssa_operator.cli.tree import tree

    console = Console(highlight=False)
    if not found:
        console.print("no parents")
    for each in found:
        console.print(tree(each, now))
