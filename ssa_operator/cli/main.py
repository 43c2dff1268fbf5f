"""`ssa-operator`: registers the commands.

Promises:
- A user's mistake is one line on standard error and exit code 2 or 1, never a traceback.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ssa_operator import __version__
from ssa_operator.cli import cluster, crds, dev, rbac, render, run, status
from ssa_operator.cli.command_error import CommandError

app = typer.Typer(
    name="ssa-operator",
    help="A folder of Jinja templates is a Kubernetes operator.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help, because importing rich takes half of the time of `--help`.
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A folder of Jinja templates is a Kubernetes operator."""


run.register(app)
dev.register(app)
render.register(app)
status.register(app)
rbac.register(app)
app.add_typer(crds.app, name="crds")
app.add_typer(cluster.app, name="cluster")


def main() -> None:
    """Run the command line of this process."""
    try:
        app()
    except CommandError as error:
        typer.echo(f"ssa-operator: {error}", err=True)
        sys.exit(error.code)
