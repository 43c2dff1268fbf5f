"""Carrying out a plan: one request a step, failures as values.

Promises:
- Namespaces and CRDs go first, then everything else at once, but for what depends on something else: that comes after
  it. What is proven unchanged lets others go first. Objects are pruned only after everything was applied.
- No failure of one step keeps another from being tried, and each says where in which template the refused field was
  written.
- An unforeseen error ends all requests of the pass before it is raised.
- An object is deleted only with its uid as precondition: what was made again under the same name is left alone.
- What is made is made only where it is absent. Where it turns out to be there, it is planned again as what it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.failures import failed_outcome, failed_request, place_of_error
from ssa_operator.controller.reconcile.recreate import immutable, recreate
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.manifest import Manifest
from ssa_operator.core.planning.decide import decide_step
from ssa_operator.core.planning.observed import Observed
from ssa_operator.core.planning.ordering import depths, waiting_outcome
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.planning.step import Action, FailureReason, Step
from ssa_operator.core.policies.adoption import adopt_fields_patch, only_if_absent
from ssa_operator.core.policies.recreate import Recreation
from ssa_operator.core.policies.unchanged import is_same_apply
from ssa_operator.core.readiness.rules import ReadinessState, readiness
from ssa_operator.core.status.previous_status import KEPT_UNTIL
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Applied
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError

_FIRST = frozenset({GroupKind("", "Namespace"), GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")})


async def act(plan: Plan, cluster: ClusterAccess, now: float) -> tuple[Outcome, ...]:
    """Carry out every step; the outcomes stand in the order of the steps. The step of an outcome is another one than
    was planned where its object turned out to exist. `now` is in seconds since the epoch.
    """
    outcomes: dict[int, Outcome] = {}
    by_identity: dict[Identity, Outcome] = {}
    for stage in _stages(plan.steps):
        if stage[0][1].action is Action.PRUNE and (why := _unfinished(outcomes.values())):
            outcomes |= {position: _kept(step, why) for position, step in stage}
            continue
        done = await _together(
            _in_turn(_after_successors(step, by_identity, now), by_identity, plan.observed, cluster, now)
            for _, step in stage
        )
        outcomes |= {position: outcome for (position, _), outcome in zip(stage, done, strict=True)}
        for outcome in done:
            by_identity.setdefault(outcome.step.identity, outcome)
    return tuple(outcomes[position] for position in range(len(plan.steps)))


async def _together(turns: Iterable[Coroutine[Any, Any, Outcome]]) -> list[Outcome]:
    """The outcomes of turns that are taken at once. If one raises, none of the others goes on: the parent goes back to
    the queue, and another worker may reconcile it at once.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(turn) for turn in turns]
    return [task.result() for task in tasks]


def _stages(steps: Sequence[Step]) -> list[list[tuple[int, Step]]]:
    depth = depths(steps)
    stages: dict[tuple[bool, int, bool, bool], list[tuple[int, Step]]] = {}
    for position, step in enumerate(steps):
        turn = depth.get(step.identity, 0)
        prune = step.action is Action.PRUNE
        later = prune or turn > 0 or step.identity.group_kind not in _FIRST
        stages.setdefault((prune, turn, later, step.unchanged), []).append((position, step))
    return [stages[key] for key in sorted(stages)]


def _after_successors(step: Step, before: Mapping[Identity, Outcome], now: float) -> Step:
    """A prune, unless what takes the object's place is not ready yet."""
    missing = [identity for identity in sorted(step.successors) if not _is_ready(before.get(identity), now)]
    if step.action is not Action.PRUNE or not missing:
        return step
    return replace(step, action=Action.KEEP, reason=f"{step.reason}; {KEPT_UNTIL} {missing[0]} is ready")


def _is_ready(outcome: Outcome | None, now: float) -> bool:
    if outcome is None or outcome.live is None:
        return False
    return readiness(outcome.live.body, now, reports_status=outcome.step.reports_status).state is ReadinessState.CURRENT


def _unfinished(outcomes: Iterable[Outcome]) -> str:
    """Why nothing may be pruned, '' where nothing speaks against it."""
    for outcome in outcomes:
        if outcome.result is Result.FAILED:
            return "an apply failed"
        if outcome.result is Result.WAITING and outcome.step.action is Action.APPLY:
            return f"{outcome.step.identity}: {outcome.message}"
    return ""


def _kept(step: Step, why: str) -> Outcome:
    message = f"is no longer rendered; kept because {why}"
    return Outcome(step=step, result=Result.WAITING, live=step.live, message=message)


async def _in_turn(
    step: Step, before: Mapping[Identity, Outcome], observed: Observed, cluster: ClusterAccess, now: float
) -> Outcome:
    waiting = waiting_outcome(step, before, now) if step.after or step.lost else None
    return waiting or await _perform(step, observed, cluster)


async def _perform(step: Step, observed: Observed, cluster: ClusterAccess) -> Outcome:
    match step.action:
        case Action.APPLY:
            assert step.manifest is not None
            return await _apply(step, step.manifest, observed, cluster)
        case Action.PRUNE:
            return await _prune(step, cluster)
        case Action.UNCHANGED | Action.KEEP:
            return Outcome(step=step, result=Result.UNCHANGED, live=step.live)
        case Action.WAIT:
            # What waits for another child is woken by that child's event; only what has a manifest could go on by
            # itself. What is fought over or changes without end has its own time.
            retryable = step.manifest is not None and not step.conflict and not step.feedback_loops
            return Outcome(step=step, result=Result.WAITING, live=step.live, message=step.reason, retryable=retryable)
        case Action.RECREATE:
            removed = await _prune(step, cluster)
            if removed.result is not Result.PRUNED:
                return removed
            # It is made again when the deletion is over; where that was at once, nobody tells us.
            return replace(removed, result=Result.RECREATED, message=step.reason, retryable=True)
        case Action.REFUSE:
            return Outcome(
                step=step,
                result=Result.FAILED,
                live=step.live,
                message=f"{step.identity} {step.reason}",
                problem=step.problem,
                retryable=step.problem is FailureReason.APPLY_FAILED and not step.needs_permission,
            )


async def _apply(step: Step, manifest: Manifest, observed: Observed, cluster: ClusterAccess) -> Outcome:
    try:
        resource = await cluster.children.resource(manifest.identity.group_kind, manifest.version)
    except (UnknownKind, CredentialsError) as error:
        return failed_outcome(step, str(error), problem=FailureReason.APPLY_FAILED, retryable=True)
    except ApiError as error:
        return failed_request(step, error)
    try:
        with cluster.children.writing(manifest.identity):
            applied = step.live or await _make(manifest, resource, cluster)
            if isinstance(applied, LiveObject):
                if step.live is None:
                    step = _judged(observed, step, manifest, applied)
                    if step.action is not Action.APPLY:
                        return await _perform(step, observed, cluster)
                applied = await _take(applied, manifest, resource, cluster)
            cluster.children.written(applied.live)
    except CredentialsError as error:
        return failed_outcome(step, str(error), problem=FailureReason.APPLY_FAILED, retryable=True)
    except ValueError as error:
        return failed_outcome(step, str(error), problem=FailureReason.INVALID_MANIFEST)
    except ApiError as error:
        found = immutable(step, manifest, resource, error, cluster)
        if found is None:
            return _refused(step, manifest, error)
    else:
        return _applied(step, manifest, applied)
    anew = await recreate(found, cluster)
    return await _apply(anew, manifest, observed, cluster) if isinstance(anew, Step) else anew


def _applied(step: Step, manifest: Manifest, applied: Applied) -> Outcome:
    if not applied.created:
        # An apply that went through ends the row of refusals.
        step = replace(step, recreation=None)
        same = step.live is not None and is_same_apply(step.live, applied.live)
        result = Result.UNCHANGED if same else Result.CONFIGURED
    elif step.recreation is not None and not step.recreation.made:
        step = replace(step, recreation=Recreation(digest=manifest.digest, made=True))
        result = Result.RECREATED
    else:
        result = Result.CREATED
    return Outcome(step=step, result=result, live=applied.live, warnings=applied.warnings)


def _judged(observed: Observed, step: Step, manifest: Manifest, live: LiveObject) -> Step:
    """The step of what was to be made and turned out to be there."""
    step = decide_step(observed, replace(step, live=live))
    if step.action is Action.APPLY and manifest.document.holder:
        # The next pass, which follows by itself, reads the values that it has, and keeps them.
        return replace(step, action=Action.WAIT, reason="appeared meanwhile; its generated values are read first")
    return step


async def _make(manifest: Manifest, resource: Resource, cluster: ClusterAccess) -> Applied | LiveObject:
    """Apply what shall not be there yet; where something is, that is returned."""
    try:
        return await _send(manifest, only_if_absent(manifest), resource, cluster)
    except ApiError as error:
        if error.code != 409:
            raise
    try:
        return await cluster.client.get(resource, manifest.identity.name, manifest.identity.namespace)
    except ApiError as error:
        if not error.not_found:
            raise
    # It went meanwhile, or this server takes the precondition for one that an absent object fails, too.
    return await _send(manifest, manifest.encoded, resource, cluster)


async def _take(live: LiveObject, manifest: Manifest, resource: Resource, cluster: ClusterAccess) -> Applied:
    """Apply to what is there; the first time with all that its former managers wrote, so that it goes."""
    if live.owned_fields():
        return await _send(manifest, manifest.encoded, resource, cluster)
    await _take_over(live, manifest, resource, cluster)
    applied = await _send(manifest, manifest.encoded, resource, cluster)
    if not live.metadata.managed_fields and await _take_over(applied.live, manifest, resource, cluster):
        # Who wrote what had no managers has a name only now.
        applied = await _send(manifest, manifest.encoded, resource, cluster)
    return applied


async def _take_over(live: LiveObject, manifest: Manifest, resource: Resource, cluster: ClusterAccess) -> bool:
    """Make the fields of an object's former managers ours; whether there were any."""
    patch = adopt_fields_patch(live, manifest.api_version, cluster.former)
    if patch is None:
        return False
    identity = manifest.identity
    await cluster.client.send(calls.merge_patch(resource, identity.namespace, identity.name, patch))
    return True


async def _send(manifest: Manifest, body: bytes, resource: Resource, cluster: ClusterAccess) -> Applied:
    identity = manifest.identity
    return await cluster.client.apply(resource, identity.namespace, identity.name, body, redactor=cluster.redactor)


async def _prune(step: Step, cluster: ClusterAccess) -> Outcome:
    live = step.live
    assert live is not None
    try:
        resource = await cluster.children.resource(live.identity.group_kind, live.version)
        left = await cluster.client.delete(resource, live.identity.namespace, live.identity.name, uid=live.uid)
    except UnknownKind:
        return Outcome(step=step, result=Result.PRUNED)
    except CredentialsError as error:
        return failed_outcome(step, str(error), problem=FailureReason.APPLY_FAILED, retryable=True)
    except ApiError as error:
        # Made again by somebody else under the same name: not ours to delete.
        if error.conflict:
            return Outcome(step=step, result=Result.PRUNED)
        return failed_request(step, error)
    if left is None:
        cluster.children.deleted(live)
    else:
        cluster.children.written(left)
    return Outcome(step=step, result=Result.PRUNED, live=left)


def _refused(step: Step, manifest: Manifest, error: ApiError) -> Outcome:
    """The API server's words, with the place in the template that wrote the first field they name."""
    if "Only one reference can have Controller set to true" in error.message:
        message = (
            f"{step.identity} is controlled by another object; give it another name, or let go of it there ({error})"
        )
        return failed_outcome(step, message, problem=FailureReason.CONFLICT)
    outcome = failed_request(step, error, place_of_error(manifest, error))
    if step.recreation is not None and not step.recreation.made:
        # We have deleted it: it is missing until this goes through, as when a quota still counts the old object.
        return replace(outcome, retryable=True)
    return outcome
