"""`ssa-operator status`: parents, their children, and what each waits for, as the cluster has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.command_error import CommandError
from ssa_operator.cli.options import (
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
    from collections.abc import Mapping, Sequence

REFRESH = 1.0
"""Seconds between two looks with --watch; a look that takes longer is followed by a pause of its own length."""


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
    import time

    from ssa_operator.cli import session
    from ssa_operator.cli.parents import entries, parents
    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.kube.api.errors import ApiError
    from ssa_operator.kube.auth.credentials import CredentialsError

    check_folders(templates)
    namespaces = namespaces_of(namespace)

    async def work() -> None:
        async with session.connected(session.Target(kubeconfig=kubeconfig, context=context)) as client:
            mapper = RESTMapper(client)
            while True:
                began = time.monotonic()
                found = await parents(client, mapper, templates, namespaces, parent)
                if parent and not found:
                    where = f"namespace {' or '.join(namespaces)}" if namespaces else "any namespace"
                    raise CommandError(f"there is no {parent} in {where}")
                now = time.time()
                _show(await entries(client, mapper, found, namespaces, now), now, output)
                if not watch:
                    return
                await asyncio.sleep(max(REFRESH, time.monotonic() - began))

    try:
        asyncio.run(work())
    except (ApiError, CredentialsError) as error:
        raise CommandError(str(error)) from error


def _show(found: Sequence[Mapping[str, Any]], now: float, output: Output) -> None:
    from ssa_operator.cli import printing

    if output is Output.TABLE:
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
