"""Whether an object has become what its spec asks for.

Promises:
- The rules are kstatus's (sigs.k8s.io/cli-utils pkg/kstatus/status), from general to specific: deletion, observed
  generation, `Reconciling`, `Stalled`, the kind's own rule, the `Ready` condition, and otherwise Current.
- A kind is one function and one row of `RULES`; a rule fetches nothing and reads no clock: `now` is an argument.
- Nothing is called ready too early: a workload whose controller hasn't looked at it yet is InProgress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from ssa_operator.core.objects.identity import GroupKind, split_api_version

Body: TypeAlias = Mapping[str, Any]

UNSCHEDULABLE_GRACE = 15.0
"""Seconds for which a pod may be unschedulable before it counts as failed (kstatus's scheduleWindow)."""


class ReadinessState(StrEnum):
    """What is known of a child; the words of `status.resources[].state`."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    WAITING = "Waiting"
    NOT_FOUND = "NotFound"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A state, why (empty when Current), and the moment from which the same object has to be judged again, if any."""

    state: ReadinessState
    message: str = ""
    again_at: float | None = None
    awaits_use: bool = False

    @property
    def usable(self) -> bool:
        """Whether who reads the object need not wait: it is Current, or becomes so only by being used."""
        return self.state is ReadinessState.CURRENT or self.awaits_use


CURRENT = Readiness(ReadinessState.CURRENT)
_LATE = "its controller has not seen the latest change"
Rule: TypeAlias = Callable[[Body, float], Readiness]


def readiness(body: Body, now: float, *, status_kinds: bool = False) -> Readiness:
    """The readiness of a live object; `now` in seconds since the epoch, `announced`: whether its kind has a status that
    a controller writes, so that it isn't ready before. kstatus can't know that, and calls it Current.
    """
    metadata = body.get("metadata", {})
    if metadata.get("deletionTimestamp"):
        return Readiness(ReadinessState.TERMINATING, "is being deleted")
    observed = _status(body).get("observedGeneration")
    if isinstance(observed, int) and observed != metadata.get("generation", observed):
        return _in_progress(_LATE)
    if (reconciling := _condition(body, "Reconciling")) and reconciling.get("status") == "True":
        return _in_progress(_words(reconciling))
    if (stalled := _condition(body, "Stalled")) and stalled.get("status") == "True":
        return _failed(_words(stalled))
    if status_kinds and (unseen := _unseen(body)):
        return _in_progress(unseen)
    kind = GroupKind(split_api_version(body.get("apiVersion", ""))[0], body.get("kind", ""))
    return RULES.get(kind, _ready_condition)(body, now)


def _unseen(body: Body) -> str:
    """Why an announced status says nothing of the object as it is now, '' where it does."""
    if not _status(body):
        return "its controller has not written its status yet"
    ready, generation = _condition(body, "Ready") or {}, body.get("metadata", {}).get("generation", 0)
    seen = ready.get("observedGeneration")
    # "if .metadata.generation is currently 12, but the .status.conditions[x].observedGeneration is 9, the condition is
    # out of date" (metav1.Condition)
    return _LATE if isinstance(seen, int) and seen < generation else ""


def _ready_condition(body: Body, _now: float) -> Readiness:
    ready = _condition(body, "Ready")
    if ready is None or ready.get("status") == "True":
        return CURRENT
    return _in_progress(_words(ready))


def _deployment(body: Body, _now: float) -> Readiness:
    progressing = _condition(body, "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return _failed(_words(progressing))
    failure = _condition(body, "ReplicaFailure")
    status, wanted = _status(body), _spec(body).get("replicas", 1)
    if "observedGeneration" not in status:
        return _in_progress("its controller has not seen it")
    total = status.get("replicas", 0)
    for word, count in (
        ("updated", status.get("updatedReplicas", 0)),
        ("available", status.get("availableReplicas", 0)),
    ):
        if count < wanted:
            why = f": {_words(failure)}" if failure and failure.get("status") == "True" else ""
            return _in_progress(f"{count} of {wanted} replicas {word}{why}")
    if total > status.get("updatedReplicas", 0) or total > wanted:
        return _in_progress(f"{total - min(wanted, status.get('updatedReplicas', 0))} old replicas are still there")
    if status.get("readyReplicas", 0) < wanted:
        return _in_progress(f"{status.get('readyReplicas', 0)} of {wanted} replicas ready")
    return CURRENT


def _replica_set(body: Body, _now: float) -> Readiness:
    status, wanted = _status(body), _spec(body).get("replicas", 1)
    failure = _condition(body, "ReplicaFailure")
    if failure and failure.get("status") == "True":
        return _in_progress(_words(failure))
    if "observedGeneration" not in status:
        return _in_progress("its controller has not seen it")
    for word in ("replicas", "readyReplicas", "availableReplicas"):
        if status.get(word, 0) < wanted:
            return _in_progress(f"{word} {status.get(word, 0)} of {wanted}")
    if status.get("replicas", 0) > wanted:
        return _in_progress(f"{status['replicas'] - wanted} replicas too many")
    return CURRENT


def _stateful_set(body: Body, _now: float) -> Readiness:
    spec, status = _spec(body), _status(body)
    strategy = spec.get("updateStrategy", {})
    if strategy.get("type") == "OnDelete":
        return CURRENT
    if "observedGeneration" not in status:
        return _in_progress("its controller has not seen it")
    wanted = spec.get("replicas", 1)
    for word, count in (("created", status.get("replicas", 0)), ("ready", status.get("readyReplicas", 0))):
        if count < wanted:
            return _in_progress(f"{count} of {wanted} replicas {word}")
    if status.get("replicas", 0) > wanted:
        return _in_progress(f"{status['replicas'] - wanted} replicas too many")
    partition = strategy.get("rollingUpdate", {}).get("partition", 0)
    if partition:
        updated = status.get("updatedReplicas", 0)
        return CURRENT if updated >= wanted - partition else _in_progress(f"{updated} of {wanted - partition} updated")
    if status.get("currentRevision") != status.get("updateRevision"):
        return _in_progress(f"{status.get('updatedReplicas', 0)} of {wanted} replicas updated")
    return CURRENT


def _daemon_set(body: Body, _now: float) -> Readiness:
    status = _status(body)
    if "observedGeneration" not in status:
        return _in_progress("its controller has not seen it")
    wanted = status.get("desiredNumberScheduled", 0)
    if _spec(body).get("updateStrategy", {}).get("type") == "OnDelete":
        counted: tuple[str, ...] = ("currentNumberScheduled", "numberAvailable", "numberReady")
    else:
        counted = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    for word in counted:
        if status.get(word, 0) < wanted:
            return _in_progress(f"{word} {status.get(word, 0)} of {wanted}")
    return CURRENT


def _job(body: Body, _now: float) -> Readiness:
    """A Job is Current when it is Complete; kstatus calls it so once it runs, but who waits for a Job waits for its
    work.
    """
    for kind, state in (("Failed", ReadinessState.FAILED), ("Complete", ReadinessState.CURRENT)):
        condition = _condition(body, kind)
        if condition and condition.get("status") == "True":
            return Readiness(state, _words(condition) if state is ReadinessState.FAILED else "")
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
    ready = _condition(body, "Ready")
    if ready and ready.get("status") == "True":
        return CURRENT
    scheduled = _condition(body, "PodScheduled")
    if scheduled and scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        deadline = _seconds(scheduled.get("lastTransitionTime")) + UNSCHEDULABLE_GRACE
        if now >= deadline:
            return _failed(_words(scheduled))
        return Readiness(ReadinessState.IN_PROGRESS, _words(scheduled), again_at=deadline)
    return _in_progress(_words(ready) if ready else f"its phase is {phase or 'unknown'}")


def _claim(body: Body, _now: float) -> Readiness:
    phase = _status(body).get("phase")
    if phase == "Lost":
        return _failed("its volume is lost")
    if phase == "Bound":
        return CURRENT
    # With volumeBindingMode WaitForFirstConsumer it is bound for its first pod; in the other mode the scheduler waits
    # (https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode).
    return Readiness(ReadinessState.IN_PROGRESS, f"its phase is {phase or 'unknown'}", awaits_use=True)


def _volume(body: Body, _now: float) -> Readiness:
    status = _status(body)
    if status.get("phase") == "Failed":
        return _failed(status.get("message") or "its phase is Failed")
    return (
        CURRENT if status.get("phase") in ("Available", "Bound", "Released") else _in_progress("is not available yet")
    )


def _service(body: Body, _now: float) -> Readiness:
    if _spec(body).get("type") != "LoadBalancer" or _status(body).get("loadBalancer", {}).get("ingress"):
        return CURRENT
    return _in_progress("waits for its load balancer")


def _namespace(body: Body, _now: float) -> Readiness:
    return CURRENT if _status(body).get("phase") == "Active" else _in_progress("is not active yet")


def _definition(body: Body, _now: float) -> Readiness:
    refused = _condition(body, "NamesAccepted")
    if refused and refused.get("status") == "False":
        return _failed(_words(refused))
    established = _condition(body, "Established")
    if established and established.get("status") == "True":
        return CURRENT
    return _in_progress(_words(established) if established else "is not established yet")


def _disruption_budget(body: Body, _now: float) -> Readiness:
    return CURRENT if "observedGeneration" in _status(body) else _in_progress("its controller has not seen it")


def _api_service(body: Body, _now: float) -> Readiness:
    available = _condition(body, "Available")
    if available and available.get("status") == "True":
        return CURRENT
    return _in_progress(_words(available) if available else "is not available yet")


RULES: Mapping[GroupKind, Rule] = {
    GroupKind("", "Namespace"): _namespace,
    GroupKind("", "PersistentVolume"): _volume,
    GroupKind("", "PersistentVolumeClaim"): _claim,
    GroupKind("", "Pod"): _pod,
    GroupKind("", "Service"): _service,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    GroupKind("apiregistration.k8s.io", "APIService"): _api_service,
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("apps", "Deployment"): _deployment,
    GroupKind("apps", "ReplicaSet"): _replica_set,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("batch", "Job"): _job,
    GroupKind("policy", "PodDisruptionBudget"): _disruption_budget,
}


def _in_progress(message: str) -> Readiness:
    return Readiness(ReadinessState.IN_PROGRESS, message)


def _failed(message: str) -> Readiness:
    return Readiness(ReadinessState.FAILED, message)


def _spec(body: Body) -> Mapping[str, Any]:
    return body.get("spec") or {}


def _status(body: Body) -> Mapping[str, Any]:
    status = body.get("status")
    return status if isinstance(status, Mapping) else {}


def _condition(body: Body, kind: str) -> Mapping[str, Any] | None:
    conditions = _status(body).get("conditions")
    if not isinstance(conditions, list):
        return None
    for condition in conditions:
        if isinstance(condition, Mapping) and condition.get("type") == kind:
            return condition
    return None


def _words(condition: Mapping[str, Any]) -> str:
    reason, message = condition.get("reason", ""), condition.get("message", "")
    return (
        f"{reason}: {message}"
        if reason and message
        else reason or message or f"{condition.get('type')} is {condition.get('status')}"
    )


def _seconds(timestamp: Any) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0 where there is none."""
    return datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) else 0.0
