"""Writing what the operator keeps on a parent itself: the inventory, what was applied once, held deletions, the
finalizer.

Promises:
- Nothing is written where the parent says it already.
- Our own write wakes nobody, and never brings a parent back that is gone.
- What has to be on record before it is made, and can't be, is not made.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.controller.reconcile.cluster_access import Cluster
from ssa_operator.controller.reconcile.parent_cache import Memory, Subject
from ssa_operator.core.policies import apply_once as once
from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.planning.outcome import Outcome
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.planning.step import Action, Problem, Step
from ssa_operator.core.policies.parent_records import MANAGER, Records, RecordsError, read, recorded, written
from ssa_operator.kube.api.errors import ApiError


async def keep(cluster: Cluster, subject: Subject, records: Records) -> Subject:
    """Have the parent keep these records; returns it as it is then.

    Raises ApiError (`not_found` or `conflict` where the parent is gone), and RecordsError where they don't fit.
    """
    parent = subject.parent
    if read(parent) == records:
        return subject
    namespace, name = parent.identity.namespace, parent.identity.name
    body = encode(written(parent, records))
    with subject.cache.writing(namespace, name):
        kept = (await cluster.client.apply(subject.resource, namespace, name, body, manager=MANAGER)).live
        if kept.metadata.finalizers or not kept.deleting:
            subject.cache.written(kept)
    return replace(subject, parent=kept)


async def record(
    cluster: Cluster, subject: Subject, plan: Plan, records: Records, *, hooks: bool
) -> tuple[Subject, Plan]:
    """Keep on the parent what has to outlive us, before anything is made; what can't be recorded is not made."""
    made = [step.manifest for step in plan.steps if step.manifest is not None and step.action in _MAKING]
    wanted = replace(recorded(records, made, hooks=hooks), held=plan.hold)
    try:
        return await keep(cluster, subject, wanted), plan
    except (ApiError, RecordsError) as error:
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


async def note(
    cluster: Cluster, subject: Subject, memory: Memory, records: Records, outcomes: tuple[Outcome, ...], now: float
) -> tuple[Subject, tuple[Outcome, ...]]:
    """Put on record what was made once, as soon as it was: what goes before is made again after a crash."""
    for outcome in outcomes:
        records = once.noted(records, outcome, subject.parent, now)
    if records.once == read(subject.parent).once:
        memory.once = {}
        return subject, outcomes
    memory.once = records.once
    records = once.without_forgotten(records, [outcome.step.identity for outcome in outcomes])
    try:
        subject = await keep(cluster, subject, replace(read(subject.parent), once=records.once))
    except (ApiError, RecordsError) as error:
        if isinstance(error, ApiError) and not error.forbidden:
            raise
        return subject, tuple(once.unrecorded(outcome, str(error)) for outcome in outcomes)
    memory.once = {}
    return subject, outcomes


async def let_go(cluster: Cluster, subject: Subject, memory: Memory, plan: Plan, *, hooks: bool) -> Subject:
    """Take what is gone for good off the records, and what is held no more."""
    records = read(subject.parent)
    if records.held is not None and memory.hold is None:
        records = replace(records, held=None)
    if not records.inventory or not plan.rendered.complete:
        return await keep(cluster, subject, records)
    children = cluster.children
    rendered = {step.identity for step in plan.steps if step.action is not Action.PRUNE}
    kinds = children.kinds
    gone = [
        identity
        for identity in records.inventory.keys() - rendered
        if identity.group_kind in kinds and kinds[identity.group_kind].synced and identity not in children
    ]
    records = recorded(records.without_children(gone), (), hooks=hooks)
    return await keep(cluster, subject, records)


_MAKING = frozenset({Action.APPLY, Action.UNCHANGED, Action.RECREATE})


def _refused(step: Step, reason: str) -> Step:
    return replace(step, action=Action.REFUSE, reason=reason, problem=Problem.APPLY_FAILED)
