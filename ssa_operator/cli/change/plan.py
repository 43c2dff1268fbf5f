"""`ssa-operator plan`: what the templates on disk would change, over all live parents."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    Kubeconfig,
    Templates,
    Values,
    WatchedNamespaces,
    check_selector,
    example,
    installation_of,
    namespaces_of,
)
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.command_error import CommandError, writing
from ssa_operator.operator.process.given_folders import check_folders

if TYPE_CHECKING:
    from ssa_operator.informers.parent import Parent
    from ssa_operator.operator.operator_options import Options
    from ssa_operator.operator.process.connection import Target
    from ssa_operator.tools.plan.changes import ParentChanges
    from ssa_operator.tools.plan.plan_summary import PlanSummary
    from ssa_operator.tools.plan.preview import Planned, Preview
    from ssa_operator.tools.plan.snapshot_recording import SnapshotRecorder

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
    values: Values = None,
    namespace: WatchedNamespaces = None,
    selector: Annotated[
        str,
        typer.Option(envvar="SSA_OPERATOR_SELECTOR", help="Plan only parents whose labels match this label selector."),
    ] = "",
    output: Annotated[
        PlanFormat, typer.Option("--output", "-o", envvar="SSA_OPERATOR_OUTPUT", help="Output format.")
    ] = PlanFormat.TEXT,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            envvar="SSA_OPERATOR_SAVE",
            help="Write what the plan reads to this file, for --against. Hashes stand for the content of Secrets.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            envvar="SSA_OPERATOR_AGAINST",
            help="Plan against a file of --save instead of a cluster. The API server's defaults are not known then.",
        ),
    ] = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what the templates on disk would change over all live parents, by dry runs. Nothing is applied.

    Exit code 0: the plan is made, with or without changes. 1: templates or manifests fail. 2: an error.
    """
    from ssa_operator.operator.operator_options import Options
    from ssa_operator.operator.process import connection

    check_folders(templates)
    check_selector(selector)
    options = Options(
        templates=tuple(templates),
        installation=installation_of(values),
        namespaces=namespaces_of(namespace),
        selector=selector,
    )
    if save is not None and against is not None:
        raise CommandError("--against reads no cluster that --save could store; use one of them", code=ERROR)
    if against is not None and selector:
        raise CommandError("--against has no API server for --selector; write --selector with --save", code=ERROR)
    if against is not None:
        try:
            summary = _plan_against(against, options)
        except CommandError as error:
            raise CommandError(str(error), code=ERROR) from error
    else:
        target = connection.Target(kubeconfig=kubeconfig, context=context)
        summary = connection.run(_plan(options, target, save), code=ERROR)
    _print(summary, output)
    if summary.failed:
        raise typer.Exit(FAILURES)


def _print(summary: PlanSummary, output: PlanFormat) -> None:
    from ssa_operator.tools.plan import plan_summary
    from ssa_operator.tools.terminal import printing
    from ssa_operator.tools.terminal.output_format import OutputFormat

    match output:
        case PlanFormat.TEXT:
            streams.lines(f"{summary.headline}\n\n")
            printing.table(*plan_summary.table(summary))
            streams.lines(plan_summary.text(summary))
        case PlanFormat.MARKDOWN:
            streams.lines(plan_summary.markdown(summary))
        case PlanFormat.JSON | PlanFormat.YAML:
            printing.data(plan_summary.data(summary), OutputFormat(output.value))


async def _plan(options: Options, target: Target, save: Path | None) -> PlanSummary:
    import secrets
    import time

    from ssa_operator.tools.plan import previews
    from ssa_operator.tools.plan.plan_summary import PlanSummary
    from ssa_operator.tools.plan.snapshot_recording import SnapshotRecorder

    async with previews.opened(target, options) as opened:
        summary = PlanSummary()
        preview = opened.preview
        missing = preview.controllers.missing
        summary.notes += [f"{name} has no parents yet: {reason}" for name, reason in sorted(missing.items())]
        unavailable = preview.unavailable
        summary.problems += [f"{name}: {unavailable[name]}" for name in sorted(unavailable.keys() - missing.keys())]
        recorder = SnapshotRecorder(cluster=preview.cluster, salt=secrets.token_bytes(16), taken=time.time())
        await plan_all(preview, preview.parents(), summary, recorder if save is not None else None)
        if save is not None:
            _write(save, recorder.write(await opened.mapper.resources()))
    return summary


def _write(file: Path, data: bytes) -> None:
    from ssa_operator.rendering.folder.contained_files import write_output

    with writing(file):
        write_output(file, data)


def _plan_against(file: Path, options: Options) -> PlanSummary:
    """The plan of a snapshot. Raises CommandError."""
    import secrets

    from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
    from ssa_operator.objects.messages import counted
    from ssa_operator.operator.shared_informers import ParentError
    from ssa_operator.reconcile.status.conditions import timestamp
    from ssa_operator.rendering.folder.sources import load_all
    from ssa_operator.tools.plan.changes import parent_changes
    from ssa_operator.tools.plan.plan_summary import PlanSummary
    from ssa_operator.tools.plan.previews import NamedParent
    from ssa_operator.tools.plan.snapshots import Snapshot
    from ssa_operator.tools.schemas.target_schemas import bundled_schemas

    sources = load_all(options.templates, installation=options.installation)
    problems = [*sources.problems, *(each for folder in sources.folders.values() for each in folder.problems)]
    if problems:
        raise CommandError("\n".join(map(str, problems)))
    try:
        snapshot = Snapshot.read(file.read_bytes())
    except OSError as error:
        raise CommandError(f"--against: {file} can't be read: {error.strerror}") from error
    except ParentError as error:
        raise CommandError(f"--against: {file} {error}") from error
    summary, salt = PlanSummary(), secrets.token_bytes(16)
    schemas = bundled_schemas(KUBERNETES_VERSION)
    summary.notes.append(
        f"compared with the snapshot of {timestamp(snapshot.taken)}, without the API server's defaults, validation and "
        "admission; a change of an immutable field counts as changed"
    )
    for name, count in sorted(snapshot.without_templates(sources.folders).items()):
        summary.notes.append(f"there are no templates for {counted(count, 'parent')} of {name} in the snapshot")
    for parent in snapshot.parents(sources.folders):
        if options.namespaces and parent.live.identity.namespace not in ("", *options.namespaces):
            continue
        planned = snapshot.plan(parent)
        summary.add(parent_changes(NamedParent(parent=parent), planned, snapshot.outcomes(planned, schemas), salt))
    return summary


async def plan_all(
    preview: Preview, parents: list[Parent], summary: PlanSummary, recorder: SnapshotRecorder | None = None
) -> None:
    """Add the plans of these parents. They are planned one after another, because an object belongs to the first parent
    that renders it; the dry runs are sent in parallel.
    """
    import asyncio
    import secrets

    from ssa_operator.kube.api.errors import ApiError
    from ssa_operator.kube.auth.credentials import CredentialsError

    salt, places = secrets.token_bytes(16), asyncio.Semaphore(PARALLEL_PARENTS)
    results: dict[int, ParentChanges | Exception] = {}
    waiting = iter(range(len(parents)))
    position = next(waiting, None)

    def finish(finished: int, result: ParentChanges | Exception) -> None:
        """Add the results in the order of the parents, each as soon as all earlier ones are complete."""
        nonlocal position
        results[finished] = result
        while position in results:
            found = results.pop(position)
            if isinstance(found, Exception):
                summary.fail(parents[position].live.identity, str(found))
            else:
                summary.add(found)
            position = next(waiting, None)

    async def dry_run(at: int, planned: Planned) -> None:
        try:
            finish(at, await _changes(preview, planned, salt))
        except (ApiError, CredentialsError) as error:
            finish(at, error)
        finally:
            places.release()

    async with asyncio.TaskGroup() as group:
        for at, parent in enumerate(parents):
            await places.acquire()
            try:
                planned = await preview.plan(parent)
            except (ApiError, CredentialsError) as error:
                finish(at, error)
                places.release()
                continue
            if recorder is not None:
                recorder.record(planned)
            group.create_task(dry_run(at, planned))


async def _changes(preview: Preview, planned: Planned, salt: bytes) -> ParentChanges:
    from ssa_operator.tools.plan.changes import parent_changes
    from ssa_operator.tools.plan.previews import NamedParent

    outcomes = await preview.dry_run(planned)
    return parent_changes(NamedParent(parent=planned.parent), planned, outcomes, salt)
