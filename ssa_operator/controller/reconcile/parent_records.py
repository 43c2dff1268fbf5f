"""Writing what the operator keeps on a parent itself: the inventory, what was applied once, held deletions, the
finalizer.

Promises:
- Nothing is written where the parent says it already.
- Our own write wakes nobody, and never brings a parent back that is gone.
- What the parent needs no more is removed, also where other field managers own it.
- What has to be on record before it is made, and can't be, is not made.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.watches.parent_cache import Memory, Parent
from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning import once_outcomes
from ssa_operator.core.planning.outcome import Outcome
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.planning.step import Action, FailureReason, Step
from ssa_operator.core.policies import apply_once
from ssa_operator.core.policies.parent_records import (
    MANAGER,
    ParentRecords,
    ParentRecordsError,
    is_written,
    parent_records_body,
    read_parent_records,
    removal,
    with_manifests,
)
from ssa_operator.kube.api.errors import ApiError, StatusError

ATTEMPTS = 4
"""How often a pass sends a removal to a parent that others change meanwhile; after that the next pass does."""


async def save_parent_records(cluster: ClusterAccess, subject: Parent, records: ParentRecords) -> Parent:
    """Have the parent keep these records; returns it as it is then.

    Raises ApiError (`not_found` or `conflict` where the parent is gone, `conflict` also where others keep changing it),
    and RecordsError where they don't fit.
    """
    parent = subject.parent
    if read_parent_records(parent) == records:
        return subject
    body = parent_records_body(parent, records)
    if not is_written(parent, body):
        namespace, name = parent.identity.namespace, parent.identity.name
        with subject.cache.writing(namespace, name):
            applied = await cluster.client.apply(subject.resource, namespace, name, encode(body), manager=MANAGER)
            subject = _kept(subject, applied.live)
    return await _remove(cluster, subject, records)


async def _remove(cluster: ClusterAccess, subject: Parent, records: ParentRecords) -> Parent:
    """Remove from the parent what these records don't need. A parent that is gone has nothing of it left."""
    known = read_parent_records(subject.parent)
    namespace, name = subject.parent.identity.namespace, subject.parent.identity.name
    for _ in range(ATTEMPTS):
        patch = removal(subject.parent, records)
        if patch is None:
            return subject
        try:
            with subject.cache.writing(namespace, name):
                live = await cluster.client.json_patch(subject.resource, namespace, name, patch, manager=MANAGER)
                return _kept(subject, live)
        except ApiError as error:
            if error.not_found:
                return subject
            if not (error.conflict or error.invalid):
                raise
            refused = error
        now = await _read_again(cluster, subject)
        if now is None:
            return subject
        if now.resource_version == subject.parent.resource_version:
            raise refused  # for another reason than a test: the parent is as it was tested to be
        if read_parent_records(now) != known:
            break  # others wrote records: the next pass decides from these
        subject = replace(subject, parent=now)
    # A failed test is answered like an invalid request, which would not be sent again.
    raise ApiError(
        refused.request, StatusError(code=409, reason="Conflict", message="the parent was changed meanwhile")
    )


async def _read_again(cluster: ClusterAccess, subject: Parent) -> LiveObject | None:
    """The parent as the API server has it now, None where it is gone."""
    identity = subject.parent.identity
    try:
        live = await cluster.client.get(subject.resource, identity.name, identity.namespace)
    except ApiError as error:
        if error.not_found:
            return None
        raise
    return live if live.uid == subject.parent.uid else None


def _kept(subject: Parent, parent: LiveObject) -> Parent:
    """The subject with the parent that a write returned."""
    if parent.metadata.finalizers or not parent.deleting:
        subject.cache.written(parent)
    return replace(subject, parent=parent)


async def record_before_apply(
    cluster: ClusterAccess, subject: Parent, plan: Plan, records: ParentRecords, *, hooks: bool
) -> tuple[Parent, Plan]:
    """Keep on the parent what has to outlive us, before anything is made; what can't be recorded is not made."""
    made = [step.manifest for step in plan.steps if step.manifest is not None and step.action in _MAKING]
    wanted = replace(with_manifests(records, made, hooks=hooks), held=plan.hold)
    try:
        return await save_parent_records(cluster, subject, wanted), plan
    except (ApiError, ParentRecordsError) as error:
        if isinstance(error, ApiError) and not error.forbidden:
            raise
        reason = f"can't be recorded on its parent before it is made: {error}"
        steps = [
            _refused(step, reason) if step.manifest is not None and step.manifest.needs_record else step
            for step in plan.steps
        ]
        if hooks:
            identity = subject.parent.identity
            steps.append(
                _refused(Step(action=Action.REFUSE, identity=identity), f"has hooks to finalize, and {reason}")
            )
        held = f"{plan.held} (an operator that starts anew judges it anew: {error})" if plan.held else ""
        return subject, replace(plan, steps=tuple(steps), held=held)


async def record_once(
    cluster: ClusterAccess,
    subject: Parent,
    memory: Memory,
    records: ParentRecords,
    outcomes: tuple[Outcome, ...],
    now: float,
) -> tuple[Parent, tuple[Outcome, ...]]:
    """Put on record what was made once, as soon as it was: what goes before is made again after a crash."""
    for outcome in outcomes:
        records = once_outcomes.record_outcome(records, outcome, subject.parent, now)
    if records.once == read_parent_records(subject.parent).once:
        memory.once = {}
        return subject, outcomes
    memory.once = records.once
    records = apply_once.trim_once_records(records, [outcome.step.identity for outcome in outcomes])
    try:
        subject = await save_parent_records(
            cluster, subject, replace(read_parent_records(subject.parent), once=records.once)
        )
    except (ApiError, ParentRecordsError) as error:
        if isinstance(error, ApiError) and not error.forbidden:
            raise
        return subject, tuple(once_outcomes.unrecorded_outcome(outcome, str(error)) for outcome in outcomes)
    memory.once = {}
    return subject, outcomes


async def trim_inventory(cluster: ClusterAccess, subject: Parent, memory: Memory, plan: Plan, *, hooks: bool) -> Parent:
    """Take what is gone for good off the records, and what is held no more."""
    records = read_parent_records(subject.parent)
    if records.held is not None and memory.hold is None:
        records = replace(records, held=None)
    if not records.inventory or not plan.rendered.complete:
        return await save_parent_records(cluster, subject, records)
    children = cluster.children
    rendered = {step.identity for step in plan.steps if step.action is not Action.PRUNE}
    kinds = children.kinds
    gone = [
        identity
        for identity in records.inventory.keys() - rendered
        if identity.group_kind in kinds and kinds[identity.group_kind].synced and identity not in children
    ]
    records = with_manifests(records.without_children(gone), (), hooks=hooks)
    return await save_parent_records(cluster, subject, records)


_MAKING = frozenset({Action.APPLY, Action.UNCHANGED, Action.RECREATE})


def _refused(step: Step, reason: str) -> Step:
    return replace(step, action=Action.REFUSE, reason=reason, problem=FailureReason.APPLY_FAILED)
