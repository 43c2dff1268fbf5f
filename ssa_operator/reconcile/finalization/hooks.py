"""Plans the finalize hooks of a parent that is being deleted: which of them run, wait, are done or are skipped.

Promises:
- A hook is done when its object is ready, and a Job complete. With `wait: "false"` it is done when it is applied.
- A hook that is recorded as done doesn't run again, not even after its TTL has deleted the Job.
- A failed Job is recreated after a backoff, unless the expression of its `ready-when` is true.
- No hook runs in a namespace that is being deleted, because nothing can be created there: it is skipped.
- A hook that reads a child which doesn't exist any more is skipped, and so is a hook that reads a skipped one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.api.backoff import backoff, earliest
from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import ReadinessState, condition_of, readiness
from ssa_operator.objects.render_result import Rendered
from ssa_operator.objects.scalars import seconds_of
from ssa_operator.reconcile.child import Action, Child
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.ordering import order_steps
from ssa_operator.reconcile.parent_records.rules import HOOK, identity_key
from ssa_operator.reconcile.plan import step_for_document, step_for_wait

HOOK_BACKOFF_OFFSET = 5
"""Failures that the backoff of a failed hook starts with, so that its first pause is 8 s: the Job has retried by its
own backoffLimit before.
"""

DONE = "done"
"""The reason of the step of a hook that is done, and its record."""

_JOB = GroupKind("batch", "Job")


class HookPlan(Struct, frozen=True, kw_only=True):
    """What one reconcile of a deletion does with the finalize hooks."""

    steps: tuple[Child, ...]
    """The hooks that can run."""
    skipped: tuple[str, ...]
    """The hooks that can't run any more, each with the reason."""
    again_at: float | None
    """When the next hook has to be planned again, in seconds since the epoch."""


def plan_hooks(observed: Observed, rendered: Rendered, now: float) -> HookPlan:
    """The plan of the hooks, which `rendered` has alone."""
    found = [_hook_step(observed, step_for_document(observed, document), now) for document in rendered.documents]
    waiting = [
        _keep_if_done(observed, step_for_wait(observed, wait, wait.identity))
        for wait in rendered.waits
        if wait.identity is not None
    ]
    hooks, skipped = _skip_impossible(observed, [*(step for step, _ in found), *waiting])
    return HookPlan(steps=tuple(hooks), skipped=skipped, again_at=earliest(*(again_at for _, again_at in found)))


def order_hooks(hooks: Sequence[Child], others: Sequence[Child], rendered: Rendered) -> list[Child]:
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
    return [replace(step, missing=()) for step in found]


def _skip_impossible(observed: Observed, hooks: Sequence[Child]) -> tuple[list[Child], tuple[str, ...]]:
    """The hooks that can run, and why the others can't: no ordinary child is created any more, and nothing at all in a
    namespace that is being deleted.
    """
    skipped: dict[Identity, str] = {}
    for step in hooks:
        namespace = step.identity.namespace
        ending = observed.ending_namespaces.get(namespace)
        if ending is not None and not ending.accepts_objects and step.reason != DONE:
            skipped[step.identity] = f"nothing can be created in namespace {namespace}, which {ending.reason}"
    existing = {(live.identity.kind, live.identity.name) for live in observed.children.own if not live.deleting}
    while True:
        possible = [step for step in hooks if step.identity not in skipped]
        available = existing | {(step.identity.kind, step.identity.name) for step in possible}
        missing = {step.identity: child for step in possible if (child := _missing_input(observed, step, available))}
        if not missing:
            return possible, tuple(f"{identity}: {reason}" for identity, reason in skipped.items())
        skipped |= {identity: f"it reads {child}, which does not exist" for identity, child in missing.items()}


def _missing_input(observed: Observed, step: Child, available: AbstractSet[tuple[str, str]]) -> str | None:
    """The child that a waiting hook reads and that will never exist, None if there is none."""
    if step.action is not Action.WAIT:
        return None
    children = [each.query for each in step.awaited if isinstance(each.query, Reference)]
    missing = (child for child in children if (child.kind, child.name) not in available)
    return next((str(child) for child in missing if _is_synced(observed, child.kind)), None)


def _is_synced(observed: Observed, name: str) -> bool:
    """Whether the watches of all kinds of that name have synced. Before that, a child that no cache shows may exist."""
    states = [state for kind, state in observed.children.kinds.items() if kind.kind == name]
    return bool(states) and all(state.synced for state in states)


def _keep_if_done(observed: Observed, step: Child) -> Child:
    """The step of a hook. A hook that is recorded as done is not applied again."""
    if observed.records.once_records.get(HOOK + identity_key(step.identity)) != DONE:
        return step
    return replace(step, action=Action.KEEP, reason=DONE)


def _hook_step(observed: Observed, step: Child, now: float) -> tuple[Child, float | None]:
    """The step of a hook, and when it has to be planned again."""
    done = _keep_if_done(observed, step)
    if done is not step:
        return done, None
    live = step.live
    if step.manifest is None or live is None or live.deleting or live.parent_uid != observed.parent.uid:
        return step, None
    if step.action not in (Action.APPLY, Action.UNCHANGED):
        return step, None
    if is_done(step, live, now):
        return replace(step, action=Action.UNCHANGED, reason=DONE), None
    found = step.readiness_of(live, now)
    if not is_failed_job(live, now):
        # The condition of the parent reports the readiness of the hook.
        return replace(step, reason=found.message or step.reason), found.again_at
    reason = f"{found.message}; it is recreated"
    due = _failed_at(live.body, now) + backoff(step.memory.hook_failures + HOOK_BACKOFF_OFFSET, 0.0)
    if now < due:
        return replace(step, action=Action.UNCHANGED, reason=reason), due
    return replace(step, action=Action.RECREATE, reason=reason), None


def is_done(step: Child, live: LiveObject, now: float) -> bool:
    """Whether a hook is done: its object is ready, or its manifest says `wait: "false"`."""
    if step.manifest is not None and not step.manifest.instructions.wait:
        return True
    return step.readiness_of(live, now).state is ReadinessState.CURRENT


def is_failed_job(live: LiveObject, now: float) -> bool:
    """Whether a hook's object is a failed Job, which has to be recreated."""
    return live.identity.group_kind == _JOB and readiness(live.body, now).state is ReadinessState.FAILED


def _failed_at(body: Mapping[str, object], now: float) -> float:
    """When a Job failed; `now` where its condition doesn't report it."""
    failed_at = seconds_of((condition_of(body, "Failed") or {}).get("lastTransitionTime"))
    return now if failed_at is None else failed_at
