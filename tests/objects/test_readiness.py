"""When an object is ready, kind by kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.predicate import Judgement, Predicate
from ssa_operator.objects.readiness import UNSCHEDULABLE_GRACE, ReadinessState, is_rolled_out, readiness, rule_of

CURRENT, IN_PROGRESS, FAILED, TERMINATING = (
    ReadinessState.CURRENT,
    ReadinessState.IN_PROGRESS,
    ReadinessState.FAILED,
    ReadinessState.TERMINATING,
)
NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z."""


def condition(kind: str, status: str = "True", **more: str) -> dict[str, str]:
    return {"type": kind, "status": status} | more


def deployment(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"generation": 2},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 2} | status,
    }


FULL = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}


def body(kind: str, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    api_version, name = kind.split()
    return {"apiVersion": api_version, "kind": name, "metadata": {}, "spec": spec or {}, "status": status}


def stateful_set(**status: Any) -> dict[str, Any]:
    """One that is done, but for these fields of its status."""
    done = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "a"}
    return body("apps/v1 StatefulSet", {"replicas": 1}, observedGeneration=1, **done | status)


TABLE: list[tuple[str, dict[str, Any], ReadinessState, str]] = [
    (
        "a Deployment that its controller has not observed",
        {**deployment(), "status": {}},
        IN_PROGRESS,
        "has not observed it",
    ),
    ("a Deployment of an older generation", deployment(observedGeneration=1, **FULL), IN_PROGRESS, "latest change"),
    ("a Deployment that is done", deployment(**FULL), CURRENT, ""),
    ("a Deployment without pods yet", deployment(), IN_PROGRESS, "0 of 2 replicas updated"),
    (
        "a Deployment with one pod",
        deployment(**FULL | {"availableReplicas": 1}),
        IN_PROGRESS,
        "1 of 2 replicas available",
    ),
    ("a Deployment with an old pod", deployment(**FULL | {"replicas": 3}), IN_PROGRESS, "1 old replicas"),
    (
        "a Deployment with an unready pod",
        deployment(**FULL | {"readyReplicas": 1}),
        IN_PROGRESS,
        "1 of 2 replicas ready",
    ),
    (
        "a Deployment past its deadline",
        deployment(
            conditions=[condition("Progressing", "False", reason="ProgressDeadlineExceeded", message="timed out")]
        ),
        FAILED,
        "ProgressDeadlineExceeded: timed out",
    ),
    (
        "a Deployment over its quota",
        deployment(conditions=[condition("ReplicaFailure", reason="FailedCreate", message="exceeded quota")]),
        IN_PROGRESS,
        "exceeded quota",
    ),
    ("a Deployment of none", {**deployment(), "spec": {"replicas": 0}}, CURRENT, ""),
    (
        "a StatefulSet that its controller has not observed",
        body("apps/v1 StatefulSet"),
        IN_PROGRESS,
        "has not observed it",
    ),
    (
        "a StatefulSet that is done",
        stateful_set(),
        CURRENT,
        "",
    ),
    (
        "a StatefulSet between two revisions",
        stateful_set(updateRevision="b", updatedReplicas=0),
        IN_PROGRESS,
        "0 of 1 replicas updated",
    ),
    (
        "a StatefulSet that goes back to its revision, with a pod of the other one",
        stateful_set(updatedReplicas=0),
        IN_PROGRESS,
        "0 of 1 replicas updated",
    ),
    (
        "a StatefulSet with a partition",
        body(
            "apps/v1 StatefulSet",
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
            observedGeneration=1,
            replicas=3,
            readyReplicas=3,
            updatedReplicas=1,
            currentRevision="a",
            updateRevision="b",
        ),
        CURRENT,
        "",
    ),
    (
        "a StatefulSet that is updated by hand",
        body("apps/v1 StatefulSet", {"updateStrategy": {"type": "OnDelete"}}),
        CURRENT,
        "",
    ),
    (
        "a DaemonSet that is done",
        body(
            "apps/v1 DaemonSet",
            None,
            observedGeneration=1,
            desiredNumberScheduled=1,
            currentNumberScheduled=1,
            updatedNumberScheduled=1,
            numberAvailable=1,
            numberReady=1,
        ),
        CURRENT,
        "",
    ),
    (
        "a DaemonSet short of a pod",
        body("apps/v1 DaemonSet", None, observedGeneration=1, desiredNumberScheduled=1),
        IN_PROGRESS,
        "0 of 1",
    ),
    ("a Job that runs", body("batch/v1 Job", {"completions": 2}, succeeded=1), IN_PROGRESS, "1 of 2 completions"),
    ("a Job that is done", body("batch/v1 Job", None, conditions=[condition("Complete")]), CURRENT, ""),
    (
        "a Job that failed",
        body("batch/v1 Job", None, conditions=[condition("Failed", reason="BackoffLimitExceeded", message="no more")]),
        FAILED,
        "BackoffLimitExceeded: no more",
    ),
    ("a Job that is suspended", body("batch/v1 Job", {"suspend": True}), IN_PROGRESS, "suspended"),
    ("a claim that is bound", body("v1 PersistentVolumeClaim", None, phase="Bound"), CURRENT, ""),
    ("a claim that waits", body("v1 PersistentVolumeClaim", None, phase="Pending"), IN_PROGRESS, "Pending"),
    ("a claim that is lost", body("v1 PersistentVolumeClaim", None, phase="Lost"), FAILED, "lost"),
    ("a Service", body("v1 Service", {"type": "ClusterIP"}), CURRENT, ""),
    ("a load balancer without an address", body("v1 Service", {"type": "LoadBalancer"}), IN_PROGRESS, "load balancer"),
    ("a load balancer", body("v1 Service", {"type": "LoadBalancer"}, loadBalancer={"ingress": [{}]}), CURRENT, ""),
    ("a pod that is ready", body("v1 Pod", None, phase="Running", conditions=[condition("Ready")]), CURRENT, ""),
    ("a pod that is done", body("v1 Pod", None, phase="Succeeded"), CURRENT, ""),
    ("a pod that failed", body("v1 Pod", None, phase="Failed", message="evicted"), FAILED, "evicted"),
    (
        "a pod that crashes",
        body(
            "v1 Pod",
            None,
            phase="Running",
            containerStatuses=[
                {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}
            ],
        ),
        FAILED,
        "container a: CrashLoopBackOff: back-off",
    ),
    (
        "a pod whose init container crashes",
        body(
            "v1 Pod",
            None,
            phase="Pending",
            initContainerStatuses=[{"name": "i", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
        ),
        FAILED,
        "container i: CrashLoopBackOff",
    ),
    (
        "a CRD",
        body("apiextensions.k8s.io/v1 CustomResourceDefinition", None, conditions=[condition("Established")]),
        CURRENT,
        "",
    ),
    ("a new CRD", body("apiextensions.k8s.io/v1 CustomResourceDefinition"), IN_PROGRESS, "established"),
    (
        "a CRD whose names are taken",
        body(
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            None,
            conditions=[condition("NamesAccepted", "False", message="taken")],
        ),
        FAILED,
        "taken",
    ),
    ("a ConfigMap", body("v1 ConfigMap"), CURRENT, ""),
    ("a custom resource without conditions", body("a.b/v1 Thing"), CURRENT, ""),
    ("a custom resource that is ready", body("a.b/v1 Thing", None, conditions=[condition("Ready")]), CURRENT, ""),
    (
        "a custom resource that is not",
        body("a.b/v1 Thing", None, conditions=[condition("Ready", "False", reason="Waits", message="for x")]),
        IN_PROGRESS,
        "Waits: for x",
    ),
    (
        "a custom resource that reconciles",
        body("a.b/v1 Thing", None, conditions=[condition("Reconciling"), condition("Ready")]),
        IN_PROGRESS,
        "Reconciling",
    ),
    (
        "a custom resource that is stalled",
        body("a.b/v1 Thing", None, conditions=[condition("Stalled", message="stuck")]),
        FAILED,
        "stuck",
    ),
    (
        "anything that is being deleted",
        {**deployment(**FULL), "metadata": {"deletionTimestamp": "x"}},
        TERMINATING,
        "deleted",
    ),
    (
        "a status that is no mapping",
        {"apiVersion": "a.b/v1", "kind": "Thing", "metadata": {}, "status": "fine"},
        CURRENT,
        "",
    ),
]


@pytest.mark.parametrize(("live", "state", "words"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_readiness_of(live: dict[str, Any], state: ReadinessState, words: str) -> None:
    found = readiness(live, NOON)
    assert (found.state, words in found.message) == (state, True), found


def test_an_unschedulable_pod_fails_after_a_grace_period_and_has_the_time_of_that() -> None:
    pod = body(
        "v1 Pod",
        None,
        phase="Pending",
        conditions=[
            condition(
                "PodScheduled",
                "False",
                reason="Unschedulable",
                message="no node",
                lastTransitionTime="2026-01-01T12:00:00Z",
            )
        ],
    )
    early = readiness(pod, NOON + 14)
    assert (early.state, early.again_at) == (IN_PROGRESS, NOON + 15)
    late = readiness(pod, NOON + 15)
    assert (late.state, late.message) == (FAILED, "Unschedulable: no node")


def custom(status: dict[str, Any] | None = None) -> dict[str, Any]:
    made = {"apiVersion": "example.com/v1", "kind": "In", "metadata": {"generation": 2}}
    return made if status is None else made | {"status": status}


@pytest.mark.parametrize(
    ("status", "reporting", "plain"),
    [
        (None, IN_PROGRESS, CURRENT),
        ({}, IN_PROGRESS, CURRENT),
        ({"phase": "Up"}, CURRENT, CURRENT),
        ({"observedGeneration": 1}, IN_PROGRESS, IN_PROGRESS),
        ({"observedGeneration": 2}, CURRENT, CURRENT),
        ({"conditions": [{**condition("Ready"), "observedGeneration": 1}]}, IN_PROGRESS, CURRENT),
        ({"conditions": [{**condition("Ready"), "observedGeneration": 2}]}, CURRENT, CURRENT),
        ({"conditions": [condition("Ready")]}, CURRENT, CURRENT),
        ({"conditions": [condition("Ready", "False")]}, IN_PROGRESS, IN_PROGRESS),
    ],
)
def test_an_object_of_a_kind_that_reports_status_is_ready_once_its_status_is_about_this_generation(
    status: dict[str, Any] | None, reporting: ReadinessState, plain: ReadinessState
) -> None:
    assert readiness(custom(status), NOON, reports_status=True).state is reporting
    assert readiness(custom(status), NOON).state is plain


SILENCE = 5 * 60.0
CREATED = "2026-01-01T12:00:00Z"
"""The same moment as NOON."""


def silent(status: dict[str, Any] | None = None) -> dict[str, Any]:
    made = custom(status)
    return made | {"metadata": made["metadata"] | {"creationTimestamp": CREATED}}


@pytest.mark.parametrize("status", [None, {}])
@given(age=st.floats(-1e6, 1e9))
def test_a_status_that_nothing_has_written_for_minutes_has_one_other_message(
    status: dict[str, Any] | None, age: float
) -> None:
    found = readiness(silent(status), NOON + age, reports_status=True)
    assert found.state is IN_PROGRESS
    if NOON + age < NOON + SILENCE:
        assert found.message == "its controller has not written its status yet"
        assert found.again_at == NOON + SILENCE
    else:
        assert found.message == (
            "nothing has written its status for at least 5 minutes: its controller may not run, or may never write"
            ' conditions; if it never does, set ssa-operator.dev/ready-when, or ssa-operator.dev/wait: "false"'
        )
        assert found.again_at is None


@pytest.mark.parametrize(("holds", "state"), [(True, ReadinessState.CURRENT), (False, ReadinessState.IN_PROGRESS)])
def test_a_failed_job_with_an_expression_is_what_the_expression_says(holds: bool, state: ReadinessState) -> None:
    failed = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    failed |= {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    assert readiness(failed, NOON).state is ReadinessState.FAILED
    expression = Predicate("status.failed == 0", lambda _: Judgement(holds))
    assert readiness(failed, NOON, ready_when=expression).state is state


def test_without_a_time_of_creation_nothing_is_said_of_minutes() -> None:
    found = readiness(custom(), NOON, reports_status=True)
    assert (found.message, found.again_at) == ("its controller has not written its status yet", None)


@pytest.mark.parametrize(
    ("status", "reporting"), [({"phase": "Up"}, True), ({"observedGeneration": 1}, True), (None, False)]
)
def test_a_status_that_is_written_or_not_awaited_is_never_called_unwritten(
    status: dict[str, Any] | None, reporting: bool
) -> None:
    found = readiness(silent(status), NOON + 10 * SILENCE, reports_status=reporting)
    assert "nothing has written its status" not in found.message
    assert found.again_at is None


@pytest.mark.parametrize(
    "live",
    [
        silent(),
        body(
            "v1 Pod",
            conditions=[condition("PodScheduled", "False", reason="Unschedulable", lastTransitionTime=CREATED)],
        ),
    ],
    ids=["without a status", "unschedulable"],
)
@given(ages=st.lists(st.floats(-1, 2 * max(SILENCE, UNSCHEDULABLE_GRACE)), min_size=2))
def test_time_alone_makes_no_object_usable(live: dict[str, Any], ages: list[float]) -> None:
    assert not any(readiness(live, NOON + age, reports_status=True).usable for age in ages)


@pytest.mark.parametrize(
    ("live", "reports_status", "rule"),
    [
        ({**deployment(**FULL), "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False, "its deletion"),
        (deployment(observedGeneration=1), False, "status.observedGeneration"),
        (deployment(**FULL), False, "the rule for Deployment.apps"),
        (body("v1 Pod", phase="Running"), False, "the rule for Pod"),
        (body("example.com/v1 Web", conditions=[condition("Stalled")]), False, "its condition Stalled"),
        (body("example.com/v1 Web", conditions=[condition("Ready")]), False, "its condition Ready"),
        (body("example.com/v1 Web"), True, "its first status"),
        (body("v1 ConfigMap"), False, "it exists"),
    ],
)
def test_the_rule_that_judged_an_object_has_a_name(live: dict[str, Any], reports_status: bool, rule: str) -> None:
    assert rule_of(live, NOON, reports_status=reports_status) == rule
    assert rule_of(
        live, NOON, reports_status=reports_status, ready_when=Predicate("true", lambda _: Judgement(True))
    ) == (rule if rule == "its deletion" else "ready-when true")


@pytest.mark.parametrize(
    ("live", "rolled_out"),
    [
        (deployment(**FULL), True),
        (body("apps/v1 StatefulSet", replicas=2, updateRevision="b"), False),
        (body("apps/v1 StatefulSet", replicas=2, updateRevision="b", updatedReplicas=2), True),
        (body("apps/v1 DaemonSet", desiredNumberScheduled=2, updatedNumberScheduled=1), False),
        (body("apps/v1 DaemonSet", desiredNumberScheduled=2, updatedNumberScheduled=2), True),
        (body("example.com/v1 Web", replicas="2", updatedReplicas=[]), True),
        (body("v1 ReplicationController", replicas=2), True),
    ],
)
def test_a_workload_that_keeps_pods_of_a_former_template_has_not_rolled_out(
    live: dict[str, Any], rolled_out: bool
) -> None:
    assert is_rolled_out(live) is rolled_out
