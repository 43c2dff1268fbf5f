"""Plans all parents: those of a cluster, and those of a snapshot.

Promises:
- The parents are planned one after the other, because the first one that renders an object has it. The dry runs are
  sent in parallel.
- A parent that can't be planned is a failure in the summary, and all others are planned.
- A snapshot holds no content of a Secret, neither where a planned parent put it nor in a Secret itself. An object that
  content names is left out.
- The planned templates render the same from the snapshot as from the cluster.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.cluster_view import Answer, Lookup, Selection
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import counted
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Planned, Preview
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError, writing
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.reconcile.current_reconcile import SharedCluster
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.replicas.requests import scale_paths
from ssa_operator.reconcile.secrets.content_fields import NO_CONTENT, HiddenPaths, fields_of_child, hidden_in_live
from ssa_operator.reconcile.status.conditions import timestamp
from ssa_operator.rendering.folder.contained_files import write_output
from ssa_operator.rendering.folder.loaded_folders import load_all
from ssa_operator.tools.plan import previews
from ssa_operator.tools.plan.changes import ParentChanges, parent_changes
from ssa_operator.tools.plan.plan_summary import PlanSummary
from ssa_operator.tools.plan.previews import NamedParent
from ssa_operator.tools.plan.secret_mask import Manifests, SecretMask
from ssa_operator.tools.plan.snapshots import VERSION, Snapshot, StoredKind, StoredParent, StoredSnapshot, stored_query
from ssa_operator.tools.schema_rules import bundled_schemas

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
        preview.plan_all_parents()
        await plan_all(preview, preview.parents(), summary, recorder if save is not None else None)
        summary.note_waves()
        if save is not None:
            data = recorder.write(await opened.mapper.resources())
            with writing(save):
                write_output(save, data)
    return summary


def plan_against(file: Path, options: Options) -> PlanSummary:
    """The plan of a snapshot. Raises CommandError."""
    sources = load_all(options.templates, installation=options.installation)
    if sources.problem_lines:
        raise CommandError("\n".join(sources.problem_lines))
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
    parents = [
        parent
        for parent in snapshot.parents(sources.folders)
        if not options.namespaces or parent.live.identity.namespace in ("", *options.namespaces)
    ]
    postponed: list[Parent] = []
    for turn, parent in enumerate(chain(parents, postponed)):
        planned = snapshot.plan(parent)
        if turn < len(parents) and _waits_for_owners(planned):
            postponed.append(parent)
            continue
        summary.add(parent_changes(NamedParent(parent=parent), planned, snapshot.outcomes(planned, schemas), salt))
    summary.note_waves()
    return summary


async def plan_all(
    preview: Preview, parents: list[Parent], summary: PlanSummary, recorder: SnapshotRecorder | None = None
) -> None:
    """Add the plans of these parents. They are planned one after another, because an object belongs to the first parent
    that renders it; the dry runs are sent in parallel. A parent that waits for other owners of a shared object is
    planned again after these.
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

    postponed: list[int] = []
    async with asyncio.TaskGroup() as group:
        for turn, at in enumerate(chain(range(len(parents)), postponed)):
            await places.acquire()
            try:
                planned = await preview.plan(parents[at])
            except (ApiError, CredentialsError) as error:
                finish(at, error)
                places.release()
                continue
            if turn < len(parents) and _waits_for_owners(planned):
                postponed.append(at)
                places.release()
                continue
            if recorder is not None:
                recorder.record(planned)
            group.create_task(dry_run(at, planned))


def _waits_for_owners(planned: Planned) -> bool:
    """Whether a parent renders another form of a shared object than other owners do, as far as these are planned."""
    return any(step.vote for step in planned.plan.steps)


async def _changes(preview: Preview, planned: Planned, salt: bytes) -> ParentChanges:
    outcomes = await preview.dry_run(planned)
    return parent_changes(NamedParent(parent=planned.parent), planned, outcomes, salt)


@dataclass(slots=True, kw_only=True)
class SnapshotRecorder:
    """Records the input of parents' plans. `write` returns the file."""

    cluster: SharedCluster
    salt: bytes
    taken: float
    """The time of the plans, in seconds since the epoch."""
    _mask: SecretMask = field(init=False)
    _parents: list[tuple[str, LiveObject]] = field(default_factory=list)
    _objects: dict[Identity, tuple[LiveObject, HiddenPaths]] = field(default_factory=dict)
    _queries: dict[Lookup | Selection, Answer] = field(default_factory=dict)
    _statuses: set[GroupKind] = field(default_factory=set)
    _plans: dict[str, Planned] = field(default_factory=dict)
    """The plans that read a Secret, by the parent's uid."""

    def __post_init__(self) -> None:
        self._mask = SecretMask(salt=self.salt)

    def record(self, planned: Planned) -> None:
        """Record what the plan of one parent read."""
        secrets, children = planned.secrets, planned.observed.children
        self._parents.append((planned.parent.folder.name, planned.parent.live))
        steps = {step.identity: step for step in planned.plan.steps}
        rendered = (children.objects.get(identity) for identity in steps)
        for live in (*children.own, *children.unlabelled.values(), *filter(None, rendered)):
            if not secrets.of(live.identity).name_object:
                self._record(live, hidden_in_live(live, fields_of_child(live.identity, steps, secrets)))
        for query in planned.rendered.queries:
            if isinstance(query, Lookup | Selection) and query not in secrets.queries:
                answer = self.cluster.lookups.answer(query)
                self._queries[query] = answer
                for body in answer.objects:
                    live = LiveObject.of(dict(body))
                    if live.identity not in self._objects:
                        self._record(live, hidden_in_live(live, NO_CONTENT))
        if secrets.read:
            self._plans[planned.parent.live.uid] = planned
        self._statuses |= {kind for kind, state in children.kinds.items() if state.reports_status}

    def _record(self, live: LiveObject, hidden: HiddenPaths) -> None:
        known = self._objects.get(live.identity)
        self._objects[live.identity] = live, hidden if known is None else hidden | known[1]

    def write(self, resources: Iterable[Resource]) -> bytes:
        """The file. `resources` are all that the cluster serves."""
        stored = StoredSnapshot(
            version=VERSION,
            taken=self.taken,
            salt=self.salt.hex(),
            kinds=[self._kind(resource) for resource in resources],
            parents=[
                StoredParent(folder=folder, object=self._mask.masked(live, self._hidden_in_parent(live)))
                for folder, live in self._parents
            ],
            objects=[self._mask.masked(*each) for each in self._objects.values()],
            queries=[stored_query(query, answer) for query, answer in self._queries.items()],
        )
        return msgspec.json.format(msgspec.json.encode(self._aligned(stored)), indent=1) + b"\n"

    def _hidden_in_parent(self, live: LiveObject) -> HiddenPaths:
        """What is hidden in a parent, which may be a child of another one."""
        known = self._objects.get(live.identity)
        return known[1] if known is not None else hidden_in_live(live, NO_CONTENT)

    def _aligned(self, stored: StoredSnapshot) -> StoredSnapshot:
        """The snapshot in which the objects of the plans that read a Secret are as the same templates render them from
        it.
        """
        folders = {planned.parent.folder.name: planned.parent.folder for planned in self._plans.values()}

        def renders(objects: Mapping[Identity, dict[str, Any]]) -> Iterator[tuple[Manifests, Manifests]]:
            snapshot = Snapshot(replace(stored, objects=[*objects.values()]))
            for parent in snapshot.parents(folders):
                if planned := self._plans.get(parent.live.uid):
                    yield _manifests(planned.plan), _manifests(snapshot.plan(parent).plan)

        live = {identity: known.body for identity, (known, _) in self._objects.items()}
        masked = {LiveObject.of(body).identity: body for body in stored.objects}
        return replace(stored, objects=[*self._mask.aligned(masked, live, renders).values()])

    def _kind(self, resource: Resource) -> StoredKind:
        return StoredKind(
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            plural=resource.plural,
            namespaced=resource.namespaced,
            status=resource.group_kind in self._statuses,
            replicas=[str(part) for part in scale_paths(resource, self.cluster)(resource.version) or ()],
        )


def _manifests(plan: Plan) -> Manifests:
    return {step.identity: step.manifest.body for step in plan.steps if step.manifest is not None}
