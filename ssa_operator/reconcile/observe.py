"""The first step of a reconcile: what the caches hold around the parent, and what its templates render from that.

Promises:
- Everything comes from caches.

How it works:
`observe` reads what is recorded on the parent and watches what these records name (`WatchedChildren`), before the
templates run: `child` has to find those objects, and generated values have to be known. Then it renders the folder
(`Renderer`), and updates what is remembered of the children by what the caches show.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, MutableMapping
from typing import cast

from msgspec.structs import replace

from ssa_operator.informers.parent import Parent
from ssa_operator.kube.clock import Clock
from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.causes import APPLY_ALL, Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import may_own
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile import promises
from ssa_operator.reconcile.apply_once import rules as apply_once
from ssa_operator.reconcile.child_history import Observation
from ssa_operator.reconcile.child_needs import rendered_kinds
from ssa_operator.reconcile.cluster_access import SharedCluster
from ssa_operator.reconcile.context import Stage, stage
from ssa_operator.reconcile.field_conflicts.memory import observe_conflicts
from ssa_operator.reconcile.field_conflicts.requests import applied_children, observe_foreign_changes
from ssa_operator.reconcile.generated_values.requests import restore_kept_values
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observed import ApplyScope, Observed, ObservedChildren, ObservedParents
from ssa_operator.reconcile.parent_records.lost_records import unknown_notice, were_lost
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.renderer import RenderedObjects, Renderer
from ssa_operator.reconcile.settings import ApplyMode, ReconcileSettings
from ssa_operator.reconcile.shards.unlabelled_objects import UnlabelledObjects
from ssa_operator.reconcile.status.previous_status import reported_children, reported_kinds, reported_successors
from ssa_operator.reconcile.step_record import StepRecord
from ssa_operator.reconcile.suspension.rules import is_suspended
from ssa_operator.reconcile.turn import Turn
from ssa_operator.reconcile.watched_children import WatchedChildren, own_children

RECONCILE_AT = f"{PREFIX}reconcile-at"
"""The annotation whose new value, whatever it is, has everything applied now. It confirms a held prune."""


class Observer:
    """Observes parents. `claims` knows the other parents, and what they render."""

    def __init__(
        self,
        cluster: SharedCluster,
        claims: ObjectClaims,
        settings: ReconcileSettings,
        clock: Clock,
        record: StepRecord | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._now = clock.now
        self._monotonic = clock.monotonic
        self._claims = claims
        self.children = WatchedChildren(cluster, claims, settings)
        self.renderer = Renderer(cluster, claims, self.children, clock, record)

    async def observe(self, turn: Turn) -> tuple[Observed, Rendered]:
        """Everything that the plan follows from."""
        with stage(Stage.OBSERVE):
            records = self._records(turn)
            await self.children.watch_recorded(turn)
            if records.kept_values:
                await restore_kept_values(turn)
            recorded = await self.children.get_recorded(turn, records)
            found = await self.renderer.render(turn, recorded.objects)
            await self._observe_children(turn, found.rendered)
            observed = self._observed(turn, found, records, recorded)
            self.children.forget_if_gone(turn)
            return observed, found.rendered

    def _records(self, turn: Turn) -> ParentRecords:
        """The records on the parent, with those that could not be written there yet."""
        records = replace(turn.records, selector=self._settings.selector)
        if turn.parent.live.deleting:
            return records
        once = {**records.once_records, **turn.state.unrecorded_once}
        records = replace(records, once_records=once, held_prune=records.held_prune or turn.state.renders.held_prune)
        return apply_once.with_final_states(records, turn.uid, self._cluster.children.last_seen, self._now())

    async def _observe_children(self, turn: Turn, rendered: Rendered) -> None:
        """Update what is remembered of the children by what the caches show."""
        live, now = turn.parent.live, self._monotonic()
        changed = Cause.PARENT in turn.causes or (
            turn.state.reconciled_before and turn.state.renders.digest != rendered.digest
        )
        seen = Observation(
            now=now,
            changed_by_user=changed and not live.deleting,
            deleting=live.deleting,
            suspended=is_suspended(live, turn.parent.folder.settings.suspend_when),
        )
        history = promises.begin(turn.state.children, seen)
        if not seen.suspended:
            _, renewed = _reconcile_at(turn)
            history = await observe_foreign_changes(
                lambda: applied_children(history, self._cluster.children, turn.uid),
                lambda seen: observe_conflicts(history, seen, now, self._settings.conflict_policy, renewed=renewed),
                self.renderer.turns.in_thread,
            )
        turn.state = replace(turn.state, children=history)

    def _observed(
        self, turn: Turn, found: RenderedObjects, records: ParentRecords, recorded: UnlabelledObjects
    ) -> Observed:
        rendered, unlabelled = found.rendered, found.unlabelled
        live, state, monotonic = turn.parent.live, turn.state, self._monotonic()
        children = self._cluster.children.of(turn.uid)
        # An informer may show them by now.
        unwatched = {identity: child for identity, child in recorded.objects.items() if identity not in children}
        if unwatched:
            children = ChainMap(unwatched, cast("MutableMapping[Identity, LiveObject]", children))
        own = (*own_children(turn), *unwatched.values())
        named = {child.identity.group_kind for child in own} | rendered_kinds(found.named) | reported_kinds(live)
        named |= {identity.group_kind for identity in records.inventory}
        named |= records.applied.kinds if records.applied is not None else set()
        reconcile_at, renewed = _reconcile_at(turn)
        renders = state.renders
        records_lost = False
        if not state.reconciled_before:
            renders = replace(renders, successors=reported_successors(live, own))
            if records.applied is not None and records.applied.templates:
                renders = replace(renders, applied_digest=records.applied.templates)
            records_lost = were_lost(live, has_children=_has_children(live, own))
        if records_lost:
            turn.state = replace(state, records_notice=unknown_notice(_unrecorded(live, own, rendered), monotonic))
        return Observed(
            parent=live,
            children=ObservedChildren(
                objects=children,
                own=own,
                kinds=self.children.kinds(turn, named),
                unlabelled=unlabelled.objects,
                unreadable={**recorded.unreadable, **unlabelled.unreadable},
                forbidden=recorded.forbidden,
                as_rendered=found.as_rendered,
            ),
            parents=ObservedParents(
                existing=self._claims.parents,
                all_parents_known=self._claims.all_parents_known(),
                unread_namespaces=self._claims.unread_namespaces(),
                claims=self._claims,
                ancestors=self._claims.ancestors(live),
                crds=self._claims.waits.crds,
            ),
            records=records,
            history=state.children,
            renders=renders,
            rendered_before=renders.rendered if renders.digest == rendered.digest else frozenset(),
            reconciled_before=state.reconciled_before,
            records_lost=records_lost,
            apply_scope=self._apply_scope(turn, renewed=renewed),
            renewed=renewed,
            settings=turn.parent.folder.settings,
            sharded=self._settings.sharded,
            confidential=is_confidential(turn.parent, rendered),
            reconcile_at=reconcile_at,
            now=self._now(),
            monotonic=monotonic,
        )

    def _apply_scope(self, turn: Turn, *, renewed: bool) -> ApplyScope:
        causes = Cause.CHILD if turn.parent.live.deleting else turn.causes
        always = self._settings.apply is ApplyMode.ALWAYS and causes & (APPLY_ALL | Cause.RESYNC)
        return ApplyScope.ALL if renewed or always else ApplyScope.CHANGED


def _reconcile_at(turn: Turn) -> tuple[str, bool]:
    """The parent's `reconcile-at`, and whether it is new."""
    text = turn.parent.live.metadata.annotations.get(RECONCILE_AT, "")
    return text, text != turn.state.reconcile_at


def _has_children(parent: LiveObject, own: Iterable[LiveObject]) -> bool:
    """Whether the operator has applied a child of the parent that exists, or that the status names with its uid."""
    reported = reported_children(parent) or ()
    return any(live.owned_fields() for live in own) or any(entry.get("uid") for entry in reported)


def _unrecorded(parent: LiveObject, own: Iterable[LiveObject], rendered: Rendered) -> list[Identity]:
    """The objects that the operator applied, that the parent can't own and that no template renders. Only the lost
    records knew whether they go with the parent.
    """
    named = {(document.body["kind"], document.body["metadata"]["name"]) for document in rendered.documents}
    return [
        live.identity
        for live in own
        if live.owned_fields()
        and not may_own(parent.identity.namespace, live.identity.namespace)
        and (live.identity.kind, live.identity.name) not in named
    ]


def is_confidential(parent: Parent, rendered: Rendered) -> bool:
    """Whether what was rendered may hold a Secret's content, in whatever kind of object."""
    asked = any(query.kind == "Secret" for query in rendered.queries)
    return asked or parent.resource.confidential or bool(rendered.generated_values)
