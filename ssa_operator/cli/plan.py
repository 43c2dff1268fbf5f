"""`ssa-operator plan`: what the templates on disk would change, over all live parents."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.command_error import CommandError
from ssa_operator.cli.options import (
    TEMPLATES,
    Context,
    Kubeconfig,
    Templates,
    WatchedNamespaces,
    check_folders,
    example,
    namespaces_of,
)

if TYPE_CHECKING:
    from ssa_operator.cli.changes import ParentChanges
    from ssa_operator.cli.plan_summary import PlanSummary
    from ssa_operator.cli.session import Target
    from ssa_operator.controller.informers.parent_cache import Parent
    from ssa_operator.controller.options import Options
    from ssa_operator.controller.preview import Planned, Preview

FAILURES = 1
ERROR = 2

PARALLEL_PARENTS = 32
"""Parents whose dry runs are sent in parallel; the client limits the requests."""


class PlanFormat(StrEnum):
    """The format of a plan."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator plan --templates templates --output markdown"))(plan)


def plan(
    templates: Templates = TEMPLATES,
    namespace: WatchedNamespaces = None,
    output: Annotated[
        PlanFormat, typer.Option("--output", "-o", envvar="SSA_OPERATOR_OUTPUT", help="Output format.")
    ] = PlanFormat.TEXT,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the templates on disk would change over all live parents, by dry runs. Nothing is written.

    Exit code 0: the plan is made, with or without changes. 1: templates or manifests fail. 2: an error.
    """
    import asyncio

    from ssa_operator.cli import session
    from ssa_operator.controller.options import Options
    from ssa_operator.kube.api.errors import ApiError
    from ssa_operator.kube.auth.credentials import CredentialsError

    check_folders(templates)
    options = Options(templates=tuple(templates), namespaces=namespaces_of(namespace))
    try:
        summary = asyncio.run(_plan(options, session.Target(kubeconfig=kubeconfig, context=context)))
    except (ApiError, CredentialsError, CommandError) as error:
        raise CommandError(str(error), code=ERROR) from error
    _print(summary, output)
    if summary.failed:
        raise typer.Exit(FAILURES)


def _print(summary: PlanSummary, output: PlanFormat) -> None:
    from ssa_operator.cli import plan_summary, printing
    from ssa_operator.cli.options import OutputFormat

    match output:
        case PlanFormat.TEXT:
            typer.echo(f"{summary.headline}\n")
            printing.table(*plan_summary.table(summary))
            typer.echo(plan_summary.text(summary))
        case PlanFormat.MARKDOWN:
            typer.echo(plan_summary.markdown(summary), nl=False)
        case PlanFormat.JSON | PlanFormat.YAML:
            printing.data(plan_summary.data(summary), OutputFormat(output.value))


async def _plan(options: Options, target: Target) -> PlanSummary:
    from ssa_operator.cli import previews
    from ssa_operator.cli.plan_summary import PlanSummary

    async with previews.opened(target, options) as opened:
        summary = PlanSummary()
        preview = opened.preview
        missing = preview.controllers.missing
        summary.notes += [f"{name} has no parents yet: {reason}" for name, reason in sorted(missing.items())]
        unavailable = preview.unavailable
        summary.problems += [f"{name}: {unavailable[name]}" for name in sorted(unavailable.keys() - missing.keys())]
        await plan_all(preview, preview.parents(), summary)
    return summary


async def plan_all(preview: Preview, parents: list[Parent], summary: PlanSummary) -> None:
    """Add what would become of these parents. They are planned one after the other, because the first one that renders
    an object has it; the dry runs are sent in parallel.
    """
    import asyncio
    import secrets

    from ssa_operator.kube.api.errors import ApiError

    salt, places = secrets.token_bytes(16), asyncio.Semaphore(PARALLEL_PARENTS)
    results: dict[int, ParentChanges | ApiError] = {}

    async def dry_run(position: int, planned: Planned) -> None:
        try:
            results[position] = await _changes(preview, planned, salt)
        except ApiError as error:
            results[position] = error
        finally:
            places.release()

    async with asyncio.TaskGroup() as group:
        for position, parent in enumerate(parents):
            await places.acquire()
            try:
                planned = await preview.plan(parent)
            except ApiError as error:
                results[position] = error
                places.release()
                continue
            group.create_task(dry_run(position, planned))
    for position, parent in enumerate(parents):
        result = results[position]
        if isinstance(result, ApiError):
            summary.fail(parent.live.identity, str(result))
        else:
            summary.add(result)


async def _changes(preview: Preview, planned: Planned, salt: bytes) -> ParentChanges:
    from ssa_operator.cli.changes import parent_changes
    from ssa_operator.cli.previews import NamedParent

    outcomes = await preview.dry_run(planned)
    return parent_changes(NamedParent(parent=planned.parent), planned, outcomes, salt)
