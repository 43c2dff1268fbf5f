"""`ssa-operator apply`: applies parents from files, reconciles them, and waits until they are ready.

Promises:
- The exit code is 0 if all parents are ready, 1 if one is not ready in time or fails, 2 if something is refused.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    Filename,
    Kubeconfig,
    Namespace,
    OutputOption,
    Templates,
    Timeout,
    Values,
)
from ssa_operator.operator.process.option_values import check_folders, installation_of, namespace_of
from ssa_operator.operator.process.streams import CommandError, OutputFormat

REFUSED = 2


EXAMPLE = "ssa-operator apply examples/echo.yaml --timeout 120"


def apply(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE...", help="Files or folders with parents. - is standard input.")
    ] = None,
    filename: Filename = None,
    templates: Templates = TEMPLATES,
    values: Values = None,
    namespace: Namespace = "",
    timeout: Timeout = 300.0,
    prune: Annotated[
        bool, typer.Option("--prune", help="Confirm that changed templates delete (almost) all children.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Apply parents from files, reconcile them as the operator does, and wait until they are ready.

    Needs no running operator, and can run beside one. Exit code 0: ready. 1: not ready in time, or failed. 2: refused.
    """
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.command_target import cluster_target
    from ssa_operator.tools.offline.documents import given_files
    from ssa_operator.tools.offline.file_parents import FileApply

    check_folders(templates)
    given = given_files(files, filename, "name the parents to apply: FILE, or -f FILE")
    run = FileApply(
        files=given,
        templates=templates,
        installation=installation_of(values),
        namespace=namespace_of(namespace),
        seconds=timeout,
        prune=prune,
        output=output,
        target=cluster_target(kubeconfig, context),
    )
    failures = connection.run(run.run(), code=REFUSED)
    if failures:
        raise CommandError(failures)
