"""Writing what the operator keeps on a parent itself: the inventory, what was applied once, held deletions, the
finalizer.

Promises:
- Nothing is written where the parent says it already.
- Our own write wakes nobody, and never brings a parent back that is gone.
- What has to be on record before it is made, and can't be, is not made.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.watches.parent_cache import Memory, Parent
from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.planning import once_outcomes
from ssa_operator.core.planning.outcome import Outcome
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.planning.step import Action, FailureReason, Step
from ssa_operator.core.policies import apply_once
from ssa_operator.core.policies.parent_records import (
    MANAGER,
    ParentRecords,
    ParentRecordsError,
    parent_records_body,
    read_parent_records,
    with_manifests,
)
from ssa_operator.kube.api.errors import ApiError


async def save_parent_records(cluster: ClusterAccess, subject: Parent, records: ParentRecords) -> Parent:
    """Have the parent keep these records; returns it as it is then.

    Raises ApiError (`not_found` or `conflict` where the parent is gone), and RecordsError where they don't fit.
    """
    parent = subject.parent
    if read_parent_records(parent) == records:
        return subject
    namespace, name = parent.identity.namespace, parent.identity.name
    body = encode(parent_records_body(parent, records))
    with subject.cache.writing(namespace, name):
        kept = (await cluster.client.apply(subject.resource, namespace, name, body, manager=MANAGER)).live
        if kept.metadata.finalizers or not kept.deleting:
            subject.cache.written(kept)
    return replace(subject, parent=kept)


async def record_before_apply(
    cluster: ClusterAccess, subject: Parent, plan: Plan, records: ParentRecords, *, hooks: bool
) -> tuple[Parent, Plan]:
    """Keep on the parent what has to outlive us, before anything is made; what can't be recorded is not made."""
    made = [step.manifest for step in plan.steps if step.manifest is not None and step.action in _MAKING]
    wanted = replace(with_manifests(records, made, hooks=hooks), held_prune=plan.hold)
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
    if records.once_records == read_parent_records(subject.parent).once_records:
        memory.once = {}
        return subject, outcomes
    memory.once = records.once_records
    records = apply_once.trim_once_records(records, [outcome.step.identity for outcome in outcomes])
    try:
        subject = await save_parent_records(
            cluster, subject, replace(read_parent_records(subject.parent), once_records=records.once_records)
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
    if records.held_prune is not None and memory.hold is None:
        records = replace(records, held_prune=None)
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
