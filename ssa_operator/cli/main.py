"""`ssa-operator`, also as `kubectl ssa`: registers the commands.

Promises:
- If the first argument names a command, the process imports and registers no other command.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from ssa_operator import __version__
from ssa_operator.cli import application
from ssa_operator.cli.application import Application
from ssa_operator.cli.shared_options import example
from ssa_operator.cli.topics import MODULES, REFERENCE
from ssa_operator.operator.process import streams

GC_THRESHOLD = 10_000
"""New objects after which Python's garbage collector searches for cycles. Reference counts free nearly all objects.
With Python's default of 700, the search takes up to a tenth of a cold start's CPU, and as much of the imports'.
"""

_GROUPS = frozenset({"crds", "cluster", "rollout"})
"""Those that have subcommands."""


def application_of(names: Iterable[str] = MODULES) -> Application:
    """The application with these commands. Importing and registering each command takes time."""
    app = Application(
        name="ssa-operator",
        help="A folder of Jinja templates is a Kubernetes operator.",
        epilog="ssa-operator help COMMAND, or COMMAND -h, shows the help of a command.\n"
        f"ssa-operator help TOPIC shows the reference: {', '.join(REFERENCE)}.\n"
        "Exit codes: 0 success, 1 failure (diff: differences), 2 wrong usage (diff: failure), 130 interrupted.",
        # kubectl completes its plugins by another program.
        add_completion=application.program() == "ssa-operator",
    )
    app.callback()(_root)
    for name in names:
        module = importlib.import_module(MODULES[name])
        if name in _GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(epilog=example(module.EXAMPLE))(getattr(module, name))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        streams.line(__version__)
        raise typer.Exit


def _set_debug(wanted: bool) -> None:
    if wanted:
        os.environ[application.DEBUG] = "true"


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


def main() -> None:
    """Run the command line of this process."""
    gc.set_threshold(GC_THRESHOLD)
    named = sys.argv[1:2]
    application.run(application_of(named if named and named[0] in MODULES else MODULES))


def complete_for_kubectl() -> None:
    """Complete `kubectl ssa ...`: print the words that can come next, as kubectl asks the programs of its plugins."""
    application.complete(application_of())
