"""When the operator checks the pods of a workload, and which failure it finds."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import Readiness, ReadinessState, readiness
from ssa_operator.reconcile.pod_failures.rules import (
    FIRST_CHECK_AFTER,
    LONGEST_INTERVAL,
    PodCheck,
    failure_cause,
    named_pods,
    pod_check,
    selector,
    unready_pod,
)

NOW = 1_767_268_800.0
PROGRESSING = Readiness(ReadinessState.IN_PROGRESS)


def deployment(ready: int = 0, **fields: Any) -> LiveObject:
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web", "tier": "a"}}}
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready)
    status = {"observedGeneration": 3, **counts}
    metadata = {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 3}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, "status": status}
    return LiveObject.of(body | fields)


def pod(name: str, labels: dict[str, str] | None = None, created: str = "", **status: Any) -> LiveObject:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "labels": labels or {}}
    metadata |= {"creationTimestamp": created} if created else {}
    return LiveObject.of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status})


CRASHING: dict[str, Any] = {
    "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}]
}


def test_the_pods_of_a_workload_that_is_not_ready_are_checked_after_a_while_and_at_growing_intervals() -> None:
    found = pod_check(deployment(), None, PROGRESSING, NOW)
    assert found == PodCheck(3, NOW + FIRST_CHECK_AFTER)
    assert pod_check(deployment(), found, PROGRESSING, NOW + 5) is found
    intervals = []
    now = found.due
    for _ in range(5):
        found = found.after_check("why", now)
        intervals.append(found.due - now)
        now = found.due
    assert intervals == sorted(intervals)
    assert (intervals[-1], found.checks, found.cause) == (LONGEST_INTERVAL, 5, "why")


@pytest.mark.parametrize(
    "live",
    [
        deployment(1),
        deployment(status={}),
        deployment(
            spec={"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "x"}]}},
            status={"observedGeneration": 3, "replicas": 1},
        ),
        deployment(kind="Thing"),
        deployment(kind="Job", apiVersion="batch/v1", status={"conditions": [{"type": "Failed", "status": "True"}]}),
        deployment(kind="ConfigMap", apiVersion="v1"),
    ],
)
def test_no_pods_are_checked_of_a_workload_that_is_ready_or_unobserved_or_has_the_cause_itself_or_of_another_kind(
    live: LiveObject,
) -> None:
    assert pod_check(live, None, readiness(live.body, NOW), NOW) is None


def test_another_generation_is_checked_from_the_beginning() -> None:
    assert pod_check(deployment(), PodCheck(2, NOW, 4, "old"), PROGRESSING, NOW) == PodCheck(3, NOW + FIRST_CHECK_AFTER)


def test_the_cause_is_the_failure_of_the_first_failed_pod() -> None:
    pods = named_pods(deployment(), [pod("b", **CRASHING), pod("a", phase="Pending")])
    assert failure_cause(pods, NOW) == "pod b: container main: CrashLoopBackOff: back-off"
    assert failure_cause(pods[:1], NOW) is None


def cause(workload: LiveObject, *pods: LiveObject) -> str | None:
    return failure_cause(named_pods(workload, pods), NOW)


@pytest.mark.parametrize(
    ("spec", "deleted"),
    [
        ({}, True),
        ({"updateStrategy": {"type": "OnDelete"}}, True),
        ({"updateStrategy": {"rollingUpdate": {"partition": 1}}}, True),
        ({"updateStrategy": {"rollingUpdate": {"partition": 2}}}, False),
    ],
)
def test_a_pod_of_a_former_revision_that_holds_up_a_stateful_set_is_named_as_that_with_the_way_out(
    spec: dict[str, Any], deleted: bool
) -> None:
    db = deployment(kind="StatefulSet", spec=spec, status={"currentRevision": "old", "updateRevision": "new"})
    found = cause(db, pod("db-1", {"controller-revision-hash": "old"}, **CRASHING))
    way_out = " (of a former revision, which its StatefulSet waits for: delete the pod)" if deleted else ""
    assert found == f"pod db-1{way_out}: container main: CrashLoopBackOff: back-off"
    assert cause(db, pod("db-1", {"controller-revision-hash": "new"}, **CRASHING)) == (
        "pod db-1: container main: CrashLoopBackOff: back-off"
    )


@pytest.mark.parametrize(
    ("workload", "label"),
    [
        (deployment(), "pod-template-hash"),
        (
            deployment(
                kind="DaemonSet",
                metadata={"name": "d", "annotations": {"deprecated.daemonset.template.generation": "b"}},
            ),
            "pod-template-generation",
        ),
        (deployment(kind="StatefulSet", status={"updateRevision": "b"}), "controller-revision-hash"),
    ],
)
def test_a_failure_of_the_present_revision_is_quoted_before_one_of_a_former_revision(
    workload: LiveObject, label: str
) -> None:
    former = pod("a", {label: "a"}, "2026-01-01T00:00:00Z", **CRASHING)
    present = pod("b", {label: "b"}, "2026-01-01T00:00:01Z", **CRASHING)
    assert (cause(workload, former, present) or "").startswith("pod b: ")
    assert "pod a" in (cause(workload, former) or "")
    assert ("delete the pod" in (cause(workload, former) or "")) is (workload.identity.kind == "StatefulSet")
    assert unready_pod(named_pods(workload, [pod("c", {label: "b"}, phase="Pending")]), NOW) is not None


def test_pods_are_selected_by_the_labels_of_the_workloads_selector() -> None:
    assert selector(deployment()) == "app=web,tier=a"
