"""Snapshots: what a plan over all parents read from the cluster, to plan other templates without the cluster.

Promises:
- A snapshot holds the parents, their children, what templates looked up, and the kinds that the cluster serves. It
  holds no content of a Secret.
- A plan against a snapshot renders and plans by the functions of the operator. Manifests are merged into the stored
  objects, because there is no API server that could complete them.
- What a snapshot does not hold is not taken for absent: a document that looks it up waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ssa_operator.controller.informers.object_claims import ObjectClaims
from ssa_operator.controller.informers.parent_cache import Parent, ParentState
from ssa_operator.controller.preview import Planned
from ssa_operator.controller.queue import Cause
from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.turn import Turn
from ssa_operator.controller.shared_informers import ParentError
from ssa_operator.core.objects.cluster_view import Answer, Body, Lookup, Selection, selects
from ssa_operator.core.objects.identity import GroupKind, Identity, join_api_version
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.manifest import group_kind
from ssa_operator.core.objects.render_result import Rendered
from ssa_operator.core.planning.finalization import HookContext, make_finalization
from ssa_operator.core.planning.merged_outcomes import merged_outcomes
from ssa_operator.core.planning.observed import KindState, Observed, ObservedChildren, ObservedParents
from ssa_operator.core.planning.outcome import Outcome
from ssa_operator.core.planning.plan import Plan, make_plan
from ssa_operator.core.planning.suspension import outcomes_while_suspended
from ssa_operator.core.policies import apply_once
from ssa_operator.core.policies.parent_records import read_parent_records
from ssa_operator.core.redaction.secret_values import Redactor
from ssa_operator.core.redaction.snapshot_mask import SnapshotMask, aligned, is_secret
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.rendering.determinism import verified
from ssa_operator.rendering.folder.sources import Folder
from ssa_operator.rendering.render import render

VERSION = 1
"""The version of the format of a snapshot."""

ALIGNMENT_ROUNDS = 10
"""The longest chain of objects that are made of each other's content and of a Secret."""


class _StoredKind(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    status: bool = False
    """Whether a controller writes the status of its objects."""


class _StoredParent(msgspec.Struct, frozen=True, kw_only=True):
    folder: str
    object: dict[str, Any]


class _StoredQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    unknown: str = ""
    absent: str = ""


class StoredSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a snapshot."""

    version: int
    taken: float
    """When it was taken, in seconds since the epoch."""
    salt: str
    """The salt of the hashes that stand for the content of Secrets."""
    kinds: list[_StoredKind]
    parents: list[_StoredParent]
    objects: list[dict[str, Any]]
    """Children, and what templates looked up."""
    queries: list[_StoredQuery]
    """What templates looked up."""


@dataclass(slots=True, kw_only=True)
class SnapshotRecorder:
    """Records what the plans of parents read. `write` gives the file."""

    cluster: ClusterAccess
    salt: bytes
    taken: float
    """The time of the plans, in seconds since the epoch."""
    _mask: SnapshotMask = field(init=False)
    _parents: list[tuple[str, LiveObject, Redactor]] = field(default_factory=list)
    _objects: dict[Identity, tuple[Body, Redactor]] = field(default_factory=dict)
    _queries: dict[Lookup | Selection, Answer] = field(default_factory=dict)
    _statuses: set[GroupKind] = field(default_factory=set)
    _plans: dict[str, Planned] = field(default_factory=dict)
    """The plans that read a Secret, by the parent's uid."""

    def __post_init__(self) -> None:
        self._mask = SnapshotMask(salt=self.salt)

    def record(self, planned: Planned) -> None:
        """Record what the plan of one parent read."""
        observed, redactor = planned.observed, planned.redactor
        self._parents.append((planned.parent.folder.name, planned.parent.live, redactor))
        children = observed.children
        rendered = (children.objects.get(step.identity) for step in planned.plan.steps)
        for live in (*children.own, *children.unlabelled.values(), *filter(None, rendered)):
            self._objects[live.identity] = live.body, redactor
        for query in planned.rendered.asked:
            if isinstance(query, Lookup | Selection):
                answer = self.cluster.lookups.answer(query)
                self._queries[query] = answer
                for body in answer.objects:
                    self._objects.setdefault(LiveObject.of(dict(body)).identity, (body, redactor))
        if redactor:
            self._plans[planned.parent.live.uid] = planned
        self._statuses |= {kind for kind, state in children.kinds.items() if state.reports_status}

    def write(self, resources: Iterable[Resource]) -> bytes:
        """The file. `resources` are all that the cluster serves."""
        bodies = [body for body, _ in self._objects.values()]
        self._mask.learn(body for body in bodies if is_secret(body))
        stored = StoredSnapshot(
            version=VERSION,
            taken=self.taken,
            salt=self.salt.hex(),
            kinds=[self._kind(resource) for resource in resources],
            parents=[
                _StoredParent(folder=folder, object=self._mask.masked(live.body, redactor))
                for folder, live, redactor in self._parents
            ],
            objects=[self._mask.masked(body, redactor) for body, redactor in self._objects.values()],
            queries=[_stored_query(query, answer) for query, answer in self._queries.items()],
        )
        return msgspec.json.format(msgspec.json.encode(self._aligned(stored)), indent=1) + b"\n"

    def _aligned(self, stored: StoredSnapshot) -> StoredSnapshot:
        """The snapshot in which the objects of the plans that read a Secret are as the same templates render them from
        it. What one object is made of another one is aligned in the next round.
        """
        first = {LiveObject.of(body).identity: body for body in stored.objects}
        for _ in range(ALIGNMENT_ROUNDS):
            objects = self._aligned_once(first, stored)
            if objects == stored.objects:
                break
            stored = msgspec.structs.replace(stored, objects=objects)
        return stored

    def _aligned_once(self, first: Mapping[Identity, dict[str, Any]], stored: StoredSnapshot) -> list[dict[str, Any]]:
        snapshot = Snapshot(stored)
        folders = {planned.parent.folder.name: planned.parent.folder for planned in self._plans.values()}
        found = dict(first)
        for parent in snapshot.parents(folders):
            planned = self._plans.get(parent.live.uid)
            if planned is None:
                continue
            applied, masked = (_manifests(plan) for plan in (planned.plan, snapshot.plan(parent).plan))
            for identity in applied.keys() & masked.keys() & found.keys():
                bodies = found[identity], self._objects[identity][0], applied[identity], masked[identity]
                align = self._mask.aligned_secret if is_secret(bodies[0]) else aligned
                found[identity] = align(*bodies)
        return list(found.values())

    def _kind(self, resource: Resource) -> _StoredKind:
        return _StoredKind(
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            plural=resource.plural,
            namespaced=resource.namespaced,
            status=resource.group_kind in self._statuses,
        )


def _manifests(plan: Plan) -> dict[Identity, Body]:
    return {step.identity: step.manifest.body for step in plan.steps if step.manifest is not None}


def _stored_query(query: Lookup | Selection, answer: Answer) -> _StoredQuery:
    named = (query.name, ()) if isinstance(query, Lookup) else ("", query.labels)
    return _StoredQuery(
        api_version=query.api_version,
        kind=query.kind,
        namespace=query.namespace,
        name=named[0],
        labels=named[1],
        unknown=answer.unknown,
        absent=answer.absent,
    )


class Snapshot:
    """A snapshot that was read from a file."""

    def __init__(self, stored: StoredSnapshot) -> None:
        self.taken = stored.taken
        self._mask = SnapshotMask(salt=bytes.fromhex(stored.salt))
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
        self._parents = [(each.folder, LiveObject.of(each.object)) for each in stored.parents]
        objects = map(LiveObject.of, stored.objects)
        self.objects: Mapping[Identity, LiveObject] = {live.identity: live for live in objects}
        self._labelled = {identity: live for identity, live in self.objects.items() if live.parent_uid}
        self._unlabelled = {identity: live for identity, live in self.objects.items() if not live.parent_uid}
        self._children: dict[str, list[LiveObject]] = {}
        for live in self._labelled.values():
            self._children.setdefault(live.parent_uid, []).append(live)
        self._queries = {_query(each): each for each in stored.queries}
        self._existing = {live.uid: live.identity for _, live in self._parents}
        self._claims = ObjectClaims(self._existing, lambda: True, lambda _: None)

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
        return [self._parent(live, folders[name]) for name, live in self._parents if name in folders]

    def without_templates(self, folders: Mapping[str, Folder]) -> dict[str, int]:
        """The folders that the templates lack, with the number of stored parents."""
        missing = [name for name, _ in self._parents if name not in folders]
        return {name: missing.count(name) for name in missing}

    def _parent(self, live: LiveObject, folder: Folder) -> Parent:
        return Parent(
            live=live,
            folder=folder,
            resource=self._resources[live.identity.group_kind],
            writes_status=False,
            status_schema=None,
            shows_conditions=False,
            unreported="",
            cache=Cache(),
        )

    def plan(self, parent: Parent) -> Planned:
        """What a reconcile of a stored parent would do with these templates."""
        live = parent.live
        view = _SnapshotView(snapshot=self, parent=live)
        rendered = verified(parent.folder, live.body, view, render(parent.folder, live.body, view))
        turn = Turn(parent=parent, state=ParentState(), causes=Cause.PARENT)
        redactor = turn.remember_secrets(rendered.secrets, rendered.generated_values)
        observed, finalization = self._observed(parent, rendered), None
        if live.deleting:
            finalization = make_finalization(observed, rendered, HookContext(now=self.taken))
            plan = finalization.plan
        else:
            plan = make_plan(observed, rendered)
        self._claims.claim(live.uid, plan)
        return Planned(
            parent=parent,
            observed=observed,
            rendered=rendered,
            plan=plan,
            redactor=redactor,
            finalization=finalization,
        )

    def outcomes(self, planned: Planned) -> tuple[Outcome, ...]:
        """The outcome of each step by a merge with the stored objects."""
        if planned.finalization is not None:
            return ()
        if planned.suspended:
            return outcomes_while_suspended(planned.plan)
        return merged_outcomes(self._as_stored(planned.plan))

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
        found = [live.body for live in self.objects.values() if selects(query, live.identity, live.body)]
        return Answer(objects=found, unknown=stored.unknown, absent=stored.absent)

    def kind(self, kind: GroupKind) -> KindState | None:
        """A kind as the cluster served it, None where it did not."""
        return self._kinds.get(kind)

    def _observed(self, parent: Parent, rendered: Rendered) -> Observed:
        live, own = parent.live, self.own(parent.live)
        records = read_parent_records(live)
        named = {each.identity.group_kind for each in own} | {group_kind(each) for each in rendered.documents}
        named |= {each.identity.group_kind for each in rendered.waits if each.identity is not None}
        return Observed(
            parent=live,
            children=ObservedChildren(
                objects=self._labelled,
                own=own,
                kinds={kind: self._kinds[kind] for kind in named if kind in self._kinds},
                unlabelled=self._unlabelled,
            ),
            parents=ObservedParents(existing=self._existing, claims=self._claims),
            records=apply_once.with_final_states(records, self.objects.get, self.taken),
            cluster_scope=parent.folder.settings.cluster_scope,
            now=self.taken,
        )

    def _as_stored(self, plan: Plan) -> Plan:
        """The plan with the tokens of the snapshot in Secrets whose content is as it was."""
        steps = []
        for step in plan.steps:
            if step.manifest is not None and step.live is not None and is_secret(step.manifest.body):
                body = self._secret_as_stored(step.manifest.body, step.live.body)
                steps.append(replace(step, manifest=replace(step.manifest, body=body)))
            else:
                steps.append(step)
        return replace(plan, steps=tuple(steps))

    def _secret_as_stored(self, body: Body, stored: Body) -> dict[str, Any]:
        data, before = body.get("data") or {}, stored.get("data") or {}
        same = {
            name: before[name]
            for name, value in data.items()
            if name in before and before[name] == self._mask.data_value(str(value))
        }
        return {**body, "data": {**data, **same}} if data else dict(body)


def _query(stored: _StoredQuery) -> Lookup | Selection:
    where = {"api_version": stored.api_version, "kind": stored.kind, "namespace": stored.namespace}
    return Lookup(**where, name=stored.name) if stored.name else Selection(**where, labels=stored.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SnapshotView:
    """The ClusterView of one stored parent."""

    snapshot: Snapshot
    parent: LiveObject

    @property
    def now(self) -> float:
        return self.snapshot.taken

    def child(self, kind: str, name: str, /) -> Body | None:
        for live in self.snapshot.own(self.parent):
            if (live.identity.kind, live.identity.name) == (kind, name):
                return live.body
        return None

    def done(self, kind: str, name: str, /) -> bool:
        return apply_once.is_done(read_parent_records(self.parent).once_records, kind, name)

    def synced(self, _: GroupKind, /) -> bool:
        return True

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        known = self.snapshot.kind(kind)
        return known.namespaced if known is not None else None

    def reports_status(self, kind: GroupKind, /) -> bool:
        known = self.snapshot.kind(kind)
        return known is not None and known.reports_status

    def lookup(self, identity: Identity, /) -> Body | None:
        live = self.snapshot.objects.get(identity)
        return live.body if live is not None else None

    def answer(self, query: Lookup | Selection, /) -> Answer:
        identity = self.parent.identity
        version = join_api_version(identity.group, self.parent.version)
        own = Lookup(api_version=version, kind=identity.kind, namespace=identity.namespace, name=identity.name)
        return Answer(objects=(self.parent.body,)) if query == own else self.snapshot.answer(query)

    def random(self, _: int, /) -> int:
        return 0
