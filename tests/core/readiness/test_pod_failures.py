"""When the pods of a workload are looked at, and what they tell."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.readiness.pod_failures import LONGEST, PATIENCE, PodCheck, failure_cause, pod_check, selector

NOW = 1_767_268_800.0


def deployment(ready: int = 0, **fields: Any) -> LiveObject:
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web", "tier": "a"}}}
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready)
    status = {"observedGeneration": 3, **counts}
    metadata = {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 3}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, "status": status}
    return LiveObject.of(body | fields)


def pod(name: str, **status: Any) -> LiveObject:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"}
    return LiveObject.of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})


CRASHING = {
    "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}]
}


def test_a_workload_that_is_not_ready_is_in_doubt_after_a_while_and_looked_at_more_and_more_seldom() -> None:
    found = pod_check(deployment(), None, NOW)
    assert found == PodCheck(3, NOW + PATIENCE)
    assert pod_check(deployment(), found, NOW + 5) is found
    gaps = []
    now = found.due
    for _ in range(5):
        found = found.looked("why", now)
        gaps.append(found.due - now)
        now = found.due
    assert gaps == sorted(gaps)
    assert (gaps[-1], found.looks, found.cause) == (LONGEST, 5, "why")


@pytest.mark.parametrize(
    "live",
    [
        deployment(1),
        deployment(status={}),
        deployment(spec={"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "x"}]}}),
        deployment(kind="Thing"),
        deployment(kind="Job", apiVersion="batch/v1", status={"conditions": [{"type": "Failed", "status": "True"}]}),
        pod("a", phase="Pending"),
    ],
)
def test_what_is_ready_or_nobody_looked_at_or_has_no_pods_or_says_enough_is_not_in_doubt(live: LiveObject) -> None:
    assert pod_check(live, None, NOW) is None


def test_another_generation_is_another_doubt() -> None:
    assert pod_check(deployment(), PodCheck(2, NOW, 4, "old"), NOW) == PodCheck(3, NOW + PATIENCE)


def test_the_first_pod_that_failed_tells_why() -> None:
    assert failure_cause([pod("b", **CRASHING), pod("a", phase="Pending")], NOW) == (
        "pod b: container main: CrashLoopBackOff: back-off"
    )
    assert failure_cause([pod("a", phase="Pending")], NOW) == ""


def test_pods_are_found_by_the_labels_that_the_workload_selects() -> None:
    assert selector(deployment()) == "app=web,tier=a"
