"""The lines of a tree, from its data."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.tools.printing import changes
from ssa_operator.tools.tree.object_tree import object_data, restarts
from ssa_operator.tools.tree.parent_entries import child_data
from ssa_operator.tools.tree.tree_view import Columns, lines, totals, urgency

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z."""


def parent(name: str = "web", reason: str = "Ready", *resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    status = "True" if reason == "Ready" else "False"
    ready = {"type": "Ready", "status": status, "reason": reason, "message": f"because {reason}"}
    stalled = [{"type": "Stalled", "status": "True"}] if more.pop("stalled", False) else []
    return {
        "group": "example.com",
        "kind": "Echo",
        "namespace": "default",
        "name": name,
        "creationTimestamp": "2026-01-01T11:55:00Z",
        "conditions": [ready | {"lastTransitionTime": "2026-01-01T11:59:00Z"}, *stalled],
        "resources": list(resources),
    } | more


def child(kind: str, name: str, state: str = "Current", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "namespace": "default", "name": name, "state": state} | more


def drawn(data: dict[str, Any]) -> list[str]:
    return [str(line) for line in lines(data, NOON)]


def test_objects_are_nested_with_state_age_restarts_message_and_duration() -> None:
    pod = child("Pod", "web-1-x", "Failed", message="container web: CrashLoopBackOff", since="2026-01-01T11:58:00Z")
    pod |= {"creationTimestamp": "2026-01-01T11:56:00Z", "restarts": 3, "restartedAt": "2026-01-01T11:59:30Z"}
    ready = child("Pod", "web-1-y", restarts=1)
    replica_set = child("ReplicaSet", "web-1", "InProgress", message="1 of 2", objects=[pod, ready])
    data = parent(
        "web", "Progressing", child("Deployment", "web", "InProgress", objects=[replica_set]), notes=["a note"]
    )
    assert drawn(data) == [
        "Echo default/web  Progressing  5m  because Progressing (for 60s)",
        "├── Deployment default/web  InProgress",
        "│   └── ReplicaSet default/web-1  InProgress  1 of 2",
        "│       ├── Pod default/web-1-x  Failed  4m  3 restarts (30s ago)  container web: CrashLoopBackOff (for 2m)",
        "│       └── Pod default/web-1-y  Ready  1 restart",
        "└── a note",
    ]


def test_states_and_ages_stand_in_columns_in_a_terminal() -> None:
    times = {"creationTimestamp": "2026-01-01T11:55:00Z"}
    web = child("Deployment", "web", "InProgress", message="0 of 1 ready", **times)
    shown = list(lines(parent("a-much-longer-name", "Progressing", web, child("Pod", "b", **times)), NOON))
    columns = Columns.of(shown, 120)
    assert [columns.text(line).plain for line in shown] == [
        "Echo default/a-much-longer-name  Progressing  5m  because Progressing  (for 60s)",
        "├── Deployment default/web       InProgress   5m  0 of 1 ready",
        "└── Pod default/b                Ready        5m",
    ]


def test_a_pod_that_has_completed_is_not_ready_but_completed() -> None:
    metadata = {"name": "once", "namespace": "default", "uid": "1"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Succeeded"}}
    pod = LiveObject.of(body)
    assert drawn(parent("web", "Ready", object_data(pod, NOON)))[1:] == ["└── Pod default/once  Completed"]
    reported = child("Pod", "once")
    assert drawn(parent("web", "Ready", child_data(reported, pod, None, NOON)))[1:] == [
        "└── Pod default/once  Completed"
    ]
    assert "phase" not in child_data(reported, LiveObject.of(body | {"status": {"phase": "Running"}}), None, NOON)


def test_a_message_of_the_cluster_stays_one_line_and_moves_no_cursor() -> None:
    data = parent("web", "Ready", child("Pod", "a", "Failed", message="one\ntwo\x1b[2J\x07three"), notes=["a\r\nb"])
    assert drawn(data)[1:] == ["├── Pod default/a  Failed  one two [2J three", "└── a b"]


def test_a_suspended_parent_says_so() -> None:
    data = parent()
    data["conditions"].append({"type": "Suspended", "status": "True"})
    assert drawn(data) == ["Echo default/web  Ready, suspended  5m"]


def test_parents_that_need_a_change_come_first_and_ready_ones_last() -> None:
    parents = [
        parent("a"),
        parent("b", "Progressing", child("Pod", "x", "InProgress")),
        parent("c", "Progressing", child("Pod", "x", "Failed")),
        parent("d", "RenderFailed", stalled=True),
        parent("e", conditions=[]),
        parent("f", "Progressing"),
    ]
    assert [each["name"] for each in sorted(parents, key=urgency)] == ["d", "c", "e", "b", "f", "a"]
    assert totals(parents) == "6 parents: 3 Progressing, 1 RenderFailed, 1 Unknown, 1 Ready"


@given(st.permutations([parent(name, reason) for name in "abc" for reason in ("Ready", "Progressing")]))
def test_the_order_of_parents_does_not_depend_on_the_order_of_the_lists(parents: list[dict[str, Any]]) -> None:
    ordered = [(each["conditions"][0]["reason"], each["name"]) for each in sorted(parents, key=urgency)]
    assert ordered == [(reason, name) for reason in ("Progressing", "Ready") for name in "abc"]


def container(name: str, count: int, finished: str = "", **state: Any) -> dict[str, Any]:
    last = {"terminated": {"finishedAt": finished}} if finished else {}
    return {"name": name, "restartCount": count, "lastState": last, "state": state}


def test_restarts_are_counted_as_kubectl_counts_them() -> None:
    done = {"terminated": {"exitCode": 0}}
    init = [container("init", 2, "2026-01-01T10:00:00Z", **done), container("sidecar", 1, running={})]
    main = [container("web", 3, "2026-01-01T11:00:00Z", running={})]
    spec = {"initContainers": [{"name": "init"}, {"name": "sidecar", "restartPolicy": "Always"}]}
    pod = {"spec": spec, "status": {"initContainerStatuses": init, "containerStatuses": main}}
    assert restarts(pod) == (4, "2026-01-01T11:00:00Z")
    waiting = [container("init", 2, "2026-01-01T10:00:00Z", waiting={}), container("sidecar", 1, running={})]
    initializing = {"spec": spec, "status": {"initContainerStatuses": waiting, "containerStatuses": main}}
    assert restarts(initializing) == (3, "2026-01-01T10:00:00Z")
    assert restarts({"spec": {}, "status": {}}) == (0, None)


def test_a_change_is_a_line_without_its_place_and_a_deletion_is_a_line_too() -> None:
    before = parent("web", "Ready", child("Pod", "a"), child("Pod", "b"), child("Pod", "c"))
    after = parent("web", "Ready", child("Pod", "a"), child("Pod", "b", "Failed", message="why"))
    after["creationTimestamp"] = "2026-01-01T11:00:00Z"
    shown = changes(list(lines(before, NOON)), list(lines(after, NOON)))
    assert shown == ["Pod default/b  Failed  why", "Pod default/c  Deleted"]


def test_a_parent_of_a_folder_with_rollouts_has_its_revision() -> None:
    assert drawn(parent(revision="1d9e31446ead")) == ["Echo default/web  Ready, revision 1d9e31446ead  5m"]
