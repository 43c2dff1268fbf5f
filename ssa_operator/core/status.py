"""The status of a parent: what a pass found, in Kubernetes' own words.

Promises:
- `Ready` is always there; `Reconciling` and `Stalled` only while they are true (kstatus). Each condition names the
  generation it speaks of, a reason and a message that names the object and the cause.
- A status that says the same as the live one is not written: `lastTransitionTime` moves only when a condition's
  status does, and nothing in it depends on the clock otherwise.
- A template's own fields never replace `conditions`, `observedGeneration` or `resources`, and stay as they were while
  it fails.
- Messages and lists are bounded; a Secret's content never reaches them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ssa_operator.core import once
from ssa_operator.core.finalization import Finalization
from ssa_operator.core.identity import Identity
from ssa_operator.core.live import Live
from ssa_operator.core.outcome import Outcome, Result
from ssa_operator.core.plan import Plan
from ssa_operator.core.readiness import Readiness, State, readiness
from ssa_operator.core.rendered import Problem as RenderProblem
from ssa_operator.core.rendered import StatusFields
from ssa_operator.core.step import Action, Problem, Step
from ssa_operator.core.upkeep import Records
from ssa_operator.core.world import Question

RESERVED = ("conditions", "observedGeneration", "resources")
MESSAGE_LIMIT = 4096
ENTRY_LIMIT = 512
RESOURCES_LIMIT = 1000
CAUSES_LIMIT = 8
CAUSE_LIMIT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One entry of `status.resources`, and whether its readiness counts for the parent.

    awaits: whether it is not applied because it waits for something else. refused: whether applying it failed.
    """

    identity: Identity
    uid: str
    readiness: Readiness
    counts: bool = True
    awaits: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The condition Ready: its status, reason and message; `stalled` where only a change can help."""

    ready: bool
    reason: str
    message: str
    stalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a pass has to say.

    status: the parent's whole desired status. complete: whether everything that was rendered is applied. passing: a
    failure that goes away by itself. retry_after: seconds that the API server asked to wait. again_at: when a child
    has to be judged again without an event. notice: what is said of somebody who writes the same status, '' where
    nobody does. unrest: what is said of children that change each time they are applied.
    """

    status: Mapping[str, Any]
    verdict: Verdict
    children: tuple[Child, ...]
    complete: bool
    outcomes: tuple[Outcome, ...] = ()
    passing: bool = False
    retry_after: float = 0.0
    again_at: float | None = None
    notice: str = ""
    unrest: str = ""


def make_report(parent: Live, plan: Plan, outcomes: Sequence[Outcome], own: StatusFields, now: float) -> Report:
    """The report of one pass; `own` are the fields of the author's status template, `now` is in seconds since the
    epoch.
    """
    children = tuple(_child(outcome, now) for outcome in outcomes if outcome.result is not Result.PRUNED)
    children = _explained(children, outcomes)
    failures = [outcome for outcome in outcomes if outcome.result is Result.FAILED]
    failures += [_contested(outcome) for outcome in outcomes if outcome.step.contest]
    problems = tuple(dict.fromkeys((*plan.rendered.problems, *own.problems)))
    verdict = _verdict(plan, problems, failures, _roots_first(children, outcomes))
    unrest = sentence([outcome.step.unrest for outcome in outcomes if outcome.step.unrest])
    if unrest:
        verdict = replace(verdict, message=_bounded(f"{verdict.message}; {unrest}", MESSAGE_LIMIT))
    return Report(
        status=_status(parent, verdict, children, _own_fields(parent, own), now),
        verdict=verdict,
        children=children,
        complete=_complete(plan, outcomes),
        unrest=unrest,
        outcomes=tuple(outcomes),
        passing=any(outcome.passing for outcome in outcomes),
        retry_after=max((outcome.retry_after for outcome in outcomes), default=0.0),
        again_at=earliest(
            plan.rendered.again_at,
            own.again_at,
            *(child.readiness.again_at for child in children),
            *(outcome.again_at for outcome in outcomes),
        ),
    )


def make_idle_report(parent: Live, verdict: Verdict, children: Sequence[Live], own: StatusFields, now: float) -> Report:
    """The report of a parent that is not acted on: it is suspended or being deleted."""
    entries = tuple(
        Child(identity=live.identity, uid=live.uid, readiness=readiness(live.body, now)) for live in children
    )
    return Report(
        status=_status(parent, verdict, entries, _own_fields(parent, own), now),
        verdict=verdict,
        children=entries,
        complete=False,
    )


def make_deletion_report(
    parent: Live, finalization: Finalization, outcomes: Sequence[Outcome], own: StatusFields, now: float
) -> Report:
    """The report of a pass over a parent that is being deleted; its arguments are those of `make_report`."""
    plan = finalization.plan
    failures = [outcome for outcome in outcomes if outcome.result is Result.FAILED]
    causes = [_failure_text(failure) for failure in failures] or [finalization.awaited]
    causes += [f"left out: {hook}" for hook in finalization.left_out]
    causes += [_deletion_text(problem) for problem in plan.rendered.problems]
    message = "; ".join(filter(None, ("is being deleted", sentence([cause for cause in causes if cause]))))
    stalled = bool(failures) and not any(failure.passing for failure in failures)
    children = tuple(_child(outcome, now) for outcome in outcomes if outcome.result is not Result.PRUNED)
    verdict = Verdict(ready=False, reason="Deleting", message=message, stalled=stalled)
    return Report(
        status=_status(parent, verdict, children, _own_fields(parent, own), now),
        verdict=verdict,
        children=children,
        complete=False,
        outcomes=tuple(outcomes),
        passing=any(outcome.passing for outcome in outcomes),
        retry_after=max((outcome.retry_after for outcome in outcomes), default=0.0),
        again_at=earliest(plan.rendered.again_at, own.again_at, *(child.readiness.again_at for child in children)),
    )


def _deletion_text(problem: RenderProblem) -> str:
    if problem.outdated:
        return f"the last good templates are in use, for the new ones can't be loaded: {problem}"
    return f"left out, for it can't be rendered: {problem}"


def noticed(report: Report, notice: str) -> Report:
    """The report with a notice in the message of each of our conditions."""
    if not notice:
        return report
    message = f"{_bounded(report.verdict.message, MESSAGE_LIMIT - len(notice) - 2)}; {notice}"
    conditions = [{**condition, "message": message} for condition in report.status.get("conditions", ())]
    return replace(
        report,
        verdict=replace(report.verdict, message=message),
        status={**report.status, "conditions": conditions},
        notice=notice,
    )


def noted(records: Records, outcome: Outcome, parent: Live, now: float) -> Records:
    """The records with what became of a manifest that is made once."""
    step = outcome.step
    is_kept = step.action is Action.KEEP or (
        step.action is Action.APPLY
        and outcome.result in (Result.CREATED, Result.CONFIGURED, Result.UNCHANGED, Result.RECREATED)
    )
    if step.manifest is None or not is_kept or not step.manifest.once:
        return records
    before = once.made(records, step.identity)
    if before is None or step.action is Action.APPLY:
        found = step.action is Action.KEEP and outcome.live is not None and outcome.live.parent_uid != parent.uid
        before = once.Made(once.digest(step.manifest.document, parent), found=found)
    return once.with_made(records, step.identity, replace(before, end=once.seen(outcome.live, before.end, now)))


def unrecorded(outcome: Outcome, error: str) -> Outcome:
    """What to say of a manifest that was made once and may be made again, as it could not be put on record."""
    if outcome.step.manifest is None or not outcome.step.manifest.once:
        return outcome
    message = f"{outcome.step.identity} is made once, which can't be recorded on its parent: {error}"
    return replace(outcome, result=Result.FAILED, message=message, problem=Problem.APPLY_FAILED, passing=True)


def differs(live: Live, desired: Mapping[str, Any]) -> bool:
    """Whether writing the desired status would change the live one: a value of it, or a field that only we still
    hold.
    """
    current = live.body.get("status")
    if not isinstance(current, Mapping):
        return bool(desired)
    others = {key: value for key, value in desired.items() if key != "conditions"}
    if not _holds(current, others) or not _holds_conditions(current, desired.get("conditions", ())):
        return True
    owned = live.owned_fields("status")
    return bool(owned) and not _covered(json.loads(owned).get("f:status", {}), desired)


def earliest(*moments: float | None) -> float | None:
    """The first of some moments, None where there is none."""
    return min((moment for moment in moments if moment is not None), default=None)


def _complete(plan: Plan, outcomes: Sequence[Outcome]) -> bool:
    """Whether the cluster is what the templates say: everything applied, nothing kept that they no longer render."""
    unfinished = any(outcome.result is Result.FAILED or outcome.result is Result.WAITING for outcome in outcomes)
    return plan.rendered.complete and not (unfinished or plan.held or plan.blocked)


def _child(outcome: Outcome, now: float) -> Child:
    step, live = outcome.step, outcome.live
    counts = step.manifest is None or step.manifest.instructions.wait
    if outcome.result is Result.FAILED:
        found = Readiness(State.FAILED, outcome.message)
    elif outcome.result is Result.WAITING:
        found = Readiness(State.TERMINATING if live is not None and live.deleting else State.WAITING, outcome.message)
    elif step.standing is not None:
        found = step.standing
    elif live is None:
        found = Readiness(State.NOT_FOUND, outcome.message)
    else:
        found = readiness(live.body, now, announced=step.announces)
        if step.action is Action.KEEP and step.manifest is None:
            found, counts = Readiness(found.state, step.reason, found.again_at), False
        elif outcome.cause:
            found = replace(found, message=f"{found.message}; {outcome.cause}")
    awaits = outcome.result is Result.WAITING and bool(step.awaited)
    return Child(
        identity=step.identity,
        uid=live.uid if live else "",
        readiness=found,
        counts=counts,
        awaits=awaits,
        refused=outcome.result is Result.FAILED,
    )


def _explained(children: tuple[Child, ...], outcomes: Sequence[Outcome]) -> tuple[Child, ...]:
    """The children, those that wait with the reason why what they wait for isn't there yet."""
    if not any(child.awaits for child in children):
        return children
    by_identity = {child.identity: child for child in children}
    steps = {outcome.step.identity: outcome.step for outcome in reversed(outcomes)}
    return tuple(
        replace(child, readiness=replace(child.readiness, message=_waiting_text(steps[child.identity], by_identity)))
        if child.awaits
        else child
        for child in children
    )


def _roots_first(children: tuple[Child, ...], outcomes: Sequence[Outcome]) -> Sequence[Child]:
    """The children, those that only wait for another one that waits after all others."""
    waiting = {child.identity for child in children if child.awaits}
    behind = {
        outcome.step.identity
        for outcome in outcomes
        if outcome.step.identity in waiting and any(edge.target in waiting for edge in outcome.step.after)
    }
    return sorted(children, key=lambda child: child.identity in behind) if behind else children


def _waiting_text(step: Step, children: Mapping[Identity, Child]) -> str:
    causes: dict[Question, str] = dict(step.lost)
    for edge in step.after:
        if edge.target in children:
            causes[edge.use.question] = _cause(children[edge.target])
    parts = []
    for awaited in step.awaited:
        cause = causes.get(awaited.question, "")
        parts.append(f"{awaited} ({_bounded(cause, CAUSE_LIMIT)})" if cause else str(awaited))
    return "waiting for " + " and ".join(parts)


def _cause(child: Child) -> str:
    """Why a child isn't ready, as who waits for it says it; '' where there is nothing to say."""
    message = child.readiness.message
    match child.readiness.state:
        case State.FAILED:
            return message if child.refused else f"it failed: {message}"
        case State.WAITING:
            return f"it is {message}" if message.startswith("waiting") else f"it {message}"
        case State.TERMINATING:
            return "it is being deleted"
        case State.IN_PROGRESS:
            return message
        case State.CURRENT | State.NOT_FOUND:
            return ""


def _verdict(
    plan: Plan, problems: Sequence[RenderProblem], failures: Sequence[Outcome], children: Sequence[Child]
) -> Verdict:
    """The first of: what can't be rendered, what breaks a rule, what the API server refused, what is held, awaited,
    in progress.
    """
    if problems:
        causes = [str(problem) for problem in problems] + [_failure_text(failure) for failure in failures]
        return Verdict(ready=False, reason="RenderFailed", message=sentence(causes), stalled=True)
    for problem in Problem:
        if any(failure.problem is problem for failure in failures):
            ordered = sorted(failures, key=lambda failure: failure.problem is not problem)
            return Verdict(
                ready=False,
                reason=problem.value,
                message=sentence([_failure_text(failure) for failure in ordered]),
                stalled=not any(failure.passing for failure in failures),
            )
    if plan.held:
        return Verdict(ready=False, reason="PruneHeld", message=plan.held, stalled=True)
    waiting = [_child_text(child) for child in children if child.awaits]
    waiting += [f"{wait.place}: {wait}" for wait in plan.rendered.waits if wait.identity is None]
    if waiting:
        broken = [_child_text(child) for child in children if child.counts and child.readiness.state is State.FAILED]
        message = sentence([*broken, *waiting])
        barred = any(awaited.stalled for wait in plan.rendered.waits for awaited in wait.awaited)
        return Verdict(ready=False, reason="WaitingForDependency", message=message, stalled=bool(broken) or barred)
    unready = [child for child in children if child.counts and child.readiness.state is not State.CURRENT]
    failed = [child for child in unready if child.readiness.state is State.FAILED]
    if unready:
        ordered_children = sorted(unready, key=lambda child: child.readiness.state is not State.FAILED)
        return Verdict(
            ready=False,
            reason="Progressing",
            message=sentence([_child_text(child) for child in ordered_children]),
            stalled=bool(failed),
        )
    return Verdict(ready=True, reason="Ready", message=_ready_text(children))


def _contested(outcome: Outcome) -> Outcome:
    """A fight counts as a failure of its child, whatever became of this pass's step."""
    message = f"{outcome.step.identity}: {outcome.step.contest}"
    return replace(outcome, result=Result.FAILED, message=message, problem=Problem.CONFLICT, passing=False)


def _ready_text(children: Sequence[Child]) -> str:
    match len(children):
        case 0:
            return "no manifest is rendered"
        case 1:
            return f"{children[0].identity} is ready"
        case count:
            return f"all {count} children are ready"


def _failure_text(failure: Outcome) -> str:
    place = failure.place or failure.step.place
    return f"{place}: {failure.message}" if place else failure.message


def _child_text(child: Child) -> str:
    return f"{child.identity}: {child.readiness.message or child.readiness.state}"


def sentence(causes: Sequence[str]) -> str:
    """The causes in one message; where they don't fit, the long ones are shortened, so that each has its place."""
    more = f"; and {len(causes) - CAUSES_LIMIT} more" if len(causes) > CAUSES_LIMIT else ""
    told, room = causes[:CAUSES_LIMIT], MESSAGE_LIMIT - len(more)
    if len("; ".join(told)) > room:
        told = [shortened(cause, room // len(told) - 2) for cause in told]
    return "; ".join(told) + more


def shortened(text: str, limit: int) -> str:
    """The text without its middle where it is longer than `limit` characters: in an API server's words, that is where
    the value is quoted; the field stands before it, the reason after it.
    """
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def _bounded(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _status(
    parent: Live, verdict: Verdict, children: Sequence[Child], own: Mapping[str, Any], now: float
) -> dict[str, Any]:
    status = {key: value for key, value in own.items() if key not in RESERVED}
    generation = parent.metadata.generation
    if generation:
        status["observedGeneration"] = generation
    status["conditions"] = _conditions(parent, verdict, now)
    ordered = sorted(children, key=lambda child: child.identity)
    status["resources"] = [_entry(child) for child in ordered[:RESOURCES_LIMIT]]
    return status


def _own_fields(parent: Live, own: StatusFields) -> Mapping[str, Any]:
    """The fields of the author's status template; where it failed, those that it gave before."""
    status, owned = parent.body.get("status"), parent.owned_fields("status")
    if not own.problems or not owned or not isinstance(status, Mapping):
        return own.fields
    names = json.loads(owned).get("f:status", {})
    return {key: value for key, value in status.items() if f"f:{key}" in names}


def _entry(child: Child) -> dict[str, Any]:
    identity = child.identity
    entry = {
        "group": identity.group,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "uid": child.uid,
        "state": child.readiness.state.value,
        "message": _bounded(child.readiness.message, ENTRY_LIMIT),
    }
    return {key: value for key, value in entry.items() if value or key in ("group", "kind", "name", "state")}


def _conditions(parent: Live, verdict: Verdict, now: float) -> list[dict[str, Any]]:
    wanted = [("Ready", verdict.ready)]
    if not verdict.ready and verdict.stalled:
        wanted.append(("Stalled", True))
    elif not verdict.ready:
        wanted.append(("Reconciling", True))
    return [_condition_of(parent, kind, truth, verdict, now) for kind, truth in wanted]


def _condition_of(parent: Live, kind: str, truth: bool, verdict: Verdict, now: float) -> dict[str, Any]:
    status = "True" if truth else "False"
    before = live_condition(parent, kind)
    unmoved = before is not None and before.get("status") == status and before.get("lastTransitionTime")
    condition: dict[str, Any] = {
        "type": kind,
        "status": status,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": before["lastTransitionTime"] if before and unmoved else timestamp(now),
    }
    if parent.metadata.generation:
        condition["observedGeneration"] = parent.metadata.generation
    return condition


def live_condition(parent: Live, kind: str) -> Mapping[str, Any] | None:
    """The condition of a type that the live parent has, None where it has none."""
    status = parent.body.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    if isinstance(conditions, list):
        for condition in conditions:
            if isinstance(condition, Mapping) and condition.get("type") == kind:
                return condition
    return None


def timestamp(seconds: float) -> str:
    """A moment (seconds since the epoch) as Kubernetes' metav1.Time writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _holds(current: Any, desired: Any) -> bool:
    """Whether the current value has everything that is desired; mappings may hold fields of other writers beside it."""
    if isinstance(desired, Mapping):
        return isinstance(current, Mapping) and all(
            key in current and _holds(current[key], value) for key, value in desired.items()
        )
    if isinstance(desired, list):
        same_length = isinstance(current, list) and len(current) == len(desired)
        return same_length and all(_holds(item, wanted) for item, wanted in zip(current, desired, strict=True))
    return bool(current == desired) and isinstance(current, bool) == isinstance(desired, bool)


def _holds_conditions(current: Mapping[str, Any], desired: Sequence[Mapping[str, Any]]) -> bool:
    """Conditions are told apart by type, and other writers' stand beside ours."""
    conditions = current.get("conditions", ())
    by_type = {each.get("type"): each for each in conditions if isinstance(each, Mapping)}
    return all(_holds(by_type.get(condition.get("type")), condition) for condition in desired)


def _covered(owned: Mapping[str, Any], desired: Any) -> bool:
    """Whether every field of a fieldsV1 tree is among the desired ones; what isn't would be removed by the next
    write.
    """
    for key, below in owned.items():
        kind, _, name = key.partition(":")
        if kind == "f":
            if not isinstance(desired, Mapping) or name not in desired or not _covered(below, desired[name]):
                return False
        elif kind == "k":
            keys = json.loads(name)
            items = desired if isinstance(desired, list) else []
            matches = [item for item in items if all(item.get(field) == value for field, value in keys.items())]
            if not matches or not _covered(below, matches[0]):
                return False
        elif kind == "v" and (not isinstance(desired, list) or json.loads(name) not in desired):
            return False
    return True
