"""Makes the status of a parent: its conditions, `observedGeneration` and `resources`, by the conventions of Kubernetes.

Promises:
- A status always has the condition `Ready`. It has `Reconciling`, `Stalled` and `Suspended` only while they are true
  (kstatus). Each condition has an `observedGeneration`, a reason, and a message that names the object and the cause.
- While a parent is suspended, `observedGeneration` stays at the generation that was applied last.
- `lastTransitionTime` changes only when the status of its condition does. No other field depends on the clock.
- The author's own conditions follow those of the operator.
- The operator limits the length of messages and lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import bounded
from ssa_operator.reconcile.status.author_status import AuthorStatus, ConditionType
from ssa_operator.reconcile.status.child_status import ChildStatus
from ssa_operator.reconcile.status.verdict import Verdict

ENTRY_LIMIT = 512
"""Characters of the message of one child."""

RESOURCES_LIMIT = 1000
"""Children in the list; the verdict counts all."""


def make_status(
    parent: LiveObject, verdict: Verdict, children: Sequence[ChildStatus], own: AuthorStatus, now: float
) -> dict[str, Any]:
    """The parent's whole status; `own` is the author's part of it, `now` is in seconds since the
    epoch.
    """
    status = dict(own.fields)
    generation = _reported_generation(parent) if verdict.suspended else parent.metadata.generation
    if generation:
        status["observedGeneration"] = generation
    conditions = _conditions(parent, verdict, generation)
    observed = {"observedGeneration": generation} if generation else {}
    conditions += [{**observed, **condition} for condition in own.conditions]
    status["conditions"] = [with_transition_time(parent, condition, now) for condition in conditions]
    ordered = sorted(children, key=lambda child: child.identity)
    status["resources"] = [resource_entry(child) for child in ordered[:RESOURCES_LIMIT]]
    return status


def _reported_generation(parent: LiveObject) -> int | None:
    """The `observedGeneration` of the live status, None if it has none."""
    status = parent.body.get("status")
    generation = status.get("observedGeneration") if isinstance(status, Mapping) else None
    return generation if isinstance(generation, int) else None


def resource_entry(child: ChildStatus) -> dict[str, Any]:
    """A child as `status.resources` lists it."""
    identity = child.identity
    entry = {
        "group": identity.group,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "uid": child.uid,
        "state": child.readiness.state.value,
        "message": bounded(child.readiness.message, ENTRY_LIMIT),
    }
    return {key: value for key, value in entry.items() if value or key in ("group", "kind", "name", "state")}


def _conditions(parent: LiveObject, verdict: Verdict, generation: int | None) -> list[dict[str, Any]]:
    conditions = [_condition(ConditionType.READY, "True" if verdict.ready else "False", verdict, generation)]
    if not verdict.ready and verdict.stalled:
        conditions.append(_condition(ConditionType.STALLED, "True", verdict, generation))
    elif not verdict.ready and not verdict.suspended:
        conditions.append(_condition(ConditionType.RECONCILING, "True", verdict, generation))
    if verdict.suspended:
        why = replace(verdict, reason="Suspended", message=verdict.suspended)
        conditions.append(_condition(ConditionType.SUSPENDED, "True", why, parent.metadata.generation))
    return conditions


def _condition(kind: ConditionType, status: str, why: Verdict, generation: int | None) -> dict[str, Any]:
    condition: dict[str, Any] = {"type": kind.value, "status": status, "reason": why.reason, "message": why.message}
    return {**condition, "observedGeneration": generation} if generation else condition


def with_transition_time(parent: LiveObject, condition: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The condition with its `lastTransitionTime`; `now` is in seconds since the epoch."""
    before = live_condition(parent, condition["type"])
    unchanged = before is not None and before.get("status") == condition["status"] and before.get("lastTransitionTime")
    return {**condition, "lastTransitionTime": unchanged or timestamp(now)}


def live_condition(parent: LiveObject, kind: str) -> Mapping[str, Any] | None:
    """The condition of a type in the live status, None without one."""
    status = parent.body.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    if isinstance(conditions, list):
        for condition in conditions:
            if isinstance(condition, Mapping) and condition.get("type") == kind:
                return condition
    return None


def timestamp(seconds: float) -> str:
    """A moment (seconds since the epoch) as Kubernetes' metav1.Time writes it."""
    return f"{datetime.fromtimestamp(int(seconds), UTC).replace(tzinfo=None).isoformat()}Z"
