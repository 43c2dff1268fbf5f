"""Finds the failed pod because of which a workload isn't ready: the workload's own status only counts its pods.

Promises:
- The operator checks the pods of a workload, and the Events of an object, only after it hasn't been ready for a while,
  and then at growing intervals. For an object that is ready, it sends no request.
- The operator doesn't check the pods of a workload that its controller hasn't observed, nor of a parent that is being
  deleted.
- A failure of the present revision comes before one of a former revision. If the update of a StatefulSet waits for a
  pod of a former revision, the message says so and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import UNSCHEDULABLE_GRACE, Readiness, ReadinessState, readiness
from ssa_operator.reconcile.pod_failures.workload_events import has_events, is_paused, lacks_pods

POD = GroupKind("", "Pod")

WORKLOADS = frozenset({
    GroupKind("apps", "Deployment"), GroupKind("apps", "ReplicaSet"), GroupKind("apps", "StatefulSet"),
    GroupKind("apps", "DaemonSet"), GroupKind("batch", "Job"),
})  # fmt: skip

FIRST_CHECK_AFTER = UNSCHEDULABLE_GRACE + 1
"""Seconds until the first check of a workload's pods; each further interval is four times as long."""

LONGEST_INTERVAL = 300.0
"""Seconds between two checks at most."""


class PodCheck(Struct, frozen=True):
    """The checks of the pods of a workload that isn't ready."""

    generation: int
    """The generation of the workload."""
    due: float
    """When the next check is due, in seconds on the process's monotonic clock."""
    checks: int = 0
    """How often the pods were checked."""
    cause: str = ""
    """The failure that the last check found, '' for none."""

    def after_check(self, cause: str, monotonic: float) -> PodCheck:
        """The state after another check, which found this cause."""
        checks = self.checks + 1
        interval = min(LONGEST_INTERVAL, FIRST_CHECK_AFTER * 4.0 ** min(checks, 8))
        return PodCheck(self.generation, monotonic + interval, checks, cause)


def pod_check(live: LiveObject, before: PodCheck | None, found: Readiness, monotonic: float) -> PodCheck | None:
    """The checks of a live object's pods or Events; None if it is ready or paused, its own status has the cause, or
    its kind has none. `found` is its readiness, `monotonic` is in seconds on the process's monotonic clock.
    """
    if live.identity.group_kind in WORKLOADS:
        if not _is_observed(live.body) or not (selector(live) or lacks_pods(live.body)):
            return None
    elif is_paused(live.body) or not has_events(live.identity.group_kind):
        return None
    state = found.state
    if state is ReadinessState.IN_PROGRESS or (state is ReadinessState.FAILED and live.identity.kind != "Job"):
        generation = live.metadata.generation
        known = before is not None and before.generation == generation
        return before if known else PodCheck(generation, monotonic + FIRST_CHECK_AFTER)
    return None


def selector(live: LiveObject) -> str | None:
    """The label selector of a workload's pods, None if the workload has none, or one with expressions."""
    spec_selector: Any = (live.body.get("spec") or {}).get("selector") or {}
    labels = spec_selector.get("matchLabels")
    if spec_selector.get("matchExpressions") or not isinstance(labels, Mapping):
        return None
    return ",".join(f"{name}={value}" for name, value in labels.items()) or None


NamedPod = tuple[str, LiveObject]
"""A pod, and how messages name it."""


def named_pods(live: LiveObject, pods: Iterable[LiveObject]) -> Sequence[NamedPod]:
    """The pods of a workload, those of its present revision first, then by name."""
    by_name = sorted(pods, key=lambda pod: pod.identity)
    former = _FORMER.get(live.identity.group_kind, _of_former_replica_set)(live.body, by_name)
    order = sorted(by_name, key=lambda pod: pod.identity in former)
    # The StatefulSet waits for it, although only another pod would have the present template
    # (https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#forced-rollback).
    stuck = " (of a former revision, which its StatefulSet waits for: delete the pod)"
    blocks = live.identity.group_kind == _STATEFUL_SET
    return [(f"pod {pod.identity.name}{stuck if blocks and pod.identity in former else ''}", pod) for pod in order]


def _of_former_replica_set(_: Mapping[str, Any], pods: Sequence[LiveObject]) -> set[Identity]:
    """The pods of another ReplicaSet than the one that created the newest pod."""
    newest = max(pods, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)
    present = None if newest is None else newest.metadata.labels.get("pod-template-hash")
    return _without_label(pods, "pod-template-hash", present)


def _of_former_set(body: Mapping[str, Any], pods: Sequence[LiveObject]) -> set[Identity]:
    """The pods of a StatefulSet that don't have its present template, and that no partition leaves as they are."""
    update = (body.get("spec") or {}).get("updateStrategy") or {}
    partition = (update.get("rollingUpdate") or {}).get("partition") or 0
    updated = [pod for pod in pods if _ordinal(pod) >= partition]
    return _without_label(updated, "controller-revision-hash", (body.get("status") or {}).get("updateRevision"))


def _of_former_daemon_set(body: Mapping[str, Any], pods: Sequence[LiveObject]) -> set[Identity]:
    generation = (body["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    return _without_label(pods, "pod-template-generation", generation)


def _without_label(pods: Iterable[LiveObject], label: str, value: str | None) -> set[Identity]:
    """The pods that have another value of a label."""
    return {pod.identity for pod in pods if value and pod.metadata.labels.get(label, value) != value}


def _ordinal(pod: LiveObject) -> int:
    number = pod.identity.name.rpartition("-")[2]
    return int(number) if number.isdecimal() and len(number) < 10 else 0


_STATEFUL_SET = GroupKind("apps", "StatefulSet")
_FORMER = {_STATEFUL_SET: _of_former_set, GroupKind("apps", "DaemonSet"): _of_former_daemon_set}


def failure_cause(pods: Iterable[NamedPod], now: float) -> str | None:
    """The failure of the first failed pod, None without any."""
    for name, pod in pods:
        found = readiness(pod.body, now)
        if found.state is ReadinessState.FAILED:
            return f"{name}: {found.message}"
    return None


def unready_pod(pods: Iterable[NamedPod], now: float) -> NamedPod | None:
    """The first pod that is not ready, None without one."""
    unready = (each for each in pods if readiness(each[1].body, now).state is ReadinessState.IN_PROGRESS)
    return next(unready, None)


def _is_observed(body: Mapping[str, Any]) -> bool:
    status = body.get("status") or {}
    return "observedGeneration" in status or "startTime" in status
