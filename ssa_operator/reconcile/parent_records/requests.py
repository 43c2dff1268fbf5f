"""Writes the operator's records on a parent: the inventory, manifests that were applied once, held prunes, the
finalizer.

Promises:
- The operator writes no record that the parent already has. What was applied costs a new parent no write: it stands in
  the status, and the kinds once for the folder. If that can't be, or if the parent needs another record or gets a new
  kind later, an annotation has it.
- The operator's own write requeues no parent, and never recreates a parent that is gone.
- One merge patch of the parent as it was read writes what changed of its records, whichever field managers own them. If
  another client changed the parent meanwhile, it is read again; records that it changed are left to the next reconcile.
- A manifest that has to be recorded before it is applied, and can't be, is not applied.
- If another client removed all records, they are written again before anything else is done.
- Records that the watch of parents has not shown yet are not taken for lost.
- Records that a process remembers of a later state than the parent has, as after a restore of etcd, are forgotten.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.conflicts import retry_on_conflict
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_codec import NOTHING, encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import may_own
from ssa_operator.objects.readiness import condition_of
from ssa_operator.reconcile import apply_once
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.current_reconcile import Reconcile, SharedCluster
from ssa_operator.reconcile.parent_records.lost_records import (
    RecordTexts,
    are_from_future,
    are_lost,
    record_texts,
    restored_notice,
)
from ssa_operator.reconcile.parent_records.rules import (
    MANAGER,
    AppliedRecord,
    ParentRecords,
    ParentRecordsError,
    read_parent_records,
    records_patch,
    shown_text,
    texts_of,
    unreadable_records_message,
    with_applied,
    with_manifests,
    with_revision,
)
from ssa_operator.reconcile.plan import Plan
from ssa_operator.schema.operator_fields import APPLIED_FIELD


async def restore_parent_records(reconcile: Reconcile, now: float) -> None:
    """Write the records again if another client removed all of them since the last reconcile. Raises ApiError."""
    known, live = reconcile.state.records, reconcile.parent.live
    if are_from_future(reconcile.state.records_version, live):
        reconcile.state = replace(reconcile.state, records=NOTHING, records_version="", unrecorded_once={})
        return
    if not are_lost(known, live):
        return
    await _write(reconcile, known)
    reconcile.state = replace(reconcile.state, records_notice=restored_notice(known, now))


async def take_unseen_records(reconcile: Reconcile) -> bool | None:
    """Go on with the parent as the API server has it, if it has records there. The watch of parents may be behind that
    of children, which another process records and applies: the last leader, or `ssa-operator apply`. Returns whether it
    has; None if it has had none yet, because an operator ended between the first apply and the status. Raises ApiError.
    """
    live = await read_again(reconcile.cluster, reconcile.parent)
    if live is None:
        return False
    if record_texts(live) or shown_text(live):
        reconcile.take_parent(replace(reconcile.parent, live=live))
        return True
    has_folder_kinds = reconcile.cluster.folder_kinds is not None and not reconcile.state.kinds_unknown
    is_new = reconcile.parent.shows_applied and has_folder_kinds
    return None if is_new and not live.body.get("status") else False


async def save_parent_records(reconcile: Reconcile, records: ParentRecords) -> None:
    """Write these records to the parent, unless it has them.

    Raises ApiError (`not_found` or `conflict` if the parent is gone, `conflict` if others keep changing it),
    and ParentRecordsError if they can't be recorded.
    """
    if reconcile.records == records:
        return
    await _write(reconcile, texts_of(records))
    applied = records.applied
    reconcile.remember_applied(applied if applied is not None and applied.shown else None)


async def _write(reconcile: Reconcile, texts: RecordTexts) -> None:
    """Write the records with these texts, and remove all others. If the parent is gone, there is nothing to remove."""
    parent, cluster, identity = reconcile.parent, reconcile.cluster, reconcile.parent.live.identity
    known, subject = read_parent_records(parent.live), f"patch of {identity}"

    async def read() -> LiveObject | None:
        return await read_again(cluster, parent)

    async def write(live: LiveObject | None) -> LiveObject | None:
        if live is None:
            raise ApiError(subject, ErrorStatus(code=404, reason="NotFound", message="the parent is gone"))
        patch = records_patch(live, texts)
        if patch is None:
            return live
        if live is not parent.live and (read_parent_records(live) != known or unreadable_records_message(live)):
            return None  # the next reconcile reads them
        with parent.cache.writing(identity.namespace, identity.name):
            written = await cluster.operator_client.merge_patch(
                parent.resource, identity.namespace, identity.name, patch, manager=MANAGER
            )
            return _cached(parent, written)

    try:
        live = await retry_on_conflict(read, write, known=parent.live)
    except ApiError as error:
        if not error.not_found or texts.items() - record_texts(parent.live).items():
            raise
        return
    if live is None:
        message = "another client changed the records meanwhile"
        raise ApiError(subject, ErrorStatus(code=409, reason="Conflict", message=message))
    reconcile.take_parent(replace(parent, live=live))


async def read_again(cluster: SharedCluster, parent: Parent) -> LiveObject | None:
    """The current parent from the API server, None if it is gone."""
    identity = parent.live.identity
    live = await cluster.operator_client.find(parent.resource, identity.name, identity.namespace)
    return live if live is not None and live.uid == parent.live.uid else None


def _cached(parent: Parent, live: LiveObject) -> LiveObject:
    """The parent that a write returned, which its cache has unless it is gone by now."""
    if live.metadata.finalizers or not live.deleting:
        parent.cache.written(live)
    return live


async def record_before_apply(reconcile: Reconcile, plan: Plan) -> Plan:
    """Record on the parent the facts that have to outlive the process, before anything is applied. The returned plan
    refuses the manifests that can't be recorded.
    """
    try:
        records = _with_revision(reconcile, _records_of(plan))
        await save_parent_records(reconcile, await _shown_or_recorded(reconcile, plan, records))
    except (ApiError, ParentRecordsError) as error:
        if isinstance(error, ApiError) and not (error.forbidden or error.too_large):
            raise
        return _without_unrecorded(plan, reconcile.parent, error)
    return plan


async def _shown_or_recorded(reconcile: Reconcile, plan: Plan, records: ParentRecords) -> ParentRecords:
    """The records, of which the status shows what was applied for a new parent that needs no other one. Raises
    ApiError.
    """
    parent, cluster, applied, before = reconcile.parent, reconcile.cluster, records.applied, reconcile.records.applied
    if applied is None or not (applied.shown or before is None):
        return records
    others = replace(records, applied=None, selector="") != ParentRecords()
    once = any(step.manifest is not None and step.manifest.once for step in plan.steps)
    shown = parent.shows_applied and not (others or once)
    if before is None:
        applied = replace(applied, incomplete=reconcile.state.kinds_unknown)
        folder_kinds = cluster.folder_kinds if shown and applied.templates and not applied.incomplete else None
        shown = folder_kinds is not None and await folder_kinds.record(parent.folder.name, applied.kinds)
    elif not shown and shown_text(parent.live):
        # Where it stands, a later process takes lost records for records that never were.
        await _remove_shown(reconcile)
    return replace(records, applied=replace(applied, shown=shown))


async def _remove_shown(reconcile: Reconcile) -> None:
    """Remove from the status what was applied. Raises ApiError."""
    parent, identity = reconcile.parent, reconcile.parent.live.identity
    patch = encode({"status": {APPLIED_FIELD: None}})
    with parent.cache.writing(identity.namespace, identity.name):
        live = await reconcile.cluster.operator_client.merge_patch(
            parent.resource, identity.namespace, identity.name, patch, subresource="status"
        )
        reconcile.take_parent(replace(parent, live=_cached(parent, live)))


def without_unrecordable(plan: Plan, parent: Parent) -> Plan:
    """The plan that refuses the manifests whose records don't fit on the parent. Nothing is recorded."""
    try:
        texts_of(_records_of(plan))
    except ParentRecordsError as error:
        return _without_unrecorded(plan, parent, error)
    return plan


def _with_revision(reconcile: Reconcile, records: ParentRecords) -> ParentRecords:
    live, state = reconcile.parent.live, reconcile.state
    shown = condition_of(live.body, "Ready")
    ready = state.ready if state.reconciled_before else shown is not None and shown.get("status") == "True"
    folder = reconcile.parent.folder
    return with_revision(records, folder.revision, ready=ready, rendered=folder.templates is not None)


def _records_of(plan: Plan) -> ParentRecords:
    """The records that the parent has to have before the plan is carried out."""
    observed = plan.observed
    applied = [step.manifest for step in plan.steps if step.manifest is not None and step.action in _APPLYING]
    records = with_manifests(observed.records, applied, hooks=plan.has_hooks)
    has_children = bool(observed.children.own) or observed.records_lost
    kinds = _waiting_kinds(plan)
    if records.applied is None:
        kinds |= {live.identity.group_kind for live in observed.children.own if live.owned_fields()}
    records = with_applied(records, applied, plan.rendered.digest, waiting=kinds, has_children=has_children)
    if observed.records_lost:
        records = apply_once.with_unknown(records, plan.steps, observed.parent)
    return replace(records, held_prune=plan.held_prune)


def _waiting_kinds(plan: Plan) -> set[GroupKind]:
    """The kinds of the manifests that wait, if the parent may own their objects."""
    namespace, kinds = plan.observed.parent.identity.namespace, set[GroupKind]()
    for step in plan.steps:
        if step.action is Action.WAIT and may_own(namespace, step.identity.namespace):
            kinds.add(step.identity.group_kind)
    return kinds & plan.observed.children.kinds.keys()


def _without_unrecorded(plan: Plan, parent: Parent, error: Exception) -> Plan:
    """The plan that refuses the manifests that can't be recorded."""
    reason = f"can't be recorded on its parent before it is created: {error}"
    steps = [
        _refused(step, reason) if step.manifest is not None and step.manifest.deleted_by_operator else step
        for step in plan.steps
    ]
    if plan.has_hooks:
        step = Child(action=Action.REFUSE, identity=parent.live.identity)
        steps.append(_refused(step, f"has hooks to finalize, and {reason}"))
    held = f"{plan.hold_message} (after a restart, the operator decides again: {error})" if plan.hold_message else None
    return replace(plan, steps=tuple(steps), hold_message=held)


async def record_once(
    reconcile: Reconcile, records: ParentRecords, outcomes: tuple[Child, ...], now: float
) -> tuple[Child, ...]:
    """Record on the parent the manifests that were applied once. A crash before that leads to another apply."""
    live, before = reconcile.parent.live, reconcile.records
    for outcome in outcomes:
        if not apply_once.is_found(records, outcome) or await _exists(reconcile, outcome):
            records = apply_once.record_outcome(records, outcome, live, now)
    if records.once_records != before.once_records:
        reconcile.state = replace(reconcile.state, unrecorded_once=records.once_records)
        records = apply_once.trim_once_records(records, [outcome.identity for outcome in outcomes])
        try:
            await save_parent_records(reconcile, replace(before, once_records=records.once_records))
        except (ApiError, ParentRecordsError) as error:
            if isinstance(error, ApiError) and not (error.forbidden or error.too_large):
                raise
            return tuple(apply_once.unrecorded_outcome(outcome, str(error)) for outcome in outcomes)
    if reconcile.state.unrecorded_once:
        reconcile.state = replace(reconcile.state, unrecorded_once={})
    return outcomes


async def _exists(reconcile: Reconcile, outcome: Child) -> bool:
    """Whether the API server has the object of an outcome, too. Raises ApiError. After a restore of etcd, the watch may
    show an object that is gone. With its record, it would not be created again.
    """
    identity, live = outcome.identity, outcome.live
    assert live is not None
    try:
        resource = await reconcile.cluster.children.resource(identity.group_kind)
        found = await reconcile.client.find(resource, identity.name, identity.namespace)
    except UnknownKind:
        return False
    except ApiError as error:
        if not error.forbidden:
            raise
        return True
    return found is not None and found.uid == live.uid


async def trim_records(
    reconcile: Reconcile,
    plan: Plan,
    outcomes: tuple[Child, ...],
    obsolete_values: frozenset[Identity],
    obsolete_replicas: frozenset[Identity],
) -> None:
    """Remove from the records the children that are gone, a prune that is no longer held, the objects whose generated
    values no Secret keeps any more, and the numbers of replicas that the new objects have.
    """
    records, shown = reconcile.records, reconcile.cluster.children
    if obsolete_replicas:
        left = {each: kept for each, kept in records.replicas.items() if each not in obsolete_replicas}
        records = replace(records, replicas=left)
    if obsolete_values:
        records = replace(records, kept_values=records.kept_values - obsolete_values)
    if records.held_prune is not None and reconcile.state.renders.held_prune is None:
        records = replace(records, held_prune=None)
    if records.inventory and plan.rendered.complete:
        rendered = {step.identity for step in plan.steps if step.action is not Action.PRUNE}
        children = plan.observed.children
        gone = [
            identity
            for identity in records.inventory.keys() - rendered - children.unreadable.keys()
            if identity.group_kind in children.kinds
            and not shown.is_awaited(identity, reconcile.uid)
            and ((live := children.objects.get(identity)) is None or _is_released(live, reconcile.uid))
        ]
        unrendered = records.inventory.keys() - rendered
        gone += [each for each in unrendered if plan.observed.is_gone(each) or plan.observed.why_home(each)]
        records = with_manifests(records.without_children(gone), (), hooks=plan.has_hooks)
    if records.applied is not None:
        pruned = {each.identity for each in outcomes if each.result is Result.PRUNED}
        deleted = {identity for identity in pruned if identity not in shown}
        records = replace(records, applied=_what_was_applied(reconcile, plan, deleted, records.applied))
    await save_parent_records(reconcile, records)


def _is_released(live: LiveObject, uid: str) -> bool:
    """Whether the parent gave up an object that other parents share."""
    return live.shared is not None and not live.belongs_to(uid)


def _what_was_applied(
    reconcile: Reconcile, plan: Plan, deleted: AbstractSet[Identity], before: AppliedRecord
) -> AppliedRecord:
    """The record without kinds of which there are no children any more, and with the template set of this reconcile if
    this is the first one that applied it completely: two operators would write theirs in turns. `deleted` are the
    children that this reconcile deleted.
    """
    present = {live.identity.group_kind for live in plan.observed.children.own if live.identity not in deleted}
    present |= {step.identity.group_kind for step in plan.steps if step.manifest is not None} | _waiting_kinds(plan)
    kinds = plan.observed.children.kinds
    absent = {kind for kind in before.kinds - present if kind in kinds and kinds[kind].shown}
    templates = plan.rendered.digest if reconcile.newly_converged else before.templates
    found = present if before.incomplete else frozenset()
    incomplete = before.incomplete and bool(reconcile.state.kinds_unknown or reconcile.state.unseen_kinds)
    return replace(before, kinds=(before.kinds | found) - absent, templates=templates, incomplete=incomplete)


_APPLYING = frozenset({Action.APPLY, Action.UNCHANGED, Action.RECREATE})


def _refused(step: Child, reason: str) -> Child:
    return replace(step, action=Action.REFUSE, reason=reason, problem=FailureReason.APPLY_FAILED)
