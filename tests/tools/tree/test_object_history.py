"""Since when an object is not ready, as the object itself records it."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.tools.tree.object_history import unready_since

EARLY, LATER = "2026-01-01T11:00:00Z", "2026-01-01T11:30:00Z"


def body(kind: str, *conditions: tuple[str, str, str], **fields: Any) -> dict[str, Any]:
    api_version, name = kind.split()
    listed = [{"type": each, "status": status, "lastTransitionTime": time} for each, status, time in conditions]
    status = {"conditions": listed} | fields.pop("status", {})
    metadata = {"generation": 1, "creationTimestamp": EARLY} | fields
    return {"apiVersion": api_version, "kind": name, "metadata": metadata, "status": status}


@pytest.mark.parametrize(
    ("live", "since"),
    [
        (body("v1 Pod", ("Ready", "False", LATER), ("PodScheduled", "True", EARLY)), LATER),
        (body("v1 Pod", ("Ready", "False", LATER), ("PodScheduled", "False", EARLY)), EARLY),
        (body("apps/v1 Deployment", ("Available", "False", LATER), ("Progressing", "True", EARLY)), LATER),
        (body("apps/v1 Deployment", ("Available", "False", EARLY), ("Progressing", "False", LATER)), LATER),
        (body("apps/v1 Deployment", ("Available", "True", EARLY), ("Progressing", "True", EARLY)), None),
        (body("batch/v1 Job", ("Failed", "True", LATER), status={"startTime": EARLY}), LATER),
        (body("batch/v1 Job", status={"startTime": LATER}), LATER),
        (body("batch/v1 Job"), EARLY),
        (body("v1 PersistentVolumeClaim", status={"phase": "Pending"}), EARLY),
        (body("v1 PersistentVolumeClaim", status={"phase": "Lost"}), None),
        (body("a.com/v1 Any", ("Stalled", "True", LATER), ("Ready", "False", EARLY)), LATER),
        (body("a.com/v1 Any", ("Ready", "Unknown", LATER)), LATER),
        (body("a.com/v1 Any", ("Available", "False", LATER)), None),
        (body("apps/v1 StatefulSet"), None),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, None),
        (body("a.com/v1 Any", status={"conditions": "none"}), None),
    ],
)
def test_the_time_is_that_of_the_condition_that_makes_the_object_not_ready(
    live: dict[str, Any], since: str | None
) -> None:
    assert unready_since(live) == since


def test_conditions_about_an_earlier_generation_are_no_time() -> None:
    live = body("a.com/v1 Any", ("Ready", "False", LATER), generation=2, status={"observedGeneration": 1})
    live["status"]["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": LATER}]
    assert unready_since(live) is None


def test_a_deletion_begins_before_its_grace_period() -> None:
    live = body("v1 Pod", ("Ready", "False", EARLY), deletionTimestamp=LATER, deletionGracePeriodSeconds=30)
    assert unready_since(live) == "2026-01-01T11:29:30Z"
