"""When the pods of a workload are looked at, and what they tell."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.core.objects.live_object import Live
from ssa_operator.core.readiness.pod_failures import LONGEST, PATIENCE, Doubt, cause, doubt, selector

NOW = 1_767_268_800.0


def deployment(ready: int = 0, **fields: Any) -> Live:
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web", "tier": "a"}}}
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready)
    status = {"observedGeneration": 3, **counts}
    metadata = {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 3}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, "status": status}
    return Live.of(body | fields)


def pod(name: str, **status: Any) -> Live:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"}
    return Live.of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})


CRASHING = {
    "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}]
}


def test_a_workload_that_is_not_ready_is_in_doubt_after_a_while_and_looked_at_more_and_more_seldom() -> None:
    found = doubt(deployment(), None, NOW)
    assert found == Doubt(3, NOW + PATIENCE)
    assert doubt(deployment(), found, NOW + 5) is found
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
def test_what_is_ready_or_nobody_looked_at_or_has_no_pods_or_says_enough_is_not_in_doubt(live: Live) -> None:
    assert doubt(live, None, NOW) is None


def test_another_generation_is_another_doubt() -> None:
    assert doubt(deployment(), Doubt(2, NOW, 4, "old"), NOW) == Doubt(3, NOW + PATIENCE)


def test_the_first_pod_that_failed_tells_why() -> None:
    assert cause([pod("b", **CRASHING), pod("a", phase="Pending")], NOW) == (
        "pod b: container main: CrashLoopBackOff: back-off"
    )
    assert cause([pod("a", phase="Pending")], NOW) == ""


def test_pods_are_found_by_the_labels_that_the_workload_selects() -> None:
    assert selector(deployment()) == "app=web,tier=a"
