"""What to do while a parent is being deleted and its finalizer keeps it: hooks first, then what nobody else collects.

Promises:
- No ordinary manifest is applied any more. Finalize hooks are, while the other children still stand; each must become
  ready, a Job complete. A failed Job is replaced after a backoff.
- Then the inventory goes, what was made last first; an object goes only if it still carries our label.
- Another pass follows at once where the pass itself did what the next step waits for, and only there.
- Deletion needs no template: where one can't be rendered, its hooks are left out, and the inventory goes all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.dependency_graph import graph
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import Rendered
from ssa_operator.core.planning.decide import identity_of, step_for_document, step_for_wait
from ssa_operator.core.planning.observed import Observed
from ssa_operator.core.planning.ordering import ordered
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.planning.prune import is_owned
from ssa_operator.core.planning.step import Action, FailureReason, Step
from ssa_operator.core.policies.backoff import backoff, earliest
from ssa_operator.core.policies.parent_records import HOOK, ParentRecords, identity_key
from ssa_operator.core.readiness.rules import ReadinessState, readiness

HOOK_PATIENCE = 5
"""The Job of a hook that failed is made again after as long as what has failed so many times (8 s), and then each time
after twice as long: a Job's own backoff has tried it before."""

_JOB = GroupKind("batch", "Job")
_DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalization:
    """The plan of one pass over a parent that is being deleted.

    hooked: whether every hook is done. finished: whether nothing keeps the parent any more. awaited: what does, in
    words. left_out: the hooks that can't be run any more, with the reason.
    """

    plan: Plan
    records: ParentRecords
    hooked: bool
    finished: bool
    awaited: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the hooks meet with. `now` is in seconds since the epoch.

    failures: how often each hook's Job failed before the one that is there. terminating: the namespace in which nothing
    can be made any more, '' where there is none.
    """

    now: float
    failures: Mapping[Identity, int] = field(default_factory=dict)
    terminating: str = ""


def make_finalization(observed: Observed, rendered: Rendered, met: Circumstances) -> Finalization:
    """The plan of one pass; `rendered` is everything that the templates gave."""
    standing, rendered = rendered.standing, rendered.finalizing
    hooks, again_at = _hooks(observed, rendered, met)
    hooks, left_out = _possible(observed, hooks, met)
    undone = [step for step in hooks if step.reason != _DONE]
    hooked = not undone
    left = _leaving_in_order(observed, standing, hooked, {step.identity for step in hooks})
    leaving = {step.identity for step in left}
    covered = {step.identity for step in hooks} | leaving
    others = [
        Step(action=Action.KEEP, identity=live.identity, live=live, reason="stands until its parent goes")
        for live in observed.children.own
        if live.identity not in covered
    ]
    running = _in_order([step for step in hooks if step.identity not in leaving], [*left, *others], rendered)
    rendered = replace(rendered, again_at=earliest(rendered.again_at, again_at))
    awaited = [f"{step.identity} {step.reason}" for step in (*undone, *left)]
    return Finalization(
        plan=Plan(steps=(*running, *left, *others), rendered=rendered, observed=observed),
        records=_records(observed, hooks, hooked=hooked and bool(left)),
        hooked=hooked,
        finished=hooked and not left,
        awaited="; ".join(awaited),
        left_out=left_out,
    )


def leads_on(outcomes: Iterable[Outcome], now: float) -> bool:
    """Whether a pass itself did or found what the next step waits for: an object is deleted, or a hook's apply returned
    it done or failed. No event tells of what a request of the operator returned. What the caches don't show is waited
    for.
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


def _hooks(observed: Observed, rendered: Rendered, met: Circumstances) -> tuple[list[Step], float | None]:
    found = [_hook(observed, step_for_document(observed, document), met) for document in rendered.documents]
    waiting = [
        _unless_done(observed, step_for_wait(observed, wait, wait.identity))
        for wait in rendered.waits
        if wait.identity is not None
    ]
    return [*(step for step, _ in found), *waiting], earliest(*(again_at for _, again_at in found))


def _in_order(hooks: list[Step], others: list[Step], rendered: Rendered) -> list[Step]:
    """The hooks with what has to come before each: other hooks, or children that still stand."""
    uses = {(each.body["kind"], each.body["metadata"]["name"]): each.dependencies for each in rendered.documents}
    uses |= {(each.identity.kind, each.identity.name): each.dependencies for each in rendered.waits if each.identity}
    steps = [*hooks, *others]
    own = [uses.get((step.identity.kind, step.identity.name), ()) for step in hooks]
    found = ordered(steps, [*own, *(() for _ in others)], rendered)[: len(hooks)]
    # A child that isn't there won't come any more: nothing comes after it.
    return [replace(step, missing=()) for step in found]


def _possible(observed: Observed, hooks: list[Step], met: Circumstances) -> tuple[list[Step], tuple[str, ...]]:
    """The hooks without those that can't be run any more, and why they can't: no ordinary child is made any more."""
    there = {(live.identity.kind, live.identity.name) for live in observed.children.own if not live.deleting}
    left_out: dict[Identity, str] = {}
    for step in hooks:
        if met.terminating and step.identity.namespace == met.terminating and step.reason != _DONE:
            left_out[step.identity] = f"nothing can be made in namespace {met.terminating}, which is being deleted"
    while True:
        left = [step for step in hooks if step.identity not in left_out]
        coming = there | {(step.identity.kind, step.identity.name) for step in left}
        lost = {step.identity: child for step in left if (child := _lost(observed, step, coming))}
        if not lost:
            return left, tuple(f"{identity}: {why}" for identity, why in left_out.items())
        left_out |= {identity: f"it reads {child}, which is not there" for identity, child in lost.items()}


def _lost(observed: Observed, step: Step, coming: AbstractSet[tuple[str, str]]) -> str:
    """What a waiting hook reads that is not there and won't come, '' where it may come."""
    if step.action is not Action.WAIT:
        return ""
    children = [each.query for each in step.awaited if isinstance(each.query, Reference)]
    missing = (child for child in children if (child.kind, child.name) not in coming)
    return next((str(child) for child in missing if _all_seen(observed, child.kind)), "")


def _all_seen(observed: Observed, name: str) -> bool:
    """Whether all children of a kind of that name are known: else one may be there that nobody has seen yet."""
    kinds = [known for kind, known in observed.children.kinds.items() if kind.kind == name]
    return bool(kinds) and all(known.synced for known in kinds)


def _unless_done(observed: Observed, step: Step) -> Step:
    if observed.records.once_records.get(HOOK + identity_key(step.identity)) != _DONE:
        return step
    return replace(step, action=Action.KEEP, reason=_DONE)


def _hook(observed: Observed, step: Step, met: Circumstances) -> tuple[Step, float | None]:
    """A hook's step, and when it has to be looked at again."""
    now, done = met.now, _unless_done(observed, step)
    if done is not step:
        return done, None
    live = step.live
    if step.manifest is None or live is None or live.deleting or live.parent_uid != observed.parent.uid:
        return step, None
    if step.action not in (Action.APPLY, Action.UNCHANGED):
        return step, None
    if _is_done(step, live, now):
        return replace(step, action=Action.UNCHANGED, reason=_DONE), None
    found = readiness(live.body, now, reports_status=step.reports_status)
    if not _is_failed_job(live, now):
        # Whatever it says of itself is what users have to read.
        return replace(step, reason=found.message or step.reason), found.again_at
    due = _failed_at(live.body, now) + backoff(met.failures.get(step.identity, 0) + HOOK_PATIENCE, 0.0)
    if now < due:
        return replace(step, action=Action.UNCHANGED, reason=f"{found.message}; it is made again"), due
    return replace(step, action=Action.RECREATE, reason=f"{found.message}; it is made again"), None


def _is_done(step: Step, live: LiveObject, now: float) -> bool:
    """Whether nothing has to wait for a hook any more, whose object is this."""
    if step.manifest is not None and not step.manifest.instructions.wait:
        return True
    return readiness(live.body, now, reports_status=step.reports_status).state is ReadinessState.CURRENT


def _is_failed_job(live: LiveObject, now: float) -> bool:
    """Whether a hook's object is a Job that has to be replaced."""
    return live.identity.group_kind == _JOB and readiness(live.body, now).state is ReadinessState.FAILED


def _failed_at(body: Mapping[str, object], now: float) -> float:
    status = body.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for condition in conditions or ():
        if condition.get("type") == "Failed" and condition.get("lastTransitionTime"):
            return datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
    return now


def _leaving_in_order(observed: Observed, standing: Rendered, hooked: bool, hooks: AbstractSet[Identity]) -> list[Step]:
    """A step for each object that has to go before the parent: those that nothing needs any more go now.

    These are the recorded ones, and those that Kubernetes would collect in no order though others depend on them. What
    a template puts in an order goes in the reverse one; what none does goes by the waves it was made in. Hooks that had
    to be recorded themselves come into it when all of them are done.
    """
    found = _graph(observed, standing)
    edged = {end for identity, edges in found.items() for end in (identity, *edges) if edges}
    owned = [live.identity for live in observed.children.own if live.identity in edged and is_owned(live)]
    recorded = [identity for wave in observed.records.waves for identity in wave if hooked or identity not in hooks]
    steps = [step for identity in dict.fromkeys([*recorded, *owned]) if (step := _leaving(observed, identity))]
    if not hooked:
        return [_kept(step, "stands until the finalize hooks are done") for step in steps]
    there = [step.identity for step in steps]
    free = [identity for identity in there if identity not in edged]
    last = max((observed.records.inventory[identity] for identity in free), default=0)
    before: dict[Identity, Identity] = {}
    for identity in there:
        for target in found.get(identity, ()):
            before.setdefault(target, identity)
    for identity in free:
        if observed.records.inventory[identity] < last:
            before[identity] = next(each for each in free if observed.records.inventory[each] == last)
    return [_kept(step, f"goes after {before[step.identity]}") if step.identity in before else step for step in steps]


def _graph(observed: Observed, standing: Rendered) -> dict[Identity, tuple[Identity, ...]]:
    """What each manifest depends on; one that is in a circle, or behind one, on nothing."""
    uses = [(identity_of(observed, document), document.dependencies) for document in standing.documents]
    uses += [
        (step_for_wait(observed, wait, wait.identity).identity, wait.dependencies)
        for wait in standing.waits
        if wait.identity
    ]
    found = graph(uses)
    orderly = {identity for wave in found.waves() for identity in wave}
    return {identity: found.targets[identity] for identity in orderly}


def _kept(step: Step, reason: str) -> Step:
    return replace(step, action=Action.KEEP, reason=reason) if step.action is Action.PRUNE else step


def _leaving(observed: Observed, identity: Identity) -> Step | None:
    """What to do with one object that has to go, None where there is none (any more) that is ours."""
    kind = observed.children.kinds.get(identity.group_kind)
    if kind is None:
        return None  # the cluster has no such kind any more, and so no object of it
    if kind.problem:
        return Step(
            action=Action.REFUSE,
            identity=identity,
            reason=kind.problem,
            problem=FailureReason.APPLY_FAILED,
            needs_permission=kind.needs_permission,
        )
    if not kind.synced:
        reason = f"waits: the watch of {identity.group_kind} is not synced yet"
        return Step(action=Action.WAIT, identity=identity, reason=reason)
    live = observed.children.objects.get(identity)
    if live is None or live.parent_uid != observed.parent.uid:
        return None
    if live.deleting:
        return Step(action=Action.KEEP, identity=identity, live=live, reason="is being deleted")
    return Step(action=Action.PRUNE, identity=identity, live=live, reason="goes with its parent")


def _records(observed: Observed, hooks: Sequence[Step], *, hooked: bool) -> ParentRecords:
    """What has to be on record before this pass acts.

    Hooks that are done are, before the first object goes: a Job that its TTL removes meanwhile must not run again.
    """
    records = observed.records.with_children(
        step.identity for step in hooks if step.manifest is not None and step.manifest.needs_record
    )
    if hooked:
        done = {HOOK + identity_key(step.identity): _DONE for step in hooks}
        records = replace(records, once_records={**records.once_records, **done})
    return records
