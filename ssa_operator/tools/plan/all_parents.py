"""Plans all parents: those of a cluster, and those of a snapshot, the input of such a plan in a file.

Promises:
- The parents are planned one after the other, because the first one that renders an object has it. The dry runs are
  sent in parallel. A parent that can't be planned is a failure in the summary, and all others are planned.
- A snapshot holds the parents, their children, the objects that templates looked up with all queries, and the kinds
  that the cluster serves. It holds no content of a Secret, neither where a planned parent put it nor in a Secret
  itself. An object that content names is left out. A file of another version of the format is refused.
- The planned templates render the same from the snapshot as from the cluster, by the functions of the operator.
  Manifests are merged into the stored objects, because there is no API server that could complete them.
- An object that is not in the snapshot does not count as absent: a document that looks it up waits.
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
from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS, KUBERNETES_VERSION, ApiKind
from ssa_operator.objects.cluster_view import Answer, Body, Lookup, OfflineClusterView, Selection, selects
from ssa_operator.objects.identity import GroupKind, Identity, join_api_version, split_api_version
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.label_selectors import Requirement
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import counted
from ssa_operator.objects.render_result import Rendered
from ssa_operator.objects.scalars import timestamp
from ssa_operator.objects.secret_fields import is_secret
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Planned, Preview, plan_observed, stored_parent
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError, writing
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.reconcile import apply_once
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.current_reconcile import SharedCluster
from ssa_operator.reconcile.merged_outcomes import merged_outcomes
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observe import make_observed
from ssa_operator.reconcile.observed import Observed, ObservedChildren, ObservedParents
from ssa_operator.reconcile.parent_records.rules import read_parent_records, unreadable_records_message
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.replicas.requests import scale_paths
from ssa_operator.reconcile.replicas.rules import ScalePaths
from ssa_operator.reconcile.secrets.content_fields import NO_CONTENT, HiddenPaths, fields_of_child, hidden_in_live
from ssa_operator.reconcile.secrets.redacted_report import secrets_of
from ssa_operator.reconcile.watched_children import named_objects, rendered_kinds
from ssa_operator.rendering.determinism import verified
from ssa_operator.rendering.folder.contained_files import write_output
from ssa_operator.rendering.folder.loaded_folders import Folder, load_all
from ssa_operator.rendering.render import render
from ssa_operator.schema.data import is_optional
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.plan import previews
from ssa_operator.tools.plan.changes import ParentChanges, parent_changes
from ssa_operator.tools.plan.plan_summary import PlanSummary
from ssa_operator.tools.plan.previews import NamedParent
from ssa_operator.tools.plan.secret_mask import Manifests, SecretMask
from ssa_operator.tools.schema_rules import bundled_schemas

VERSION = 2
"""The version of the format of a snapshot."""


class StoredKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that the cluster serves."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    status: bool = False
    """Whether a controller writes the status of its objects."""
    replicas: list[str] = []
    """The path of the number of replicas in this version, empty if the kind can't be scaled."""


class StoredParent(msgspec.Struct, frozen=True, kw_only=True):
    """A parent, and the folder that renders it."""

    folder: str
    object: dict[str, Any]


class StoredQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The queries of templates."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    requirements: tuple[Requirement, ...] = ()
    namespaces: tuple[str, ...] | None = None
    unknown: str = ""
    absent: str = ""


class StoredSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a snapshot."""

    version: int
    taken: float
    """When it was taken, in seconds since the epoch."""
    salt: str
    """The salt of the hashes that replace the content of Secrets."""
    kinds: list[StoredKind]
    parents: list[StoredParent]
    objects: list[dict[str, Any]]
    """Children, and the objects that templates looked up."""
    queries: list[StoredQuery]
    """The queries of templates."""


def stored_query(query: Lookup | Selection, answer: Answer) -> StoredQuery:
    """A query with its answer, without the objects."""
    return StoredQuery(**msgspec.structs.asdict(query), unknown=answer.unknown, absent=answer.absent)


def query_of(stored: StoredQuery) -> Lookup | Selection:
    """The query that was stored."""
    kind = Lookup if stored.name else Selection
    return kind(**{field: getattr(stored, field) for field in kind.__struct_fields__})


class Snapshot:
    """A snapshot that was read from a file."""

    def __init__(self, stored: StoredSnapshot) -> None:
        self.taken = stored.taken
        self._mask = SecretMask(salt=bytes.fromhex(stored.salt))
        self._kinds = {
            GroupKind(each.group, each.kind): KindState(
                namespaced=each.namespaced, synced=True, reports_status=each.status
            )
            for each in stored.kinds
        }
        self._resources = {
            (each.group, each.kind): Resource(
                group=each.group,
                version=each.version,
                kind=each.kind,
                plural=each.plural,
                namespaced=each.namespaced,
            )
            for each in stored.kinds
        }
        self._replicas = {
            GroupKind(each.group, each.kind): tuple(each.replicas) for each in stored.kinds if each.replicas
        }
        self._parents = [(each.folder, LiveObject.of(each.object)) for each in stored.parents]
        objects = map(LiveObject.of, stored.objects)
        self.objects: Mapping[Identity, LiveObject] = {live.identity: live for live in objects}
        self._bodies = {identity: live.body for identity, live in self.objects.items()}
        self._labelled = {identity: live for identity, live in self.objects.items() if live.parent_uid}
        self._unlabelled = {identity: live for identity, live in self.objects.items() if not live.parent_uid}
        self._children: dict[str, list[LiveObject]] = {}
        for live in self._labelled.values():
            for uid in live.parent_uids:
                self._children.setdefault(uid, []).append(live)
        self._queries = {query_of(each): each for each in stored.queries}
        self._existing = {live.uid: live.identity for _, live in self._parents}
        creators = {live.uid: live.creator_uid for _, live in self._parents}
        self._claims = ObjectClaims(self._existing, lambda: True, lambda _: None, creators)
        self._claims.planned_shares = {}

    @classmethod
    def read(cls, data: bytes) -> Snapshot:
        """The snapshot of a file. Raises ParentError for a file that is none."""
        try:
            stored = msgspec.json.decode(data, type=StoredSnapshot)
            if stored.version != VERSION:
                raise ParentError(f"is a snapshot of version {stored.version}; this program reads version {VERSION}")
            return cls(stored)
        except (msgspec.DecodeError, ValueError) as error:
            raise ParentError(f"is no snapshot of `ssa-operator plan --save`: {error}") from error

    def parents(self, folders: Mapping[str, Folder]) -> list[Parent]:
        """The stored parents that have templates."""
        return [
            stored_parent(live, folders[name], self._resources[live.identity.group_kind])
            for name, live in self._parents
            if name in folders
        ]

    def without_templates(self, folders: Mapping[str, Folder]) -> dict[str, int]:
        """The folders that the templates lack, with the number of stored parents."""
        missing = [name for name, _ in self._parents if name not in folders]
        return {name: missing.count(name) for name in missing}

    def plan(self, parent: Parent) -> Planned:
        """What a reconcile of a stored parent would do with these templates."""
        live = parent.live
        own = dict.fromkeys(child.identity for child in self.own(live)).keys()
        view = _SnapshotView(
            now=self.taken, objects=self._bodies, children=own, optional=is_optional, snapshot=self, parent=live
        )
        rendered = verified(parent.folder, live.body, view, render(parent.folder, live.body, view))
        observed = self._observed(parent, rendered)
        secrets, refusal = secrets_of(rendered, live, view.namespaced), unreadable_records_message(live)
        planned = plan_observed(parent, observed, rendered, secrets, refusal)
        self._claims.claim(live.uid, planned.plan)
        return planned

    def outcomes(self, planned: Planned, schemas: KubernetesSchemas) -> tuple[Child, ...]:
        """The outcome of each step by a merge with the stored objects. The schemas tell which fields are quantities."""
        standing = planned.standing_outcomes
        if standing is not None:
            return standing
        return merged_outcomes(self._as_stored(planned.plan), schemas.is_quantity, self._scale_paths)

    def _scale_paths(self, kind: GroupKind) -> ScalePaths:
        path = self._replicas.get(kind)
        return lambda _: path

    def own(self, parent: LiveObject) -> tuple[LiveObject, ...]:
        """The stored children of a parent."""
        return tuple(self._children.get(parent.uid, ()))

    def answer(self, query: Lookup | Selection) -> Answer:
        """The stored answer to a query."""
        if isinstance(query, Lookup) and query.identity in self.objects:
            return Answer(objects=[self.objects[query.identity].body])
        stored = self._queries.get(query)
        if stored is None:
            return Answer(unknown="the snapshot does not hold it")
        if isinstance(query, Lookup):
            return Answer(unknown=stored.unknown, absent=stored.absent)
        found = [live.body for live in self.objects.values() if selects(query, live.identity, live.metadata.labels)]
        return Answer(objects=found, unknown=stored.unknown, absent=stored.absent)

    def kind(self, kind: GroupKind) -> KindState | None:
        """How the cluster served a kind, None if it did not."""
        return self._kinds.get(kind)

    def _observed(self, parent: Parent, rendered: Rendered) -> Observed:
        live, own = parent.live, self.own(parent.live)
        records = read_parent_records(live)
        named = {each.identity.group_kind for each in own} | rendered_kinds(named_objects(rendered))
        return make_observed(
            live,
            parent.folder,
            rendered,
            ObservedChildren(
                objects=self._labelled,
                own=own,
                kinds={kind: self._kinds[kind] for kind in named if kind in self._kinds},
                unlabelled=self._unlabelled,
            ),
            ObservedParents(
                existing=self._existing,
                claims=self._claims,
                ancestors=self._claims.ancestors(live),
                planned_shares=self._claims.planned_shares or {},
            ),
            apply_once.with_final_states(records, live.uid, self.objects.get, self.taken),
            now=self.taken,
        )

    def _as_stored(self, plan: Plan) -> Plan:
        """The plan with the tokens of the snapshot in Secrets whose content is unchanged."""
        steps = []
        for step in plan.steps:
            if step.manifest is not None and step.live is not None and is_secret(step.manifest.body):
                body = self._secret_as_stored(step.identity, step.manifest.body, step.live.body)
                steps.append(replace(step, manifest=replace(step.manifest, body=body)))
            else:
                steps.append(step)
        return replace(plan, steps=tuple(steps))

    def _secret_as_stored(self, of: Identity, body: Body, stored: Body) -> dict[str, Any]:
        data, before = body.get("data") or {}, stored.get("data") or {}
        same = {
            name: before[name]
            for name, value in data.items()
            if name in before and before[name] == self._mask.data_value(of, name, str(value))
        }
        return {**body, "data": {**data, **same}} if data else dict(body)


class _SnapshotView(OfflineClusterView, frozen=True, kw_only=True):
    """The ClusterView of one stored parent."""

    snapshot: Snapshot
    parent: LiveObject

    def done(self, kind: str, name: str, /) -> bool:
        return apply_once.is_done(read_parent_records(self.parent).once_records, kind, name)

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        known = self.snapshot.kind(kind)
        return known.namespaced if known is not None else None

    def reports_status(self, kind: GroupKind, /) -> bool:
        known = self.snapshot.kind(kind)
        return known is not None and known.reports_status

    def answer(self, query: Lookup | Selection, /) -> Answer:
        identity = self.parent.identity
        version = join_api_version(identity.group, self.parent.version)
        own = Lookup(api_version=version, kind=identity.kind, namespace=identity.namespace, name=identity.name)
        return Answer(objects=(self.parent.body,)) if query == own else self.snapshot.answer(query)

    def serves(self, kind: ApiKind, /) -> bool:
        # A snapshot has no versions of kinds.
        group = split_api_version(kind.api_version)[0]
        return kind in BUILT_IN_KINDS or self.snapshot.kind(GroupKind(group, kind.kind)) is not None


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
