"""Why a workload isn't ready, as its pods tell: a Deployment only counts them.

Promises:
- Pods are worth a look only after a while of not being ready, and then more and more seldom.
- A workload that no controller has seen has no pods to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.readiness.rules import UNSCHEDULABLE_GRACE, ReadinessState, readiness

POD = GroupKind("", "Pod")

WORKLOADS = frozenset({
    GroupKind("apps", "Deployment"), GroupKind("apps", "ReplicaSet"), GroupKind("apps", "StatefulSet"),
    GroupKind("apps", "DaemonSet"), GroupKind("batch", "Job"),
})  # fmt: skip

PATIENCE = UNSCHEDULABLE_GRACE + 1
"""Seconds after which the pods of a workload that isn't ready are looked at first; each further look comes after four
times as long.
"""

LONGEST = 300.0
"""Seconds between two looks at most."""


@dataclass(frozen=True, slots=True)
class PodCheck:
    """A workload that isn't ready in one generation of it: when its pods are due to be looked at (seconds since the
    epoch), how often they were, and what they told.
    """

    generation: int
    due: float
    looks: int = 0
    cause: str = ""

    def looked(self, failure_cause: str, now: float) -> PodCheck:
        """The doubt after a look."""
        looks = self.looks + 1
        return PodCheck(self.generation, now + min(LONGEST, PATIENCE * 4.0 ** min(looks, 8)), looks, failure_cause)


def pod_check(live: LiveObject, before: PodCheck | None, now: float) -> PodCheck | None:
    """What is to be found out of a live object, None where it is no workload, is ready, or says enough itself."""
    if live.identity.group_kind not in WORKLOADS or not selector(live) or not _is_seen(live.body):
        return None
    state = readiness(live.body, now).state
    if state is ReadinessState.IN_PROGRESS or (state is ReadinessState.FAILED and live.identity.kind != "Job"):
        generation = live.metadata.generation
        return before if before and before.generation == generation else PodCheck(generation, now + PATIENCE)
    return None


def selector(live: LiveObject) -> str:
    """The label selector of a workload's pods, '' where it has none that can be written as a list of labels."""
    wanted: Any = (live.body.get("spec") or {}).get("selector") or {}
    labels = wanted.get("matchLabels")
    if wanted.get("matchExpressions") or not isinstance(labels, Mapping):
        return ""
    return ",".join(f"{name}={value}" for name, value in labels.items())


def failure_cause(pods: Iterable[LiveObject], now: float) -> str:
    """What the first pod that failed says, '' where none has."""
    for pod in sorted(pods, key=lambda pod: pod.identity):
        found = readiness(pod.body, now)
        if found.state is ReadinessState.FAILED:
            return f"pod {pod.identity.name}: {found.message}"
    return ""


def _is_seen(body: Mapping[str, Any]) -> bool:
    status = body.get("status") or {}
    return "observedGeneration" in status or "startTime" in status
