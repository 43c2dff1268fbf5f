"""Which workloads lack pods, and which Event says why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.pod_failures.workload_events import (
    CAUSE_LIMIT,
    ObjectEvent,
    ObjectEvents,
    event_cause,
    events_selector,
    has_events,
    lacks_pods,
)


def workload(kind: str, spec: dict[str, Any], status: Any, group: str = "apps") -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("body", "lacking"),
    [
        (workload("StatefulSet", {}, {}), True),
        (workload("StatefulSet", {"replicas": 3}, {"replicas": 2}), True),
        (workload("StatefulSet", {"replicas": 3}, {"replicas": 3}), False),
        (workload("StatefulSet", {"replicas": 0}, {}), False),
        (workload("Deployment", {"paused": True}, {}), False),
        (workload("DaemonSet", {}, {"desiredNumberScheduled": 2, "currentNumberScheduled": 1}), True),
        (workload("DaemonSet", {}, {"desiredNumberScheduled": 2, "currentNumberScheduled": 2}), False),
        (workload("DaemonSet", {}, {}), False),
        (workload("Job", {}, {}, "batch"), True),
        (workload("Job", {}, {"active": 1}, "batch"), False),
        (workload("Job", {"suspend": True}, {}, "batch"), False),
        (workload("Job", {"completions": 5, "parallelism": 3}, {"active": 1, "succeeded": 4}, "batch"), False),
        (workload("Job", {"completions": 5, "parallelism": 3}, {"active": 1, "succeeded": 3}, "batch"), True),
        (workload("StatefulSet", {}, []), True),
        (workload("Cache", {"replicas": 2}, {"replicas": 1}, "a.example.com"), False),
    ],
)
def test_a_workload_lacks_pods_if_its_status_counts_fewer_than_it_wants(body: dict[str, Any], lacking: bool) -> None:
    assert lacks_pods(body) is lacking


@pytest.mark.parametrize(
    ("group", "kind", "expected"),
    [
        ("a.example.com", "Cache", True),
        ("cert-manager.io", "Certificate", True),
        ("", "PersistentVolumeClaim", True),
        ("", "Service", True),
        ("autoscaling", "HorizontalPodAutoscaler", True),
        ("", "ConfigMap", False),
        ("", "Secret", False),
        ("rbac.authorization.k8s.io", "Role", False),
    ],
)
def test_of_built_in_kinds_only_those_have_events_about_which_controllers_write_them(
    group: str, kind: str, expected: bool
) -> None:
    assert has_events(GroupKind(group, kind)) is expected


def live(kind: str, group: str, status: Any) -> LiveObject:
    body = workload(kind, {}, status, group)
    body["metadata"] = {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "1"}
    return LiveObject.of(body)


@pytest.mark.parametrize(
    ("found", "selector"),
    [
        (live("StatefulSet", "apps", {}), "involvedObject.uid=u,type=Warning"),
        (live("CronJob", "batch", {}), "involvedObject.uid=u,type=Warning"),
        (live("CronJob", "batch", {"active": [{"uid": "a"}, {"uid": "b"}]}), "involvedObject.uid=b,type=Warning"),
        (live("PersistentVolumeClaim", "", {}), "involvedObject.uid=u"),
    ],
)
def test_the_events_of_one_object_are_selected(found: LiveObject, selector: str) -> None:
    assert events_selector(found) == selector


def test_a_warning_is_the_cause_before_a_newer_normal_event() -> None:
    normal = event("waiting for first consumer", "2026-01-02T00:00:00Z", type="Normal")
    warning = event("no volume plugin matched", type="Warning")
    assert event_cause([normal], "") == "FailedCreate: waiting for first consumer"
    assert event_cause([warning, normal], "") == "FailedCreate: no volume plugin matched"


def event(message: str, time: str = "2026-01-01T00:00:00Z", **fields: Any) -> ObjectEvent:
    return msgspec.convert({"reason": "FailedCreate", "message": message, "lastTimestamp": time, **fields}, ObjectEvent)


def test_the_newest_event_of_others_is_the_cause() -> None:
    old, new = event("old"), event("new", "2026-01-01T00:00:01Z")
    series = event("seen again", series={"lastObservedTime": "2026-01-01T00:00:02.123456Z"})
    own = event("ours", "2026-01-02T00:00:00Z", reportingComponent="ssa-operator")
    assert event_cause([old, new, old], "") == "FailedCreate: new"
    assert event_cause([series, new, own], "") == "FailedCreate: seen again"
    assert event_cause([own], "") == event_cause([], "before") == ""


def test_an_event_that_differs_only_in_a_random_name_leaves_the_cause_as_it_is() -> None:
    reported = event_cause([event('pods "web-abcde" is forbidden')], "")
    assert event_cause([event('pods "web-fghij" is forbidden')], reported) == reported
    assert event_cause([event("(combined from similar events): " + 'pods "web-k" is forbidden')], reported) == reported
    assert event_cause([event('pods "web-abcde" exceed the quota')], reported) != reported


def test_the_text_of_an_event_is_one_bounded_line_without_control_characters() -> None:
    cause = event_cause([event("a\r\n::error::b\x1b[31m\u202e" + "x" * 5000)], "")
    assert len(cause) <= CAUSE_LIMIT
    assert cause.isprintable()
    assert "a\\r\\n" in cause


def test_an_event_of_any_shape_is_read() -> None:
    listed = msgspec.json.decode(
        b'{"items": [{"metadata": {}, "reason": null, "message": null, "series": null}]}', type=ObjectEvents
    )
    assert event_cause(listed.items or (), "") == "Warning: "
