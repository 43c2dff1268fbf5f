"""The first step of a reconcile: what the caches hold around the parent, and what its templates render from that.

Promises:
- Everything comes from caches.

How it works:
`observe` reads what is recorded on the parent and watches what these records name (`watch_recorded`), before the
templates run: `child` has to find those objects, and generated values have to be known. Then it renders the folder
(`render_folder`), and updates what is remembered of the children by what the caches show.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from functools import partial
from typing import cast

from msgspec.structs import replace

from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import may_own
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile import apply_once, promises
from ssa_operator.reconcile.child_needs import rendered_kinds
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.field_conflicts.requests import applied_children, observe_foreign_changes
from ssa_operator.reconcile.field_conflicts.rules import observe_conflicts
from ssa_operator.reconcile.kept_values import restore_kept_values
from ssa_operator.reconcile.nested_parents import NO_ANCESTORS
from ssa_operator.reconcile.observation import is_confidential, is_renewed, make_observed
from ssa_operator.reconcile.observed import Observed, ObservedChildren, ObservedParents
from ssa_operator.reconcile.parent_records.lost_records import unknown_notice
from ssa_operator.reconcile.parent_records.requests import take_unseen_records
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.renderer import RenderedObjects, render_folder
from ssa_operator.reconcile.shards.unlabelled_objects import UnlabelledObjects
from ssa_operator.reconcile.status.previous_status import reported_kinds
from ssa_operator.reconcile.watched_children import (
    forget_if_gone,
    get_recorded,
    kind_states,
    own_children,
    watch_recorded,
)


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
