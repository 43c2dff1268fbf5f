"""`ssa-operator`, also as `kubectl ssa`: registers the commands."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ssa_operator import __version__
from ssa_operator.cli import (
    application,
    apply,
    blame,
    capture,
    check,
    cluster,
    crds,
    dev,
    diff,
    graph,
    new,
    plan,
    rbac,
    render,
    run,
    status,
    test,
    tree,
)

app = application.Application(
    name="ssa-operator",
    help="A folder of Jinja templates is a Kubernetes operator.",
    epilog="Exit codes: 0 success, 1 failure (diff: differences), 2 wrong usage (diff: failure), 130 interrupted.",
    # kubectl completes its plugins by another program.
    add_completion=application.program() == "ssa-operator",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _set_debug(wanted: bool) -> None:
    if wanted:
        os.environ[application.DEBUG] = "true"


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", envvar=application.DEBUG, callback=_set_debug, help="Print the traceback of an error, too."
        ),
    ] = False,
) -> None:
    """A folder of Jinja templates is a Kubernetes operator."""


run.register(app)
dev.register(app)
new.register(app)
render.register(app)
check.register(app)
test.register(app)
capture.register(app)
diff.register(app)
plan.register(app)
apply.register(app)
status.register(app)
tree.register(app)
blame.register(app)
graph.register(app)
rbac.register(app)
app.add_typer(crds.app, name="crds")
app.add_typer(cluster.app, name="cluster")


def main() -> None:
    """Run the command line of this process."""
    application.run(app)


def complete_for_kubectl() -> None:
    """Complete `kubectl ssa ...`: print the words that can come next, as kubectl asks the programs of its plugins."""
    application.complete(app)
