"""Carrying out a plan: one request a step, failures as values.

Promises:
- A manifest comes after those that it depends on, and a new object's kind after those that it needs. Everything else
  goes at once, unchanged manifests after changed ones. Objects are pruned only after everything was applied.
- A failed step keeps no other step from being tried.
- A step that admission denies is tried again as soon as the reconcile has created another object, because a plugin may
  have missed that one: a Pod is denied before its ServiceAccount or PriorityClass exists.
- A dry run sends the same requests as dry runs. No step waits for another one, because none is really carried out.
- A request that fails, or a bug, fails its step alone. A bug is logged.
- An expression of an author that judges an object, and takes long, does not hold up other parents.

How it works:
`stages` sorts the steps into stages, by whether the step prunes, the kinds that are created before its kind, its depth
in the order of dependencies, and whether it is proven unchanged. The steps of a stage run at once, and the next stage
begins when all have an outcome. So a step finds the outcomes of everything that it comes after: `waiting_outcome` makes
it wait, without a request, if one of these isn't ready.

An error is an outcome, too, so a stage always ends, and the steps that depend on a failure wait. Before a stage of
prunes, `_unfinished` looks for a failed or waiting apply, and the whole stage is kept if it finds one. An object that
others replace is kept until they are ready.

While the steps of a stage, or of a repetition, have created an object, the denied ones are tried again. Each repetition
but the last creates an object that was denied before, so they end.

`_apply` repeats until there is an outcome, because a request may show that the step was another one than planned: the
object exists (it is planned again with the object), or one of its immutable fields changed (the object is recreated, if
its manifest allows it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from ssa_operator.kube.api.discovery import REQUEST_ERRORS
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import ReadinessState, is_rolled_out
from ssa_operator.reconcile import promises
from ssa_operator.reconcile.apply import Existing, apply, apply_shared, prune
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.failures import failed_request, unexpected_failure
from ssa_operator.reconcile.finalization.rules import advances_deletion
from ssa_operator.reconcile.long_steps import run_all
from ssa_operator.reconcile.ordering import inputs_changed, stages, waiting_outcome
from ssa_operator.reconcile.owner_references import disown_kept, keep
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.pod_failures.requests import diagnose_pods
from ssa_operator.reconcile.prune.deletions import with_deletions
from ssa_operator.reconcile.recreate.requests import ImmutableChange, recreate
from ssa_operator.reconcile.renderer import judged
from ssa_operator.reconcile.secrets.redacted_report import reads_secrets
from ssa_operator.reconcile.shards.other_shards import with_parents_of_other_shards
from ssa_operator.reconcile.shared_ownership import record_vote
from ssa_operator.reconcile.status.previous_status import KEPT_UNTIL

_CREATED = frozenset({Result.CREATED, Result.RECREATED})

Outcomes = tuple[Child, ...]


async def act(plan: Plan, reconcile: Reconcile) -> tuple[Child, ...]:
    """Carry out every step. The outcomes have the order of the steps. If an object turned out to exist, the step of its
    outcome is another one than planned.
    """
    now = reconcile.now()
    outcomes: dict[int, Child] = {}
    by_identity: dict[Identity, Child] = {}
    for stage in stages(plan.steps):
        steps = [step for _, step in stage]
        if steps[0].action is Action.PRUNE:
            if why := _unfinished(outcomes.values()):
                outcomes |= {position: _kept(step, why) for position, step in stage}
                continue
            steps = _unless_awaited(steps, by_identity, now)
        done = await run_all(_act_on(step, by_identity, plan, reconcile, now) for step in steps)
        outcomes |= {position: outcome for (position, _), outcome in zip(stage, done, strict=True)}
        for outcome in done:
            by_identity.setdefault(outcome.identity, outcome)
        while any(outcome.result in _CREATED for outcome in done) and (denied := _denied(outcomes)):
            done = await run_all(
                _act_on(outcome.again, by_identity, plan, reconcile, now) for outcome in denied.values()
            )
            outcomes |= dict(zip(denied, done, strict=True))
            by_identity |= {outcome.identity: outcome for outcome in done}
    return tuple(outcomes[position] for position in range(len(plan.steps)))


def _denied(outcomes: Mapping[int, Child]) -> dict[int, Child]:
    """The outcomes of manifests that admission denied, by position."""
    return {position: each for position, each in outcomes.items() if each.denied and each.manifest is not None}


async def dry_run(plan: Plan, reconcile: Reconcile) -> tuple[Child, ...]:
    """The outcome that every step would have if all that it depends on was there, and nothing held up a deletion. The
    outcomes have the order of the steps. Nothing is written.
    """
    applied = [step for step in plan.steps if step.action is not Action.PRUNE]
    outcomes = await run_all(_try_to_perform(step, plan, reconcile) for step in applied)
    prunes = [step for step in plan.steps if step.action is Action.PRUNE]
    if why := _unfinished(outcomes):
        return with_deletions(plan, (*outcomes, *(_kept(step, why) for step in prunes)))
    return with_deletions(plan, (*outcomes, *await run_all(_try_to_perform(step, plan, reconcile) for step in prunes)))


def _unless_awaited(prunes: Sequence[Child], before: Mapping[Identity, Child], now: float) -> list[Child]:
    """The prunes, or a KEEP instead while what replaces or names an object is not ready. Objects with the same
    successors get one answer.
    """
    first: dict[frozenset[Identity], str | None] = {}
    for successors in {step.successors for step in prunes}:
        awaited = (_awaited(each, before.get(each), now) for each in sorted(successors))
        first[successors] = next(filter(None, awaited), None)
    return [
        step
        if (why := first[step.successors]) is None
        else replace(step, action=Action.KEEP, reason=f"{step.reason}; {why}")
        for step in prunes
    ]


def _awaited(identity: Identity, outcome: Child | None, now: float) -> str | None:
    """Until when an object is kept because of this successor, None if it need not be."""
    if outcome is None or outcome.live is None:
        return f"{KEPT_UNTIL} {identity} is ready"
    if outcome.readiness_of(outcome.live, now).state is not ReadinessState.CURRENT:
        return f"{KEPT_UNTIL} {identity} is ready"
    return None if is_rolled_out(outcome.live.body) else f"{KEPT_UNTIL} {identity} has replaced its pods"


def _unfinished(outcomes: Iterable[Child]) -> str | None:
    """Why nothing may be pruned, None if objects may be."""
    for outcome in outcomes:
        if outcome.result is Result.FAILED:
            return "an apply failed"
        if outcome.result is Result.WAITING and outcome.action is Action.APPLY:
            return f"{outcome.identity}: {outcome.message}"
    return None


def _kept(step: Child, why: str) -> Child:
    message = f"is no longer rendered; kept because {why}"
    return step.ended(Result.WAITING, live=step.live, message=message)


async def _act_on(step: Child, before: Mapping[Identity, Child], plan: Plan, reconcile: Reconcile, now: float) -> Child:
    waiting = waiting_outcome(step, before, now) if step.after or step.missing else None
    return waiting or await _try_to_perform(step, plan, reconcile)


async def _try_to_perform(step: Child, plan: Plan, reconcile: Reconcile) -> Child:
    try:
        return await disown_kept(await _perform(step, plan, reconcile), plan.observed, reconcile)
    except REQUEST_ERRORS as error:
        return failed_request(step, error)
    except Exception as error:  # noqa: BLE001 - it is logged
        return unexpected_failure(step, error, reads_secrets=reads_secrets(plan.rendered, plan.observed.parent))


async def _perform(step: Child, plan: Plan, reconcile: Reconcile) -> Child:
    if step.bug is not None:
        raise step.bug
    match step.action:
        case Action.APPLY:
            return await _apply(step, plan, reconcile)
        case Action.PRUNE:
            return await prune(step, reconcile)
        case Action.UNCHANGED:
            return step.ended(Result.UNCHANGED, live=step.live)
        case Action.KEEP:
            return await keep(step, plan.observed.parent, reconcile)
        case Action.WAIT:
            # The event of another child requeues a parent that waits for it. Only a step with a manifest is retried. A
            # conflict or a feedback loop has its own schedule.
            retryable = step.manifest is not None and not step.conflict and not step.feedback_loop
            return step.ended(Result.WAITING, live=step.live, message=step.reason, retryable=retryable)
        case Action.RECREATE:
            removed = await prune(step, reconcile)
            if removed.result is not Result.PRUNED:
                return removed
            # The object is created when its deletion is over. If it was over at once, no watch event follows.
            return replace(removed, result=Result.RECREATED, message=step.reason, retryable=True)
        case Action.REFUSE:
            return step.ended(
                Result.FAILED,
                live=await record_vote(step, reconcile) if step.vote else step.live,
                message=f"{step.identity} {step.reason}",
                problem=step.problem,
                retryable=step.problem is FailureReason.APPLY_FAILED and not step.needs_permission,
            )


async def _apply(step: Child, plan: Plan, reconcile: Reconcile) -> Child:
    """Apply a manifest until there is an outcome. An object that turns out to exist is planned again. An object whose
    immutable field changed may be deleted first.
    """
    current: Child | Existing | ImmutableChange = step
    try:
        while True:
            match current:
                case Existing():
                    known = await with_parents_of_other_shards(
                        plan.observed, [current.live], reconcile.cluster.other_shards
                    )
                    plan = replace(plan, observed=known)
                    current = plan.step_for_existing(current.step, current.live)
                case ImmutableChange():
                    current = await recreate(current, reconcile)
                case Child(result=Result.PLANNED, action=Action.APPLY):
                    if current.manifest is not None and current.manifest.shared is not None:
                        current = await apply_shared(current, reconcile)
                    else:
                        current = await apply(current, reconcile)
                case Child(result=Result.PLANNED):
                    current = await _perform(current, plan, reconcile)
                case Child():
                    return current
    except REQUEST_ERRORS as error:
        return failed_request(current if isinstance(current, Child) else current.step, error)


async def judge(reconcile: Reconcile, objects: Iterable[tuple[Child, LiveObject | None]]) -> None:
    """Judge objects that have a rule of readiness of their own, so that what follows needs no time for it. Raises
    Postponed.
    """
    asked = [(step, live) for step, live in objects if live is not None and step.rule is not None]
    if asked:
        now = reconcile.now
        await judged(reconcile, lambda: [step.readiness_of(live, now()) for step, live in asked])


async def carry_out(reconcile: Reconcile, plan: Plan) -> Outcomes:
    """The outcome of each step."""
    reconcile.plan, reconcile.began_leaving = plan, reconcile.parent.live.deleting
    outcomes = await act(plan, reconcile)
    reconcile.guessed = bool(reconcile.judgements.missing)
    reconcile.state = replace(reconcile.state, children=promises.after_act(reconcile.state.children, outcomes))
    return outcomes


async def diagnose(reconcile: Reconcile, outcomes: Outcomes) -> Outcomes:
    """The outcomes with the reasons why pods of the children fail. Raises Postponed."""
    await judge(reconcile, ((outcome, outcome.live) for outcome in outcomes))
    memories = reconcile.state.children
    outcomes, checks = await diagnose_pods(outcomes, memories, reconcile)
    reconcile.state = replace(reconcile.state, children=promises.with_pods(memories, checks))
    return outcomes


def learn(reconcile: Reconcile, plan: Plan, outcomes: Outcomes) -> Outcomes:
    """Update what is remembered of the children. Returns the outcomes without what was logged of earlier ones."""
    memories, now = reconcile.state.children, reconcile.now()
    follows = inputs_changed(plan.rendered, outcomes, now) or (
        reconcile.parent.live.deleting and advances_deletion(outcomes, now)
    )
    learned = promises.after(memories, outcomes, plan.observed.parents, now=reconcile.monotonic(), follows=follows)
    reconcile.state = replace(reconcile.state, children=learned)
    return promises.news(memories, outcomes)
