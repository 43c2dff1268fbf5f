"""Plans the deletion of a parent that the finalizer keeps: its finalize hooks first, then the objects that the garbage
collector doesn't delete.

Promises:
- A reconcile of a deletion applies no ordinary manifest.
- The finalize hooks are applied while the other children still exist. Each must become ready, and a Job complete. A
  failed Job is recreated after a backoff.
- After the hooks, the operator deletes the objects of the inventory in the reverse order of their creation, and only
  those that still carry our label.
- Another reconcile follows at once only where this one completed a step that the next one waits for.
- A template that can't be rendered doesn't block the deletion: its hooks are skipped.
- What the parent lives in is not deleted. An object whose end waits for the parent is deleted, and its end not awaited.
- What can't be read or created in a namespace that ends doesn't block the deletion.
- Children that the garbage collector has orphaned are left behind (reconcile.orphaning.rules).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.kube.api.backoff import backoff, earliest
from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.dependency_graph import graph
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kind_state import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness.rules import ReadinessState, readiness
from ssa_operator.objects.render_result import Rendered
from ssa_operator.objects.timestamps import seconds_of
from ssa_operator.reconcile.document_steps import identity_of, step_for_document, step_for_wait
from ssa_operator.reconcile.finalization.deletion_cycles import may_wait_for_parents
from ssa_operator.reconcile.finalization.stuck_deletions import deletion_text
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.ordering import order_steps
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.parent_records.rules import HOOK, ParentRecords, identity_key
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.prune.rules import is_owned
from ssa_operator.reconcile.step import Action, FailureReason, Step

HOOK_BACKOFF_OFFSET = 5
"""Failures that the backoff of a failed hook starts with, so that its first pause is 8 s: the Job has retried by its
own backoffLimit before."""

_JOB = GroupKind("batch", "Job")
_AFTER_HOOKS = "is deleted after the finalize hooks"
_DONE = "done"


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
    awaited_ends: tuple[LiveObject, ...] = ()
    """The objects in deletion whose end the parent waits for, and that may wait for parents."""
    needs_person: bool = False
    """Whether an object can't be read, so that no event may end the wait."""


class DeletionContext(Struct, frozen=True, kw_only=True):
    """What the plan of a deletion depends on, beside the observed state."""

    now: float
    """Seconds since the epoch."""
    failures: Mapping[Identity, int] = field(default_factory=dict)
    """How often each hook's Job was recreated because it failed."""
    cycles: Mapping[Identity, str] = field(default_factory=dict)
    """The objects whose end waits for the end of the parent, each with the path."""
    unread: Mapping[Identity, str] = field(default_factory=dict)
    """The objects whose end may wait for the end of the parent, each with the reason why that is unknown."""


def make_finalization(observed: Observed, rendered: Rendered, context: DeletionContext) -> Finalization:
    """The plan of one reconcile; `rendered` is everything that the templates gave."""
    standing, rendered = rendered.without_hooks, rendered.finalizing
    unreadable = observed.children.unreadable
    hooks, again_at = _hook_steps(observed, rendered, context)
    hooks, skipped = _skip_impossible(observed, hooks)
    undone = [step for step in hooks if step.reason != _DONE]
    hooks_done = not undone
    deletions = _deletion_steps(observed, standing, hooks_done, {step.identity for step in hooks}, context)
    to_delete = {step.identity for step in deletions}
    planned = {step.identity for step in hooks} | to_delete
    others = [
        Step(action=Action.KEEP, identity=live.identity, live=live, reason=_why_it_remains(observed, live))
        for live in observed.children.own
        if live.identity not in planned
    ]
    running = [step for step in hooks if step.identity not in to_delete]
    running = _order_hooks(running, [*deletions, *others], rendered)
    rendered = dataclasses.replace(rendered, again_at=earliest(rendered.again_at, again_at))
    after_hooks = [step for step in deletions if step.reason == _AFTER_HOOKS]
    awaited = [f"{step.identity} {step.reason}" for step in (*undone, *deletions) if step not in after_hooks]
    unknown = [step for step in deletions if step.action is Action.REFUSE or step.identity in unreadable]
    if after_hooks:
        awaited.append(f"children that are deleted after the finalize hooks: {len(after_hooks)}")
    return Finalization(
        plan=Plan(steps=(*running, *deletions, *others), rendered=rendered, observed=observed),
        records=_records_before_acting(observed, hooks, hooks_done=hooks_done and bool(deletions)),
        hooks_done=hooks_done,
        finished=hooks_done and not deletions,
        awaited="; ".join(awaited),
        skipped_hooks=skipped,
        blocking_namespaces=frozenset(step.identity.namespace for step in (*undone, *unknown)) - {""},
        awaited_ends=tuple(
            live
            for step in deletions
            if (live := step.live) is not None and live.deleting and may_wait_for_parents(live)
        ),
        needs_person=bool(unknown) or any(step.identity in context.unread for step in deletions),
    )


def was_orphaned(observed: Observed, rendered: Rendered) -> bool:
    """Whether the garbage collector has orphaned the parent's children: none of those that the templates give an owner
    reference has it.
    """
    steps = (step_for_document(observed, document) for document in rendered.without_hooks.documents)
    owned = [
        step.live
        for step in steps
        if step.manifest is not None and step.manifest.owned and step.live is not None and step.live.owned_fields()
    ]
    children = [live for live in owned if live.parent_uid == observed.parent.uid]
    return bool(children) and not any(map(is_owned, children))


def advances_deletion(outcomes: Iterable[Outcome], now: float) -> bool:
    """Whether a reconcile completed a step that the next step of the deletion waits for: it deleted an object, or the
    apply of a hook returned it done or failed. No watch event reports what a response of the API server has already
    shown. A deletion that the caches don't show yet ends with its watch event.
    """
    return any(
        outcome.result is Result.PRUNED
        or (
            outcome.step.action is Action.APPLY
            and outcome.result is not Result.FAILED
            and outcome.result is not Result.WAITING
            and outcome.live is not None
            and not outcome.live.deleting
            and (_is_done(outcome.step, outcome.live, now) or _is_failed_job(outcome.live, now))
        )
        for outcome in outcomes
    )


def _hook_steps(observed: Observed, rendered: Rendered, context: DeletionContext) -> tuple[list[Step], float | None]:
    """The step of each hook, and when the next one has to be planned again."""
    found = [_hook_step(observed, step_for_document(observed, document), context) for document in rendered.documents]
    waiting = [
        _keep_if_done(observed, step_for_wait(observed, wait, wait.identity))
        for wait in rendered.waits
        if wait.identity is not None
    ]
    return [*(step for step, _ in found), *waiting], earliest(*(again_at for _, again_at in found))


def _order_hooks(hooks: Sequence[Step], others: Sequence[Step], rendered: Rendered) -> list[Step]:
    """The hooks, each with the steps that come before it: other hooks, or children that still exist."""
    dependencies = {
        (each.body["kind"], each.body["metadata"]["name"]): each.dependencies for each in rendered.documents
    }
    dependencies |= {
        (each.identity.kind, each.identity.name): each.dependencies for each in rendered.waits if each.identity
    }
    own = [dependencies.get((step.identity.kind, step.identity.name), ()) for step in hooks]
    found = order_steps([*hooks, *others], [*own, *(() for _ in others)], rendered)[: len(hooks)]
    # A child that doesn't exist is not created any more, so nothing waits for it.
    return [replace(step, order=replace(step.order, missing=())) for step in found]


def _skip_impossible(observed: Observed, hooks: Sequence[Step]) -> tuple[list[Step], tuple[str, ...]]:
    """The hooks that can run, and why the others can't: no ordinary child is created any more, and nothing at all in a
    namespace that is being deleted.
    """
    skipped: dict[Identity, str] = {}
    for step in hooks:
        namespace = step.identity.namespace
        ending = observed.ending_namespaces.get(namespace)
        if ending is not None and not ending.accepts_objects and step.reason != _DONE:
            skipped[step.identity] = f"nothing can be created in namespace {namespace}, which {ending.reason}"
    existing = {(live.identity.kind, live.identity.name) for live in observed.children.own if not live.deleting}
    while True:
        possible = [step for step in hooks if step.identity not in skipped]
        available = existing | {(step.identity.kind, step.identity.name) for step in possible}
        missing = {step.identity: child for step in possible if (child := _missing_input(observed, step, available))}
        if not missing:
            return possible, tuple(f"{identity}: {reason}" for identity, reason in skipped.items())
        skipped |= {identity: f"it reads {child}, which does not exist" for identity, child in missing.items()}


def _missing_input(observed: Observed, step: Step, available: AbstractSet[tuple[str, str]]) -> str:
    """The child that a waiting hook reads and that will never exist, '' where there is none."""
    if step.action is not Action.WAIT:
        return ""
    children = [each.query for each in step.order.awaited if isinstance(each.query, Reference)]
    missing = (child for child in children if (child.kind, child.name) not in available)
    return next((str(child) for child in missing if _is_synced(observed, child.kind)), "")


def _is_synced(observed: Observed, name: str) -> bool:
    """Whether the watches of all kinds of that name have synced. Before that, a child that no cache shows may exist."""
    states = [state for kind, state in observed.children.kinds.items() if kind.kind == name]
    return bool(states) and all(state.synced for state in states)


def _keep_if_done(observed: Observed, step: Step) -> Step:
    """The step of a hook. A hook that is recorded as done is not applied again."""
    if observed.records.once_records.get(HOOK + identity_key(step.identity)) != _DONE:
        return step
    return replace(step, action=Action.KEEP, reason=_DONE)


def _hook_step(observed: Observed, step: Step, context: DeletionContext) -> tuple[Step, float | None]:
    """The step of a hook, and when it has to be planned again."""
    now, done = context.now, _keep_if_done(observed, step)
    if done is not step:
        return done, None
    live = step.live
    if step.manifest is None or live is None or live.deleting or live.parent_uid != observed.parent.uid:
        return step, None
    if step.action not in (Action.APPLY, Action.UNCHANGED):
        return step, None
    if _is_done(step, live, now):
        return replace(step, action=Action.UNCHANGED, reason=_DONE), None
    found = step.readiness_of(live, now)
    if not _is_failed_job(live, now):
        # The condition of the parent reports the readiness of the hook.
        return replace(step, reason=found.message or step.reason), found.again_at
    reason = f"{found.message}; it is recreated"
    due = _failed_at(live.body, now) + backoff(context.failures.get(step.identity, 0) + HOOK_BACKOFF_OFFSET, 0.0)
    if now < due:
        return replace(step, action=Action.UNCHANGED, reason=reason), due
    return replace(step, action=Action.RECREATE, reason=reason), None


def _is_done(step: Step, live: LiveObject, now: float) -> bool:
    """Whether a hook is done: its object is ready, or its manifest says `wait: "false"`."""
    if step.manifest is not None and not step.manifest.instructions.wait:
        return True
    return step.readiness_of(live, now).state is ReadinessState.CURRENT


def _is_failed_job(live: LiveObject, now: float) -> bool:
    """Whether a hook's object is a failed Job, which has to be recreated."""
    return live.identity.group_kind == _JOB and readiness(live.body, now).state is ReadinessState.FAILED


def _failed_at(body: Mapping[str, object], now: float) -> float:
    """When a Job failed; `now` where its condition doesn't report it."""
    status = body.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and condition.get("type") == "Failed":
            failed_at = seconds_of(condition.get("lastTransitionTime"))
            return now if failed_at is None else failed_at
    return now


def _deletion_steps(
    observed: Observed,
    standing: Rendered,
    hooks_done: bool,
    hooks: AbstractSet[Identity],
    context: DeletionContext,
) -> list[Step]:
    """A step for each object that must be deleted before the parent. An object that another one still needs is kept.

    These are the objects of the inventory, and those that the garbage collector would delete in no order although
    others depend on them. Objects that the templates put in an order are deleted in the reverse order. The others are
    deleted by the waves of their creation, the last wave first. A hook that is in the inventory is deleted when all
    hooks are done.
    """
    dependencies = _dependencies(observed, standing)
    linked = {end for identity, targets in dependencies.items() for end in (identity, *targets) if targets}
    owned = [live.identity for live in observed.children.own if live.identity in linked and is_owned(live)]
    recorded = [identity for wave in observed.records.waves for identity in wave if hooks_done or identity not in hooks]
    candidates = [each for each in dict.fromkeys([*recorded, *owned]) if not observed.why_kept(each)]
    steps = [step for identity in candidates if (step := _deletion_step(observed, identity))]
    # The deletion of these has begun, and their end waits for that of the parent.
    steps = [step for step in steps if not (step.identity in context.cycles and _is_ending(step))]
    steps = [
        replace(step, reason=f"{step.reason}; it may wait for this parent: {context.unread[step.identity]}")
        if step.identity in context.unread and _is_ending(step)
        else step
        for step in steps
    ]
    if not hooks_done:
        return [_keep(step, _AFTER_HOOKS) for step in steps]
    earlier = _deleted_earlier(observed, [step.identity for step in steps], dependencies, linked)
    return [
        _keep(step, f"is deleted after {earlier[step.identity]}") if step.identity in earlier else step
        for step in steps
    ]


def _is_ending(step: Step) -> bool:
    return step.live is not None and step.live.deleting


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


def _keep(step: Step, reason: str) -> Step:
    return replace(step, action=Action.KEEP, reason=reason) if step.action is Action.PRUNE else step


def _deletion_step(observed: Observed, identity: Identity) -> Step | None:
    """The step of one object that has to be deleted, None where the parent has no such object any more."""
    kind = observed.children.kinds.get(identity.group_kind)
    if kind is None:
        return None  # The cluster no longer serves the kind, so it has no object of it.
    watch = kind.within(identity.namespace)
    live = observed.children.objects.get(identity)
    if _goes_with_namespace(observed, identity, live, watch):
        return None
    if watch.problem and (live is not None or not watch.was_synced):
        return Step(
            action=Action.REFUSE,
            identity=identity,
            reason=watch.problem,
            problem=FailureReason.APPLY_FAILED,
            needs_permission=watch.needs_permission,
        )
    if not watch.synced and not watch.problem:
        reason = f"waits: the watch of {identity.group_kind} is not synced yet"
        return Step(action=Action.WAIT, identity=identity, reason=reason)
    if live is None and _may_exist(observed, identity):
        reason = f"waits: it may exist, and can't be read: {observed.children.unreadable[identity]}"
        return Step(action=Action.WAIT, identity=identity, reason=reason)
    if live is None or live.parent_uid != observed.parent.uid:
        return None
    if live.deleting:
        return Step(action=Action.KEEP, identity=identity, live=live, reason=deletion_text(live))
    return Step(action=Action.PRUNE, identity=identity, live=live, reason="is deleted with its parent")


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


def _records_before_acting(observed: Observed, hooks: Sequence[Step], *, hooks_done: bool) -> ParentRecords:
    """The records that the parent has to keep before the plan is carried out.

    Hooks are recorded as done before the first object is deleted: a Job that its TTL removes meanwhile must not run
    again.
    """
    records = observed.records.with_children(
        step.identity for step in hooks if step.manifest is not None and step.manifest.deleted_by_operator
    )
    if hooks_done:
        done = {HOOK + identity_key(step.identity): _DONE for step in hooks}
        records = replace(records, once_records={**records.once_records, **done})
    return records
