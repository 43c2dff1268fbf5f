"""Makes the status of a parent: its conditions, `observedGeneration` and `resources`, by the conventions of Kubernetes.

Promises:
- A status always has the condition `Ready`. It has `Reconciling`, `Stalled` and `Suspended` only while they are true
  (kstatus). Each condition has an `observedGeneration`, a reason, and a message that names the object and the cause.
- While a parent is suspended, `observedGeneration` stays at the generation that was applied last.
- `lastTransitionTime` changes only when the status of its condition does. No other field depends on the clock.
- The author's own conditions follow those of the operator.
- The operator limits the length of messages and lists. A status that does not fit into its parent (etcd takes 1.5 MiB
  of an object by default, its spec included) loses `resources` first, and only then the author's part. The whole
  status is tried again when the parent's spec has changed, or when the status is smaller than the one that didn't fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.json_codec import encode, mapping
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import bounded
from ssa_operator.objects.readiness import condition_of
from ssa_operator.objects.scalars import timestamp
from ssa_operator.reconcile.status.author_status import OPERATOR_TYPES, AuthorStatus, ConditionType
from ssa_operator.reconcile.status.child_status import ChildStatus
from ssa_operator.reconcile.status.verdict import Verdict
from ssa_operator.schema.operator_fields import RESERVED

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
    generation = parent.metadata.generation
    if verdict.suspended:
        reported = mapping(parent.body.get("status")).get("observedGeneration")
        generation = reported if isinstance(reported, int) else 0
    if generation:
        status["observedGeneration"] = generation
    conditions = _conditions(parent, verdict, generation)
    observed = {"observedGeneration": generation} if generation else {}
    conditions += [{**observed, **condition} for condition in own.conditions]
    status["conditions"] = [with_transition_time(parent, condition, now) for condition in conditions]
    ordered = sorted(children, key=lambda child: child.identity)
    status["resources"] = [resource_entry(child) for child in ordered[:RESOURCES_LIMIT]]
    return status


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
    before = condition_of(parent.body, condition["type"])
    unchanged = before is not None and before.get("status") == condition["status"] and before.get("lastTransitionTime")
    return {**condition, "lastTransitionTime": unchanged or timestamp(now)}


class Truncation(Struct, frozen=True, kw_only=True):
    """A whole status that did not fit."""

    size: int
    """Its bytes."""
    generation: int | None
    """The parent's generation."""
    left_out: int = -1
    """How many of OMISSIONS are left out, minus one."""


OMISSIONS = ("resources", "resources and the fields of the status template")
"""What is left out of a status: a part, or more of it if the rest does not fit either."""


def fitting(status: Mapping[str, Any], known: Truncation | None, parent: LiveObject, now: float) -> Mapping[str, Any]:
    """The status, or the rest of it if it is known not to fit; `now` is in seconds since the epoch."""
    if known is None or known.generation != parent.metadata.generation or len(encode(status)) < known.size:
        return status
    return _without(status, known.left_out, parent, now)


def truncate(
    status: Mapping[str, Any], known: Truncation | None, parent: LiveObject, now: float
) -> tuple[Mapping[str, Any], Truncation] | None:
    """What is left of a status that did not fit, and what to remember of it; None if nothing more can be left out."""
    generation = parent.metadata.generation
    if known is None or ConditionType.STATUS_TRUNCATED not in _types(status) or known.generation != generation:
        known = Truncation(size=len(encode(status)), generation=generation)
    for left_out in range(known.left_out + 1, len(OMISSIONS)):
        smaller = _without(status, left_out, parent, now)
        if smaller.keys() != status.keys() or _types(smaller) < _types(status):
            return smaller, replace(known, left_out=left_out)
    return None


def _without(status: Mapping[str, Any], left_out: int, parent: LiveObject, now: float) -> Mapping[str, Any]:
    left = {key: value for key, value in status.items() if key != "resources" and (not left_out or key in RESERVED)}
    kinds = {*(OPERATOR_TYPES if left_out else _types(status))} - {_TRUNCATED}
    conditions = [each for each in status.get("conditions", ()) if each["type"] in kinds]
    if not conditions:
        return left
    message = f"{OMISSIONS[left_out]} are left out, because the object would be too large with them; {_ADVICE}"
    why = Verdict(ready=False, reason="TooLarge", message=message)
    whole = _condition(ConditionType.STATUS_TRUNCATED, "True", why, parent.metadata.generation)
    whole = with_transition_time(parent, whole, now)
    # The schema of the CRD declares the same fields of each condition.
    return {**left, "conditions": [*conditions, {key: whole[key] for key in whole if key in conditions[0]}]}


_TRUNCATED, _ADVICE = ConditionType.STATUS_TRUNCATED.value, "make the spec smaller or divide it"


def _types(status: Mapping[str, Any]) -> set[str]:
    return {each["type"] for each in status.get("conditions", ())}
