"""`ssa-operator diff`: what the API server would change if a parent was reconciled now.

Promises:
- The command changes nothing in the cluster: each apply and each deletion is a dry run.
- The exit code is 0 without differences, 1 with differences, and 2 after an error or if a manifest is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.completed_names import objects
from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    Filename,
    Kubeconfig,
    Namespace,
    OutputOption,
    Revision,
    Templates,
    Values,
)
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.option_values import check_folders, installation_of, namespace_of
from ssa_operator.operator.process.streams import CommandError, OutputFormat

if TYPE_CHECKING:
    from ssa_operator.tools.plan.changes import ParentChanges

DIFFERENCES = 1
ERROR = 2


EXAMPLE = "ssa-operator diff examples/echo.yaml"


def diff(
    parents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...|KIND/NAME...",
            autocompletion=objects,
            help="Files or folders with parents (- is standard input), or parents in the cluster.",
        ),
    ] = None,
    filename: Filename = None,
    templates: Templates = TEMPLATES,
    values: Values = None,
    revision: Revision = None,
    namespace: Namespace = "",
    output: OutputOption = OutputFormat.TABLE,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the API server would change if the operator reconciled these parents now, by dry runs.

    Exit code 0: nothing. 1: there are differences. 2: an error, or a manifest that is refused.
    """
    from ssa_operator.operator.operator_options import Options
    from ssa_operator.operator.process import connection
    from ssa_operator.tools import printing
    from ssa_operator.tools.command_target import cluster_target
    from ssa_operator.tools.offline.documents import given_files
    from ssa_operator.tools.plan.changes import changed_parents, changes_data, print_changes
    from ssa_operator.tools.rollouts.stored_rollouts import with_revision

    check_folders(templates)
    given = given_files(parents, filename, "name the parents to compare: FILE, -f FILE, or KIND/NAME")
    within = namespace_of(namespace)
    options = Options(templates=tuple(templates), installation=installation_of(values))

    try:
        target = cluster_target(kubeconfig, context)
    except CommandError as error:
        raise CommandError(str(error), code=ERROR) from error
    with with_revision(given, options, target, revision) as used:

        async def compared() -> list[ParentChanges]:
            return await changed_parents(given, used, within, target)

        found = connection.run(compared(), code=ERROR)
    if output is OutputFormat.TABLE:
        console = streams.console(soft_wrap=True)
        for each in found:
            print_changes(console, each)
    else:
        printing.data({"parents": [changes_data(each) for each in found]}, output)
    if any(each.failed for each in found):
        raise typer.Exit(ERROR)
    if any(each.differs for each in found):
        raise typer.Exit(DIFFERENCES)
