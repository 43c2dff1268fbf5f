"""`ssa-operator diff`: what the API server would change if a parent was reconciled now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    Kubeconfig,
    Namespace,
    OutputOption,
    Templates,
    Values,
    example,
)
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.option_values import check_folders, installation_of, namespace_of
from ssa_operator.operator.process.output_formats import OutputFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ssa_operator.operator.operator_options import Options
    from ssa_operator.operator.process.connection import Target
    from ssa_operator.tools.plan.changes import ParentChanges
    from ssa_operator.tools.plan.previews import NamedParent, PreviewSession

DIFFERENCES = 1
ERROR = 2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator diff examples/echo.yaml"))(diff)


def diff(
    parents: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...|KIND/NAME...",
            help="Files or folders with parents (- is standard input), or parents in the cluster.",
        ),
    ],
    templates: Templates = TEMPLATES,
    values: Values = None,
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

    check_folders(templates)
    within = namespace_of(namespace)
    options = Options(templates=tuple(templates), installation=installation_of(values))
    target = connection.Target(kubeconfig=kubeconfig, context=context)
    code = connection.run(_diff(parents, options, within, output, target), code=ERROR)
    if code:
        raise typer.Exit(code)


async def _diff(arguments: list[str], options: Options, namespace: str, output: OutputFormat, target: Target) -> int:
    import secrets

    from ssa_operator.tools.connection.object_reference import parse_references
    from ssa_operator.tools.connection.watched_namespaces import namespaces_of_documents
    from ssa_operator.tools.offline.parent_documents import read_parents
    from ssa_operator.tools.plan import previews
    from ssa_operator.tools.plan.changes import changes_data, print_changes
    from ssa_operator.tools.terminal import printing

    documents = read_parents(arguments) if previews.are_files(arguments) else None
    references = parse_references(arguments) if documents is None else ()

    def needed(default: str) -> Sequence[str]:
        within = namespace or default
        return namespaces_of_documents(documents, within) if documents is not None else (within,)

    async with previews.opened(target, options, needed) as opened:
        if documents is not None:
            named = await previews.parents_of_files(opened, documents, namespace)
        else:
            named = await previews.parents_of_references(opened, references, namespace)
        salt = secrets.token_bytes(16)
        found = [await _changes(opened, each, salt) for each in named]
    if output is OutputFormat.TABLE:
        console = streams.console(soft_wrap=True)
        for each in found:
            print_changes(console, each)
    else:
        printing.data({"parents": [changes_data(each) for each in found]}, output)
    if any(each.failed for each in found):
        return ERROR
    return DIFFERENCES if any(each.differs for each in found) else 0


async def _changes(opened: PreviewSession, named: NamedParent, salt: bytes) -> ParentChanges:
    from ssa_operator.tools.plan.changes import parent_changes

    preview = opened.preview
    if named.location is None:
        planned = await preview.plan(named.parent)
    else:
        planned = await preview.plan_applied(named.parent)
    outcomes = await preview.dry_run(planned, as_resumed=True)
    return parent_changes(named, planned, outcomes, salt)
