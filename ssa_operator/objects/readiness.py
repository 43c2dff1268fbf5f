"""Whether an object is ready, by the rules of kstatus (sigs.k8s.io/cli-utils pkg/kstatus/status).

Promises:
- The rules apply from general to specific: deletion, observed generation, `Reconciling`, `Stalled`, the kind's own
  rule, the `Ready` condition. If none applies, the object is Current.
- The expression of an author (`ready-when`) replaces all of them but deletion: a failed Job whose expression is false
  is InProgress, and one whose expression is true is Current.
- Each kind has one function and one row in `RULES`. A rule sends no request and reads no clock: `now` is an argument.
- No object is ready too early: a workload that its controller hasn't observed yet is InProgress.
- Time alone makes no object usable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.scalars import seconds_of

Body: TypeAlias = Mapping[str, Any]

UNSCHEDULABLE_GRACE = 15.0
"""Seconds that a pod may be unschedulable before it counts as failed (kstatus's scheduleWindow)."""
UNWRITTEN_STATUS_GRACE = 300.0
"""Seconds since its creation that an object may be without a status before the message gives advice. Controllers write
a first status within seconds; five minutes are enough to start one, too.
"""


class ReadinessState(StrEnum):
    """The state of a child, as in `status.resources[].state`."""

    CURRENT = "Current"
    """It matches its manifest, and its rule of readiness holds."""
    IN_PROGRESS = "InProgress"
    """Its controller is at work."""
    FAILED = "Failed"
    """It reports a failure, or the API server refused it."""
    TERMINATING = "Terminating"
    """It is being deleted."""
    WAITING = "Waiting"
    """It isn't applied yet, because it depends on another object. The message names it."""
    NOT_FOUND = "NotFound"
    """It doesn't exist, though it should."""


class Readiness(Struct, frozen=True):
    """Whether an object is ready, and if not, why."""

    state: ReadinessState
    message: str = ""
    """Why it isn't Current; '' if it is."""
    again_at: float | None = None
    """When the same object may have another state or message, in seconds since the epoch; None for never."""
    awaits_use: bool = False
    """Whether it becomes Current only when another object uses it, as a claim that waits for its first consumer."""

    @property
    def usable(self) -> bool:
        """Whether dependants need not wait for the object."""
        return self.state is ReadinessState.CURRENT or self.awaits_use


CURRENT = Readiness(ReadinessState.CURRENT)
_OUTDATED = "its controller has not observed the latest change"
# It omits the current duration, because each new message would be a write of the parent's status.
_UNWRITTEN = (
    f"nothing has written its status for at least {UNWRITTEN_STATUS_GRACE / 60:.0f} minutes: its controller may not "
    "run, or may never write conditions; if it never does, set ssa-operator.dev/ready-when, or ssa-operator.dev/wait: "
    '"false"'
)
Rule: TypeAlias = Callable[[Body, float], Readiness]


def readiness(
    body: Body, now: float, *, reports_status: bool = False, ready_when: Predicate | None = None
) -> Readiness:
    """The readiness of a live object; `now` is in seconds since the epoch. `ready_when` replaces the built-in rules.

    `reports_status` says that a controller writes the status of the object's kind, so that the object isn't ready
    before. kstatus doesn't know this, and returns Current.
    """
    return _judged(body, now, reports_status, ready_when)[1]


def rule_of(body: Body, now: float, *, reports_status: bool = False, ready_when: Predicate | None = None) -> str:
    """The rule that `readiness` with these arguments follows, in words."""
    return _judged(body, now, reports_status, ready_when)[0]


def _judged(body: Body, now: float, reports_status: bool, ready_when: Predicate | None) -> tuple[str, Readiness]:
    metadata = body.get("metadata", {})
    if metadata.get("deletionTimestamp"):
        return "its deletion", Readiness(ReadinessState.TERMINATING, "is being deleted")
    if ready_when is not None:
        return f"ready-when {ready_when.shown}", _by_predicate(body, ready_when)
    status = _status(body)
    observed = status.get("observedGeneration")
    if isinstance(observed, int) and observed != metadata.get("generation", observed):
        return "status.observedGeneration", _in_progress(_OUTDATED)
    if status and (reconciling := condition_of(body, "Reconciling")) and reconciling.get("status") == "True":
        return "its condition Reconciling", _in_progress(_condition_text(reconciling))
    if status and (stalled := condition_of(body, "Stalled")) and stalled.get("status") == "True":
        return "its condition Stalled", _failed(_condition_text(stalled))
    if reports_status and not status:
        return "its first status", _without_status(metadata, now)
    if reports_status and _is_outdated(body):
        return "observedGeneration of its condition Ready", _in_progress(_OUTDATED)
    kind = GroupKind.of(body.get("apiVersion", ""), body.get("kind", ""))
    rule = RULES.get(kind)
    if rule is not None:
        return _RULE_NAMES[kind], rule(body, now)
    ready = condition_of(body, "Ready")
    return ("it exists" if ready is None else "its condition Ready"), _ready_condition(ready)


def is_rolled_out(body: Body) -> bool:
    """Whether a workload that is Current has no pod of a former template. With `OnDelete` or a partition, a StatefulSet
    or DaemonSet keeps such pods.
    """
    counts = {name: count for name, count in _status(body).items() if type(count) is int}
    total = counts.get("replicas", 0) if "updatedReplicas" in counts or "updateRevision" in _status(body) else 0
    updated, scheduled = counts.get("updatedReplicas", 0), counts.get("updatedNumberScheduled", 0)
    return updated >= total and scheduled >= counts.get("desiredNumberScheduled", 0)


def _by_predicate(body: Body, ready_when: Predicate) -> Readiness:
    judgement = ready_when.judge(body)
    if judgement.holds:
        return CURRENT
    cause = f": {judgement.cause}" if judgement.cause else ""
    return _in_progress(f"ready-when {ready_when.shown} is false{cause}")


def _without_status(metadata: Body, now: float) -> Readiness:
    """The readiness of an object that awaits its first status."""
    created = metadata.get("creationTimestamp")
    due = _seconds(created) + UNWRITTEN_STATUS_GRACE if created else None
    if due is not None and now >= due:
        return _in_progress(_UNWRITTEN)
    return Readiness(ReadinessState.IN_PROGRESS, "its controller has not written its status yet", again_at=due)


def _is_outdated(body: Body) -> bool:
    """Whether the status isn't about the object's present generation."""
    ready, generation = condition_of(body, "Ready") or {}, body.get("metadata", {}).get("generation", 0)
    observed = ready.get("observedGeneration")
    # "if .metadata.generation is currently 12, but the .status.conditions[x].observedGeneration is 9, the condition is
    # out of date" (metav1.Condition)
    return isinstance(observed, int) and observed < generation


def _ready_condition(ready: Mapping[str, Any] | None) -> Readiness:
    if ready is None or ready.get("status") == "True":
        return CURRENT
    return _in_progress(_condition_text(ready))


def _deployment(body: Body, _now: float) -> Readiness:
    progressing = condition_of(body, "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return _failed(_condition_text(progressing))
    found = _deployment_counts(body)
    if _spec(body).get("paused") and found.state is ReadinessState.IN_PROGRESS:
        return _in_progress(f"is paused: {found.message}")
    return found


def _deployment_counts(body: Body) -> Readiness:
    failure = condition_of(body, "ReplicaFailure")
    status, wanted = _status(body), _spec(body).get("replicas", 1)
    if "observedGeneration" not in status:
        return _in_progress("its controller has not observed it")
    total = status.get("replicas", 0)
    for state, count in (
        ("updated", status.get("updatedReplicas", 0)),
        ("available", status.get("availableReplicas", 0)),
    ):
        if count < wanted:
            why = f": {_condition_text(failure)}" if failure and failure.get("status") == "True" else ""
            return _in_progress(f"{count} of {wanted} replicas {state}{why}")
    if total > status.get("updatedReplicas", 0) or total > wanted:
        return _in_progress(f"{total - min(wanted, status.get('updatedReplicas', 0))} old replicas are still there")
    if status.get("readyReplicas", 0) < wanted:
        return _in_progress(f"{status.get('readyReplicas', 0)} of {wanted} replicas ready")
    return CURRENT


def _replica_set(body: Body, _now: float) -> Readiness:
    status, wanted = _status(body), _spec(body).get("replicas", 1)
    failure = condition_of(body, "ReplicaFailure")
    if failure and failure.get("status") == "True":
        return _in_progress(_condition_text(failure))
    if "observedGeneration" not in status:
        return _in_progress("its controller has not observed it")
    for count in ("replicas", "readyReplicas", "availableReplicas"):
        if status.get(count, 0) < wanted:
            return _in_progress(f"{count} {status.get(count, 0)} of {wanted}")
    if status.get("replicas", 0) > wanted:
        return _in_progress(f"{status['replicas'] - wanted} replicas too many")
    return CURRENT


def _stateful_set(body: Body, _now: float) -> Readiness:
    spec, status = _spec(body), _status(body)
    strategy = spec.get("updateStrategy", {})
    if strategy.get("type") == "OnDelete":
        return CURRENT
    if "observedGeneration" not in status:
        return _in_progress("its controller has not observed it")
    wanted = spec.get("replicas", 1)
    for state, count in (("created", status.get("replicas", 0)), ("ready", status.get("readyReplicas", 0))):
        if count < wanted:
            return _in_progress(f"{count} of {wanted} replicas {state}")
    if status.get("replicas", 0) > wanted:
        return _in_progress(f"{status['replicas'] - wanted} replicas too many")
    partition = strategy.get("rollingUpdate", {}).get("partition", 0)
    if partition:
        updated = status.get("updatedReplicas", 0)
        return CURRENT if updated >= wanted - partition else _in_progress(f"{updated} of {wanted - partition} updated")
    updated = status.get("updatedReplicas", 0)
    # Where a change was taken back, both are the same revision before the pods of the other one are replaced.
    behind = updated < wanted if "updateRevision" in status else False
    if behind or status.get("currentRevision") != status.get("updateRevision"):
        return _in_progress(f"{updated} of {wanted} replicas updated")
    return CURRENT


def _daemon_set(body: Body, _now: float) -> Readiness:
    status = _status(body)
    if "observedGeneration" not in status:
        return _in_progress("its controller has not observed it")
    wanted = status.get("desiredNumberScheduled", 0)
    if _spec(body).get("updateStrategy", {}).get("type") == "OnDelete":
        counts: tuple[str, ...] = ("currentNumberScheduled", "numberAvailable", "numberReady")
    else:
        counts = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    for count in counts:
        if status.get(count, 0) < wanted:
            return _in_progress(f"{count} {status.get(count, 0)} of {wanted}")
    return CURRENT


def _job(body: Body, _now: float) -> Readiness:
    """A Job is Current when it is Complete. kstatus calls a running Job Current, too, but dependants wait for its
    result.
    """
    for kind, state in (("Failed", ReadinessState.FAILED), ("Complete", ReadinessState.CURRENT)):
        condition = condition_of(body, kind)
        if condition and condition.get("status") == "True":
            return Readiness(state, _condition_text(condition) if state is ReadinessState.FAILED else "")
    if _spec(body).get("suspend"):
        return _in_progress("is suspended")
    status = _status(body)
    return _in_progress(f"{status.get('succeeded', 0)} of {_spec(body).get('completions', 1)} completions")


def _pod(body: Body, now: float) -> Readiness:
    status = _status(body)
    phase = status.get("phase")
    if phase == "Succeeded":
        return CURRENT
    if phase == "Failed":
        return _failed(status.get("message") or status.get("reason") or "its phase is Failed")
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in (
            "CrashLoopBackOff",
            "ImagePullBackOff",
            "ErrImagePull",
            "InvalidImageName",
            "CreateContainerConfigError",
        ):
            return _failed(
                f"container {container.get('name')}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
            )
    ready = condition_of(body, "Ready")
    if ready and ready.get("status") == "True":
        return CURRENT
    scheduled = condition_of(body, "PodScheduled")
    if scheduled and scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        deadline = _seconds(scheduled.get("lastTransitionTime")) + UNSCHEDULABLE_GRACE
        if now >= deadline:
            return _failed(_condition_text(scheduled))
        return Readiness(ReadinessState.IN_PROGRESS, _condition_text(scheduled), again_at=deadline)
    return _in_progress(_condition_text(ready) if ready else f"its phase is {phase or 'unknown'}")


def _persistent_volume_claim(body: Body, _now: float) -> Readiness:
    phase = _status(body).get("phase")
    if phase == "Lost":
        return _failed("its volume is lost")
    if phase == "Bound":
        return CURRENT
    # With volumeBindingMode WaitForFirstConsumer its first pod binds it; in the other mode the scheduler waits for it
    # (https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode).
    return Readiness(ReadinessState.IN_PROGRESS, f"its phase is {phase or 'unknown'}", awaits_use=True)


def _persistent_volume(body: Body, _now: float) -> Readiness:
    status = _status(body)
    if status.get("phase") == "Failed":
        return _failed(status.get("message") or "its phase is Failed")
    return (
        CURRENT if status.get("phase") in ("Available", "Bound", "Released") else _in_progress("is not available yet")
    )


def _service(body: Body, _now: float) -> Readiness:
    if _spec(body).get("type") != "LoadBalancer" or _status(body).get("loadBalancer", {}).get("ingress"):
        return CURRENT
    return _in_progress("is waiting for its load balancer")


def _namespace(body: Body, _now: float) -> Readiness:
    return CURRENT if _status(body).get("phase") == "Active" else _in_progress("is not active yet")


def _custom_resource_definition(body: Body, _now: float) -> Readiness:
    accepted = condition_of(body, "NamesAccepted")
    if accepted and accepted.get("status") == "False":
        return _failed(_condition_text(accepted))
    established = condition_of(body, "Established")
    if established and established.get("status") == "True":
        return CURRENT
    return _in_progress(_condition_text(established) if established else "is not established yet")


def _pod_disruption_budget(body: Body, _now: float) -> Readiness:
    return CURRENT if "observedGeneration" in _status(body) else _in_progress("its controller has not observed it")


def _api_service(body: Body, _now: float) -> Readiness:
    available = condition_of(body, "Available")
    if available and available.get("status") == "True":
        return CURRENT
    return _in_progress(_condition_text(available) if available else "is not available yet")


RULES: Mapping[GroupKind, Rule] = {
    GroupKind("", "Namespace"): _namespace,
    GroupKind("", "PersistentVolume"): _persistent_volume,
    GroupKind("", "PersistentVolumeClaim"): _persistent_volume_claim,
    GroupKind("", "Pod"): _pod,
    GroupKind("", "Service"): _service,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): _custom_resource_definition,
    GroupKind("apiregistration.k8s.io", "APIService"): _api_service,
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("apps", "Deployment"): _deployment,
    GroupKind("apps", "ReplicaSet"): _replica_set,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("batch", "Job"): _job,
    GroupKind("policy", "PodDisruptionBudget"): _pod_disruption_budget,
}

_RULE_NAMES = {kind: f"the rule for {kind}" for kind in RULES}


def _in_progress(message: str) -> Readiness:
    return Readiness(ReadinessState.IN_PROGRESS, message)


def _failed(message: str) -> Readiness:
    return Readiness(ReadinessState.FAILED, message)


def _spec(body: Body) -> Mapping[str, Any]:
    return body.get("spec") or {}


def _status(body: Body) -> Mapping[str, Any]:
    status = body.get("status")
    return status if isinstance(status, (dict, Mapping)) else {}


def conditions_of(body: Body) -> list[Mapping[str, Any]]:
    """The conditions of an object. Other values in `status.conditions` are ignored."""
    conditions = _status(body).get("conditions")
    return [each for each in conditions if isinstance(each, (dict, Mapping))] if isinstance(conditions, list) else []


def condition_of(body: Body, kind: str) -> Mapping[str, Any] | None:
    """The condition of a type, None without one."""
    for condition in conditions_of(body):
        if condition.get("type") == kind:
            return condition
    return None


def _condition_text(condition: Mapping[str, Any]) -> str:
    reason, message = condition.get("reason", ""), condition.get("message", "")
    return (
        f"{reason}: {message}"
        if reason and message
        else reason or message or f"{condition.get('type')} is {condition.get('status')}"
    )


def _seconds(timestamp: Any) -> float:
    """Seconds since the epoch of a time; 0 without one."""
    return seconds_of(timestamp) or 0.0
