"""Plans the deletion of a parent that the finalizer keeps: its finalize hooks first, then the objects that the garbage
collector doesn't delete.

Promises:
- A reconcile of a deletion applies no ordinary manifest.
- After the hooks, the operator deletes the objects of the inventory in the reverse order of their creation, and only
  those that still carry our label.
- Another reconcile follows at once only where this one completed a step that the next one waits for.
- A template that can't be rendered doesn't block the deletion: its hooks are skipped.
- Before the first object is deleted, the parent shows that its children are being deleted (reconcile.orphaning.rules):
  by a child that keeps its owner reference until the parent is gone, or else by a record.

How it works:
No phase of the deletion is stored. Each reconcile makes the whole plan again from the objects that exist and from two
records on the parent: the inventory, and the hooks that are done. So a process that takes over goes on at the same
point.

1. While a hook is not done, the hooks have the steps of ordinary manifests, and every object that has to be deleted is
   kept. A hook that can't run any more is left out. A Job that failed is recreated when its backoff has passed.
2. When all hooks are done, they are recorded as done before anything is deleted, because the object of a hook may
   disappear by itself. Then an object gets the action PRUNE once nothing needs it: no dependent of it exists, and, for
   objects without an order of the templates, none of a later wave.
3. When the hooks are done and no such object is left, nothing keeps the parent.

An object leaves the plan only when a watch that has synced, or a read, shows that it is gone or has lost the label of
the parent, or when the CRD of its kind was deleted. An object that may exist is waited for. Three cases end this wait
nevertheless, because it would have no end: the deletion of the object may wait for the parent itself (`home_is_ending`,
reconcile.finalization.deletion_cycles), its namespace has ended, or it can't be read in a namespace that ends. If the
operator may not read what decides this, the wait goes on and `needs_person` says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.api.backoff import earliest
from ssa_operator.objects.dependency_graph import graph
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import FOREGROUND
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.finalization.deletion_cycles import may_wait_for_parents
from ssa_operator.reconcile.finalization.hooks import DONE, is_done, is_failed_job, order_hooks, plan_hooks
from ssa_operator.reconcile.finalization.stuck_deletions import deletion_text
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.orphaning.rules import proves_deletion
from ssa_operator.reconcile.parent_records.rules import HOOK, ParentRecords, identity_key
from ssa_operator.reconcile.plan import Plan, identity_of, step_for_document, step_for_wait
from ssa_operator.reconcile.prune.rules import is_owned

_AFTER_HOOKS = "is deleted after the finalize hooks"


class Finalization(Struct, frozen=True, kw_only=True):
    """The plan of one reconcile of a parent that is being deleted."""

    plan: Plan
    records: ParentRecords
    """The records that the parent has to keep before the plan is carried out."""
    hooks_done: bool
    """Whether every finalize hook is done."""
    finished: bool
    """Whether nothing keeps the parent any more, so that the finalizer can be removed."""
    awaited: str
    """What keeps the parent, as the condition reports it."""
    skipped_hooks: tuple[str, ...] = ()
    """The finalize hooks that can't run any more, each with the reason."""
    blocking_namespaces: frozenset[str] = frozenset()
    """The namespaces of hooks that are not done, and of objects that can't be read. Their end ends the wait."""
    awaits_parents: bool = False
    """Whether the parent waits for an object in deletion that may wait for parents."""
    needs_person: bool = False
    """Whether an object can't be read, so that no event may end the wait."""


def make_finalization(
    observed: Observed, rendered: Rendered, now: float, *, home_is_ending: bool = False
) -> Finalization:
    """The plan of one reconcile; `rendered` is the whole render of the templates, `now` in seconds since the epoch.
    `home_is_ending`: whether what the parent, or one above it, lives in is being deleted.
    """
    standing, rendered = rendered.without_hooks, rendered.finalizing
    unreadable = observed.children.unreadable
    planned_hooks = plan_hooks(observed, rendered, now)
    hooks = planned_hooks.steps
    undone = [step for step in hooks if step.reason != DONE]
    hooks_done = not undone
    deletions = _deletion_steps(observed, standing, hooks_done, {step.identity for step in hooks}, home_is_ending)
    to_delete = {step.identity for step in deletions}
    planned = {step.identity for step in hooks} | to_delete
    others = [
        Child(action=Action.KEEP, identity=live.identity, live=live, reason=_why_it_remains(observed, live))
        for live in observed.children.own
        if live.identity not in planned
    ]
    running = [step for step in hooks if step.identity not in to_delete]
    running = order_hooks(running, [*deletions, *others], rendered)
    rendered = dataclasses.replace(rendered, again_at=earliest(rendered.again_at, planned_hooks.again_at))
    after_hooks = [step for step in deletions if step.reason == _AFTER_HOOKS]
    awaited = [f"{step.identity} {step.reason}" for step in (*undone, *deletions) if step not in after_hooks]
    unknown = [step for step in deletions if step.action is Action.REFUSE or step.identity in unreadable]
    if after_hooks:
        awaited.append(f"children that are deleted after the finalize hooks: {len(after_hooks)}")
    return Finalization(
        plan=Plan(steps=(*running, *deletions, *others), rendered=rendered, observed=observed),
        records=_records_before_acting(
            observed, hooks, begins=hooks_done and bool(deletions), proven=_is_proven(observed, others)
        ),
        hooks_done=hooks_done,
        finished=hooks_done and not deletions,
        awaited="; ".join(awaited),
        skipped_hooks=planned_hooks.skipped,
        blocking_namespaces=frozenset(step.identity.namespace for step in (*undone, *unknown)) - {""},
        awaits_parents=any(map(_may_wait_for_parents, deletions)),
        needs_person=bool(unknown),
    )


def advances_deletion(outcomes: Iterable[Child], now: float) -> bool:
    """Whether a reconcile completed a step that the next step of the deletion waits for: it deleted an object, or left
    it to its other owners, or the apply of a hook returned it done or failed. No watch event reports what a response of
    the API server has already shown. A deletion that the caches don't show yet ends with its watch event.
    """
    return any(
        outcome.gone
        or (
            outcome.action is Action.APPLY
            and outcome.result is not Result.FAILED
            and outcome.result is not Result.WAITING
            and outcome.live is not None
            and not outcome.live.deleting
            and (is_done(outcome, outcome.live, now) or is_failed_job(outcome.live, now))
        )
        for outcome in outcomes
    )


def _deletion_steps(
    observed: Observed,
    standing: Rendered,
    hooks_done: bool,
    hooks: AbstractSet[Identity],
    home_is_ending: bool,
) -> list[Child]:
    """A step for each object that must be deleted before the parent. An object that another one still needs is kept.

    These are the objects of the inventory, those that have lost their owner reference, and those that the garbage
    collector would delete in no order although others depend on them. Objects that the templates put in an order are
    deleted in the reverse order. The others are deleted by the waves of their creation, the last wave first. A hook
    that is in the inventory is deleted when all hooks are done.
    """
    dependencies = _dependencies(observed, standing)
    linked = {end for identity, targets in dependencies.items() for end in (identity, *targets) if targets}
    uid = observed.parent.uid
    owned = [live.identity for live in observed.children.own if live.identity in linked and is_owned(live, uid)]
    lost = _without_reference(observed, standing)
    linked |= {*lost}
    recorded = [identity for wave in observed.records.waves for identity in wave if hooks_done or identity not in hooks]
    candidates = [each for each in dict.fromkeys([*recorded, *owned, *lost]) if not observed.why_kept(each)]
    steps = [step for identity in candidates if (step := _deletion_step(observed, identity))]
    steps = [step for step in steps if not (home_is_ending and _may_wait_for_parents(step))]
    if not hooks_done:
        return [_keep(step, _AFTER_HOOKS) for step in steps]
    earlier = _deleted_earlier(observed, [step.identity for step in steps], dependencies, linked)
    return [
        _keep(step, f"is deleted after {earlier[step.identity]}") if step.identity in earlier else step
        for step in steps
    ]


def _without_reference(observed: Observed, standing: Rendered) -> list[Identity]:
    """The children whose manifests get an owner reference, and which another client took it from."""
    steps = [step_for_document(observed, document) for document in standing.documents]
    owned = [step.live for step in steps if step.manifest is not None and step.manifest.owned and step.live is not None]
    uid = observed.parent.uid
    return [live.identity for live in owned if live.belongs_to(uid) and live.owned_fields() and not is_owned(live, uid)]


def _may_wait_for_parents(step: Child) -> bool:
    return step.live is not None and may_wait_for_parents(step.live)


def _deleted_earlier(
    observed: Observed,
    existing: Sequence[Identity],
    dependencies: Mapping[Identity, Sequence[Identity]],
    linked: AbstractSet[Identity],
) -> dict[Identity, Identity]:
    """For each object that has to wait, an object that is deleted before it: its dependent, or one of a later wave."""
    earlier: dict[Identity, Identity] = {}
    for identity in existing:
        for target in dependencies.get(identity, ()):
            earlier.setdefault(target, identity)
    wave_of = observed.records.inventory
    unlinked = [identity for identity in existing if identity not in linked]
    last = max((wave_of[identity] for identity in unlinked), default=0)
    for identity in unlinked:
        if wave_of[identity] < last:
            earlier[identity] = next(each for each in unlinked if wave_of[each] == last)
    return earlier


def _dependencies(observed: Observed, standing: Rendered) -> dict[Identity, tuple[Identity, ...]]:
    """The manifests that each manifest depends on, without those that are in a cycle or behind one."""
    documents = [(identity_of(observed, document), document.dependencies) for document in standing.documents]
    waits = [
        (step_for_wait(observed, wait, wait.identity).identity, wait.dependencies)
        for wait in standing.waits
        if wait.identity
    ]
    found = graph([*documents, *waits])
    acyclic = {identity for wave in found.waves() for identity in wave}
    return {identity: found.targets[identity] for identity in acyclic}


def _keep(step: Child, reason: str) -> Child:
    return replace(step, action=Action.KEEP, reason=reason) if step.action is Action.PRUNE else step


def _deletion_step(observed: Observed, identity: Identity) -> Child | None:
    """The step of one object that has to be deleted, None if the parent has no such object any more."""
    kind = observed.children.kinds.get(identity.group_kind)
    if kind is None:
        why = observed.children.unserved.get(identity)
        return _unreachable_step(identity, f"may exist: {why}") if why else None
    watch = kind.within(identity.namespace)
    live = observed.children.objects.get(identity)
    if _goes_with_namespace(observed, identity, live, watch):
        return None
    if watch.problem and (live is not None or not watch.was_synced):
        return _unreachable_step(identity, watch.problem, needs_permission=watch.needs_permission)
    if not watch.synced and not watch.problem:
        reason = f"waits: the watch of {identity.group_kind} is not synced yet"
        return Child(action=Action.WAIT, identity=identity, reason=reason)
    if live is None and _may_exist(observed, identity):
        reason = f"waits: it may exist, and can't be read: {observed.children.unreadable[identity]}"
        return Child(action=Action.WAIT, identity=identity, reason=reason)
    if live is None or not live.belongs_to(observed.parent.uid):
        return None
    if live.deleting:
        return Child(action=Action.KEEP, identity=identity, live=live, reason=deletion_text(live))
    return Child(action=Action.PRUNE, identity=identity, live=live, reason="is deleted with its parent")


def _unreachable_step(identity: Identity, why: str, *, needs_permission: bool = False) -> Child:
    """The step of an object that can't be seen now."""
    problem = FailureReason.APPLY_FAILED
    return Child(
        action=Action.REFUSE, identity=identity, reason=why, problem=problem, needs_permission=needs_permission
    )


def _goes_with_namespace(observed: Observed, identity: Identity, live: LiveObject | None, watch: KindState) -> bool:
    """Whether nothing has to be done for an object, because its namespace ends: it is gone, or it goes unseen."""
    ending = observed.ending_namespaces.get(identity.namespace)
    if ending is None:
        return False
    unseen = bool(watch.problem) or (live is None and identity in observed.children.unreadable)
    return unseen or (ending.is_gone and not ending.accepts_objects)


def _may_exist(observed: Observed, identity: Identity) -> bool:
    """Whether an object that no watch shows may exist all the same, because it can't be read. The watch counts where
    the object may not be read; under `--shard`, it shows only objects with the label of the shard.
    """
    children = observed.children
    return identity in children.unreadable and (observed.sharded or identity not in children.forbidden)


def _why_it_remains(observed: Observed, live: LiveObject) -> str:
    why = observed.why_kept(live.identity)
    return f"stays: {why}" if why else "remains until its parent is deleted"


def _is_proven(observed: Observed, others: Iterable[Child]) -> bool:
    """Whether another process will see by these children that the deletion takes them along, until the parent is
    gone.
    """
    if FOREGROUND in observed.parent.metadata.finalizers:
        return False
    lives = (step.live for step in others if step.live is not None and not step.live.deleting)
    return any(proves_deletion(live, observed.parent) for live in lives)


def _records_before_acting(observed: Observed, hooks: Sequence[Child], *, begins: bool, proven: bool) -> ParentRecords:
    """The records that the parent has to keep before the plan is carried out. `begins`: whether objects are deleted.

    Hooks are recorded as done before the first object is deleted: a Job that its TTL removes meanwhile must not run
    again. Without hooks, the record alone shows the next process that the deletion has begun.
    """
    records = observed.records.with_children(
        step.identity for step in hooks if step.manifest is not None and step.manifest.deleted_by_operator
    )
    if begins:
        done = {HOOK + identity_key(step.identity): DONE for step in hooks}
        if not (done or proven or records.deletes_children):
            done = {HOOK: DONE}
        records = replace(records, once_records={**records.once_records, **done})
    return records
