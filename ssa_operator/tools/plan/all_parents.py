"""Plans all parents: those of a cluster, and those of a snapshot.

Promises:
- The parents are planned one after the other, because the first one that renders an object has it. The dry runs are
  sent in parallel.
- A parent that can't be planned is a failure in the summary, and all others are planned.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.messages import counted
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError, writing
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.reconcile.status.conditions import timestamp
from ssa_operator.rendering.folder.contained_files import write_output
from ssa_operator.rendering.folder.loaded_folders import load_all
from ssa_operator.tools.plan import previews
from ssa_operator.tools.plan.changes import ParentChanges, parent_changes
from ssa_operator.tools.plan.plan_summary import PlanSummary
from ssa_operator.tools.plan.preview import Planned, Preview
from ssa_operator.tools.plan.previews import NamedParent
from ssa_operator.tools.plan.snapshot_recording import SnapshotRecorder
from ssa_operator.tools.plan.snapshots import Snapshot
from ssa_operator.tools.schemas.target_schemas import bundled_schemas

PARALLEL_PARENTS = 32
"""Parents whose dry runs are sent in parallel; the client limits the requests."""


async def plan_live(options: Options, target: Target, save: Path | None) -> PlanSummary:
    """The plan of all live parents. It writes what it reads to the file `save`. Raises CommandError and ApiError."""
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
            data = recorder.write(await opened.mapper.resources())
            with writing(save):
                write_output(save, data)
    return summary


def plan_against(file: Path, options: Options) -> PlanSummary:
    """The plan of a snapshot. Raises CommandError."""
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

    outcomes = await preview.dry_run(planned)
    return parent_changes(NamedParent(parent=planned.parent), planned, outcomes, salt)
