"""Observing and rendering: what a pass knows before it plans.

Promises:
- Everything comes from caches; what a template asks for and nobody watches yet is watched, and awaited for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ssa_operator.controller.options import ApplyMode, Options
from ssa_operator.controller.queue import APPLY_ALL, Cause
from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.parent_view import ParentView
from ssa_operator.controller.reconcile.redaction import remember_secrets
from ssa_operator.controller.reconcile.unlabelled_objects import NONE_FOUND, UnlabelledObjects, get_unlabelled
from ssa_operator.controller.watches.lookup_index import AnswerVersion, Dependent, LookupQuery
from ssa_operator.controller.watches.object_claims import ObjectClaims
from ssa_operator.controller.watches.parent_cache import RECONCILE_AT, Memory, Parent, remembered
from ssa_operator.core.objects.cluster_view import Query
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.manifest import group_kind
from ssa_operator.core.objects.render_result import Rendered, StatusFields
from ssa_operator.core.planning.observed import ApplyScope, KindState, Observed
from ssa_operator.core.planning.plan import make_plan
from ssa_operator.core.planning.suspension import is_suspended
from ssa_operator.core.policies import apply_once, parent_records
from ssa_operator.core.policies.field_conflicts import AppliedChildren
from ssa_operator.core.policies.parent_records import ParentRecords
from ssa_operator.core.status.previous_status import kept_before, reported_kinds
from ssa_operator.rendering.determinism import verified
from ssa_operator.rendering.jinja.template_api import creation_time
from ssa_operator.rendering.render import render, render_status

ROUNDS = 8
"""So many renders a pass may take: what a lookup gives may lead to another lookup. Those that are left come with the
events of their watches."""


class Observer:
    """What the caches hold around a parent, and what `claims` says of the other parents."""

    def __init__(
        self,
        cluster: ClusterAccess,
        claims: ObjectClaims,
        options: Options,
        now: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._now = now
        self._claims = claims

    async def watch_recorded(self, parent: LiveObject, records: ParentRecords, memory: Memory) -> None:
        """Watch what the parent is known to have, also where no template renders it now."""
        reported = reported_kinds(parent) if memory.report is None else set()
        places = {(identity.group_kind, identity.namespace) for identity in records.inventory}
        await self._cluster.children.watch(reported | {kind for kind, _ in places}, places, memory.redactor)

    async def render(self, subject: Parent, memory: Memory, causes: Cause) -> tuple[Rendered, UnlabelledObjects]:
        """The folder, rendered for the parent, with every kind that it renders and all that it looks up watched. What
        shall hold generated values and isn't watched is looked for first: its values are kept.
        """
        children, lookups, uid = self._cluster.children, self._cluster.lookups, subject.parent.uid
        unlabelled, met, replaced = NONE_FOUND, set[Identity](), remembered(memory)
        await self._prepare(subject)
        for _ in range(ROUNDS):
            family = replace(self._family(subject, children.of(uid)), unlabelled={**replaced, **unlabelled.found})
            rendered = render(subject.folder, subject.parent.body, family)
            if memory.converged != rendered.digest or Cause.PARENT in causes:
                rendered = verified(subject.folder, subject.parent.body, family, rendered)
            redactor = remember_secrets(memory, subject, rendered.secrets, rendered.generated_values)
            seen = lookups.look(rendered.asked, family.itself, redactor)
            kinds = _kinds(rendered)
            # Another parent may have had them watched just now.
            known = children.kinds
            unknown = not all(kind in known and known[kind].synced for kind in kinds)
            await children.watch(kinds, _places(rendered), redactor)
            await lookups.settled(seen)
            if (unknown and rendered.waits) or lookups.look(seen) != seen:
                # What was waited for may be there: nobody had looked yet.
                continue
            more = await self.get_unlabelled(identity for identity in rendered.generated if identity not in met)
            met.update(rendered.generated)
            unlabelled |= more
            if not more.found:
                break
        self.use(subject, Cause.TEMPLATE, seen)
        return rendered, unlabelled

    async def render_status(self, subject: Parent, memory: Memory, children: Sequence[LiveObject]) -> StatusFields:
        """The author's status fields, with all that they look up watched."""
        lookups = self._cluster.lookups
        await self._prepare(subject)
        for _ in range(ROUNDS):
            family = self._family(subject, children)
            own = render_status(subject.folder, subject.parent.body, family)
            seen = lookups.look(own.asked, family.itself, remember_secrets(memory, subject, own.secrets))
            await lookups.settled(seen)
            if lookups.look(seen) == seen:
                break
        self.use(subject, Cause.CHILD, seen)
        return own

    def observe(
        self, subject: Parent, memory: Memory, causes: Cause, rendered: Rendered, records: ParentRecords
    ) -> Observed:
        """Everything that the plan is made from."""
        parent = subject.parent
        own = self._cluster.children.of(parent.uid)
        named = {live.identity.group_kind for live in own} | _kinds(rendered)
        named |= {identity.group_kind for identity in records.inventory}
        known = self._cluster.children.kinds
        now, asked = self._now(), parent.metadata.annotations.get(RECONCILE_AT, "")
        renewed, conflict_policy = asked != memory.asked, self._options.conflict_policy
        scene = AppliedChildren(
            apply_records=memory.apply_records,
            last_applied=memory.left,
            live=self._cluster.children,
            synced=lambda kind: kind in known and known[kind].synced,
        )
        return Observed(
            parent=parent,
            objects=self._cluster.children,
            own=own,
            kinds={kind: self._kind(known[kind], kind) for kind in named | reported_kinds(parent) if kind in known},
            apply_records=memory.apply_records,
            recreations=memory.recreations,
            apply_scope=self._demand(causes, renewed=renewed),
            parents=self._claims.parents,
            all_parents_known=self._claims.all_parents_known(),
            claims=self._claims,
            converged=memory.converged,
            settled=memory.settled,
            cluster_scope=subject.folder.settings.cluster_scope,
            reconcile_at=asked,
            successors=memory.successors if memory.report is not None else kept_before(parent, own),
            records=records,
            outlived=memory.rendered if memory.digest == rendered.digest else frozenset(),
            left=memory.left,
            feedback_loops=memory.feedback_loops,
            # While a parent is suspended, its children may be changed by hand.
            conflict_histories={}
            if is_suspended(parent)
            else memory.conflicts.look(scene, now, conflict_policy, renewed=renewed),
            reconciled_before=memory.report is not None,
            confidential=is_confidential(subject, rendered.asked),
            now=now,
        )

    def _kind(self, known: KindState, kind: GroupKind) -> KindState:
        return replace(known, reports_status=True) if self._cluster.reports_status(kind) else known

    def outlived(self, subject: Parent, observed: Observed) -> frozenset[Identity]:
        """What the templates rendered when the parent was made, or would have."""
        made = creation_time(subject.parent.body["metadata"])
        family = replace(self._family(subject, observed.own), now=self._now() if made is None else made)
        earlier = make_plan(observed, render(subject.folder, subject.parent.body, family))
        return frozenset(step.identity for step in earlier.steps if step.manifest is not None)

    async def get_unlabelled(self, identities: Iterable[Identity]) -> UnlabelledObjects:
        """The objects of these names that exist though no watch shows them."""
        return await get_unlabelled(identities, self._cluster.client, self._cluster.children)

    def use(self, subject: Parent, cause: Cause, seen: Mapping[LookupQuery, AnswerVersion]) -> None:
        """Have the parent woken when what was seen changes, unless it went while it was rendered."""
        uid = subject.parent.uid
        self._cluster.lookups.use(Dependent(uid, cause), seen if uid in self._claims.parents else {})

    async def _prepare(self, subject: Parent) -> None:
        templates = subject.folder.templates
        if templates is not None and templates.asks:
            await self._cluster.lookups.prepare()

    def _family(self, subject: Parent, children: Sequence[LiveObject]) -> ParentView:
        watched, now = self._cluster.children, self._now()
        return ParentView(
            now=now,
            parent=subject.parent,
            lookups=self._cluster.lookups,
            children=children,
            objects=watched,
            kinds=watched.kinds,
            status_kinds=self._cluster.reports_status,
            once=apply_once.with_final_states(
                parent_records.read_parent_records(subject.parent), watched.last_seen, now
            ).once_records,
        )

    def _demand(self, causes: Cause, *, renewed: bool) -> ApplyScope:
        always = self._options.apply is ApplyMode.ALWAYS and causes & (APPLY_ALL | Cause.TICK_GRANTED)
        return ApplyScope.ALL if renewed or always else ApplyScope.CHANGED


def _kinds(rendered: Rendered) -> set[GroupKind]:
    waiting = {wait.identity.group_kind for wait in rendered.waits if wait.identity is not None}
    return {group_kind(document) for document in rendered.documents} | waiting


def _places(rendered: Rendered) -> set[tuple[GroupKind, str]]:
    """Where manifests say that they belong, which may be outside of what the operator looks after."""
    said = {(group_kind(document), document.body["metadata"].get("namespace")) for document in rendered.documents}
    return {(kind, namespace) for kind, namespace in said if namespace}


def is_confidential(subject: Parent, asked: Iterable[Query]) -> bool:
    """Whether what was rendered may hold a Secret's content, whatever kind it was put into."""
    return subject.resource.confidential or any(query.kind == "Secret" for query in asked)
