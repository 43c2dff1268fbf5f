"""Which workloads lack pods, and which Event says why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ssa_operator.core.readiness.workload_events import (
    CAUSE_LIMIT,
    WarningEvent,
    WarningEvents,
    event_cause,
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
        (workload("Cache", {"replicas": 2}, {"replicas": 1}, "a.example.com"), True),
        (workload("Cache", {"replicas": 2}, {"readyReplicas": 0, "replicas": 2}, "a.example.com"), True),
        (workload("Cache", {"replicas": 2}, {"readyReplicas": 2, "maxReplicas": 0}, "a.example.com"), False),
        (workload("Cache", {"replicas": 2}, {"phase": "Pending"}, "a.example.com"), False),
        (workload("Ray", {}, {"desiredWorkerReplicas": 1, "readyWorkerReplicas": 0}, "a.example.com"), True),
        (workload("Ray", {}, {"desiredWorkerReplicas": 1}, "a.example.com"), True),
        (workload("Ray", {}, [], "a.example.com"), False),
        (workload("Ray", {"replicas": "2"}, {"replicas": None, "readyReplicas": True}, "a.example.com"), False),
    ],
)
def test_a_workload_lacks_pods_if_its_status_counts_fewer_than_it_wants(body: dict[str, Any], lacking: bool) -> None:
    assert lacks_pods(body) is lacking


def event(message: str, time: str = "2026-01-01T00:00:00Z", **fields: Any) -> WarningEvent:
    return msgspec.convert(
        {"reason": "FailedCreate", "message": message, "lastTimestamp": time, **fields}, WarningEvent
    )


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
        b'{"items": [{"metadata": {}, "reason": null, "message": null, "series": null}]}', type=WarningEvents
    )
    assert event_cause(listed.items or (), "") == "Warning: "
