"""The first step of a reconcile: what the caches hold around the parent, and what its templates render from that.

Promises:
- Everything comes from caches.
- An operator and each command that plans without one make `Observed` here, of caches, a snapshot, or files.
- A process that knows nothing of a parent goes by what an earlier process recorded and reported.

How it works:
`observe` reads what is recorded on the parent and watches what these records name (`watch_recorded`), before the
templates run: `child` has to find those objects, and generated values have to be known. Then it renders the folder
(`render_folder`), and updates what is remembered of the children by what the caches show.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, MutableMapping
from functools import partial
from typing import cast

from msgspec.structs import replace

from ssa_operator.informers.parents import Parent
from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.causes import APPLY_ALL, Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import may_own
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile import apply_once, promises
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.field_conflicts.rules import applied_children, observe_conflicts, observe_foreign_changes
from ssa_operator.reconcile.kept_values import restore_kept_values
from ssa_operator.reconcile.nested_parents import NO_ANCESTORS
from ssa_operator.reconcile.observed import Observed, ObservedChildren, ObservedParents
from ssa_operator.reconcile.parent_records.lost_records import unknown_notice, were_lost
from ssa_operator.reconcile.parent_records.requests import take_unseen_records
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.renderer import RenderedObjects, render_folder
from ssa_operator.reconcile.settings import ApplyMode, ReconcileSettings
from ssa_operator.reconcile.shards.unlabelled_objects import UnlabelledObjects
from ssa_operator.reconcile.status.previous_status import reported_children, reported_kinds, reported_successors
from ssa_operator.reconcile.watched_children import (
    forget_if_gone,
    get_recorded,
    kind_states,
    own_children,
    rendered_kinds,
    watch_recorded,
)
from ssa_operator.rendering.folder.loaded_folders import Folder

RECONCILE_AT = f"{PREFIX}reconcile-at"
"""The annotation whose new value, whatever it is, has everything applied now. It confirms a held prune."""

_NO_OTHERS, _NO_RECORDS = ObservedParents(), ParentRecords()
_NO_STATE, _NO_SETTINGS = ParentState(), ReconcileSettings()


async def observe(reconcile: Reconcile) -> tuple[Observed, Rendered]:
    """Everything that the plan follows from."""
    records = _records(reconcile)
    await watch_recorded(reconcile)
    if records.kept_values:
        await restore_kept_values(reconcile)
    recorded = await get_recorded(reconcile, records)
    found = await render_folder(reconcile, recorded.objects)
    await _observe_children(reconcile, found.rendered)
    observed = _observed(reconcile, found, records, recorded)
    forget_if_gone(reconcile)
    if observed.records_lost:
        found_records = await take_unseen_records(reconcile)
        if found_records:
            return await observe(reconcile)
        if found_records is None:
            return replace(observed, records_lost=False), found.rendered
        notice = unknown_notice(_unrecorded(observed, found.rendered), reconcile.monotonic())
        reconcile.state = replace(reconcile.state, records_notice=notice)
    return observed, found.rendered


def _records(reconcile: Reconcile) -> ParentRecords:
    """The records on the parent, with those that could not be written there yet."""
    records = replace(reconcile.records, selector=reconcile.cluster.settings.selector)
    if reconcile.parent.live.deleting:
        return records
    once = {**records.once_records, **reconcile.state.unrecorded_once}
    records = replace(records, once_records=once, held_prune=records.held_prune or reconcile.state.renders.held_prune)
    if not once:
        return records
    return apply_once.with_final_states(records, reconcile.uid, reconcile.cluster.children.last_seen, reconcile.now())


async def _observe_children(reconcile: Reconcile, rendered: Rendered) -> None:
    """Update what is remembered of the children by what the caches show."""
    live, now = reconcile.parent.live, reconcile.monotonic()
    changed = Cause.PARENT in reconcile.causes or (
        reconcile.state.reconciled_before and reconcile.state.renders.digest != rendered.digest
    )
    memories = promises.begin(
        reconcile.state.children,
        now=now,
        changed_by_user=changed and not live.deleting,
        deleting=live.deleting,
        suspended=reconcile.suspended,
    )
    if not reconcile.suspended:
        policy, renewed = reconcile.cluster.settings.conflict_policy, is_renewed(live, reconcile.state)
        memories = await observe_foreign_changes(
            partial(applied_children, memories, reconcile.cluster.children, reconcile.uid),
            lambda seen: observe_conflicts(seen, now, policy, renewed=renewed),
            reconcile.cluster.turns.in_thread,
        )
    reconcile.state = replace(reconcile.state, children=memories)


def _observed(
    reconcile: Reconcile, found: RenderedObjects, records: ParentRecords, recorded: UnlabelledObjects
) -> Observed:
    rendered, unlabelled = found.rendered, found.unlabelled
    live = reconcile.parent.live
    cluster, claims = reconcile.cluster, reconcile.cluster.claims
    children = cluster.children.of(reconcile.uid)
    unwatched: dict[Identity, LiveObject] = {}
    if recorded.objects:
        # An informer may show them by now.
        unwatched = {identity: child for identity, child in recorded.objects.items() if identity not in children}
        children = ChainMap(unwatched, cast("MutableMapping[Identity, LiveObject]", children))
    own = (*own_children(reconcile), *unwatched.values())
    named = {child.identity.group_kind for child in own} | rendered_kinds(found.named)
    named |= reconcile.state.unseen_kinds
    if not reconcile.state.reconciled_before:
        named |= reported_kinds(live)
    named |= {identity.group_kind for identity in records.inventory}
    named |= records.applied.kinds if records.applied is not None else set()
    kinds = kind_states(reconcile, named)
    why_unserved, was_deleted = cluster.lookups.served.why_unserved, cluster.children.was_deleted
    unserved = [each for each in records.inventory if each.group_kind not in kinds and not was_deleted(each)]
    return make_observed(
        live,
        reconcile.parent.folder,
        rendered,
        ObservedChildren(
            objects=children,
            own=own,
            kinds=kinds,
            unserved={each: why for each in unserved if (why := why_unserved(each.group_kind))},
            unlabelled=unlabelled.objects,
            unreadable={**recorded.unreadable, **unlabelled.unreadable},
            forbidden=recorded.forbidden,
            as_rendered=found.as_rendered,
        ),
        ObservedParents(
            existing=claims.parents,
            all_parents_known=claims.all_parents_known(),
            unread_namespaces=claims.unread_namespaces(),
            claims=claims,
            ancestors=claims.ancestors(live) if live.creator_uid else NO_ANCESTORS,
            crds=claims.crds,
            planned_shares=claims.planned_shares or {},
        ),
        records,
        now=reconcile.now(),
        confidential=is_confidential(reconcile.parent, rendered),
        state=reconcile.state,
        causes=reconcile.causes,
        settings=cluster.settings,
        monotonic=reconcile.monotonic(),
    )


def _unrecorded(observed: Observed, rendered: Rendered) -> list[Identity]:
    """The objects that the operator applied, that the parent can't own and that no template renders. Only the lost
    records knew whether they go with the parent.
    """
    named = {(document.body["kind"], document.body["metadata"]["name"]) for document in rendered.documents}
    return [
        live.identity
        for live in observed.children.own
        if live.owned_fields()
        and not may_own(observed.parent.identity.namespace, live.identity.namespace)
        and (live.identity.kind, live.identity.name) not in named
    ]


def make_observed(
    parent: LiveObject,
    folder: Folder,
    rendered: Rendered,
    children: ObservedChildren,
    parents: ObservedParents = _NO_OTHERS,
    records: ParentRecords = _NO_RECORDS,
    *,
    now: float = 0.0,
    confidential: bool = False,
    state: ParentState = _NO_STATE,
    causes: Cause = Cause.PARENT,
    settings: ReconcileSettings = _NO_SETTINGS,
    monotonic: float = 0.0,
) -> Observed:
    """What a reconcile of the parent knows, after `folder` was rendered for it.

    `children`, `parents`, `records` and `now` are what a cluster, a snapshot of one, or files have around the parent.
    `confidential` is `is_confidential`, where others than the author see the messages. The rest is what the process
    knows; the defaults are those of a command that has just begun.
    """
    own, records_lost = children.own, False
    renders, applied = state.renders, records.applied
    if not state.reconciled_before:
        renders = replace(renders, successors=reported_successors(parent, own))
        if applied is not None and applied.templates:
            renders = replace(renders, applied_digest=applied.templates)
        records_lost = were_lost(parent, has_children=_has_children(parent, own))
    renewed = is_renewed(parent, state)
    causes = Cause.CHILD if parent.deleting else causes
    always = settings.apply is ApplyMode.ALWAYS and causes & (APPLY_ALL | Cause.RESYNC)
    if not parents.crds:
        parents = replace(parents, crds={parent.identity.group_kind: folder.name})
    return Observed(
        parent=parent,
        children=children,
        parents=parents,
        records=records,
        memory=state.children,
        renders=renders,
        rendered_before=renders.rendered if renders.digest == rendered.digest else frozenset(),
        reconciled_before=state.reconciled_before,
        records_lost=records_lost,
        applies_all=renewed or bool(always),
        renewed=renewed,
        settings=folder.settings,
        planned=folder.planned,
        sharded=settings.sharded,
        confidential=confidential,
        reconcile_at=_reconcile_at(parent),
        now=now,
        monotonic=monotonic,
    )


def is_renewed(parent: LiveObject, state: ParentState) -> bool:
    """Whether the parent's `reconcile-at` has a new value."""
    return _reconcile_at(parent) != state.reconcile_at


def _reconcile_at(parent: LiveObject) -> str:
    return parent.metadata.annotations.get(RECONCILE_AT, "")


def _has_children(parent: LiveObject, own: Iterable[LiveObject]) -> bool:
    """Whether the operator has applied a child of the parent that exists, or that the status names with its uid."""
    reported = reported_children(parent) or ()
    return any(live.owned_fields() for live in own) or any(entry.get("uid") for entry in reported)


def is_confidential(parent: Parent, rendered: Rendered) -> bool:
    """Whether what was rendered may hold a Secret's content, in whatever kind of object."""
    asked = any(query.kind == "Secret" for query in rendered.queries)
    return asked or parent.resource.confidential or bool(rendered.generated_values)
