"""Workloads that can't create pods: the status has the reason, which only their Events have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.core.readiness import pod_failures
from tests.controller.harness import (
    ECHOES,
    Desk,
    MakeOptions,
    Operate,
    definition,
    echo,
    entries,
    is_ready,
    not_ready_because,
    only,
    operating,
)

pytestmark = pytest.mark.cluster

POD = """\
      serviceAccountName: {{ annotations.account | default("missing") }}
      restartPolicy: POLICY
      containers: [{name: main, image: "example.com/none:1"}]
"""
SELECTED = """\
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
""" + POD.replace("POLICY", "Always")
APPS = "apiVersion: apps/v1\nkind: KIND\nmetadata: {name: web}\nspec:\n" + SELECTED
WORKLOADS = {kind: APPS.replace("KIND", kind) for kind in ("StatefulSet", "DaemonSet", "ReplicaSet", "Deployment")}
WORKLOADS["Job"] = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n"
    + POD.replace("POLICY", "Never")
)


@pytest.fixture(autouse=True)
def checked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods of a workload are checked early, and again soon."""
    monkeypatch.setattr(pod_failures, "FIRST_CHECK_AFTER", 0.2)
    monkeypatch.setattr(pod_failures, "LONGEST_INTERVAL", 0.5)


@pytest.mark.parametrize("kind", WORKLOADS)
async def test_a_workload_that_can_create_no_pod_says_why(
    desk: Desk, operate: Operate, templates: Path, kind: str
) -> None:
    only(templates, web=WORKLOADS[kind])
    async with operate():
        await desk.apply(echo("web"))
        words = (f"{kind} ", "service account", '"missing" not found')
        parent = await desk.until(ECHOES, "web", not_ready_because("Progressing", *words))
        assert "FailedCreate: " in entries(parent)[f"{kind}/web"]["message"]
        # The parent is ready, and the reason gone, once the cause is.
        await desk.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "missing"}})
        await desk.patch("echo", "web", metadata={"annotations": {"ssa-operator.dev/reconcile-at": "now"}})
        found = await desk.until(ECHOES, "web", is_ready)
        assert "message" not in entries(found)[f"{kind}/web"]


async def test_without_the_permission_to_list_events_no_reason_is_shown_and_that_is_logged_once(
    desk: Desk, options: MakeOptions, templates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    only(templates, web=WORKLOADS["StatefulSet"])
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "watch", "create", "patch", "update", "delete"]},
        {"apiGroups": ["apps", "example.com", "apiextensions.k8s.io"], "resources": ["*"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": desk.namespace}}
    user = f"limited-{desk.namespace}"
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": desk.namespace},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": desk.namespace},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    await desk.apply({**role, "rules": rules}, binding)
    limited = desk.client.impersonating(user)
    async with operating(limited, options()) as running:
        await desk.apply(echo("web"))
        await running.reconciled(8)
        parent = await desk.until(ECHOES, "web", not_ready_because("Progressing", "0 of 1 replicas"))
    assert "FailedCreate" not in json.dumps(parent["status"])
    said = [each.message for each in caplog.records if "may not list events" in each.message]
    assert len(said) == 1
    await desk.delete("clusterrole", desk.namespace, wait=False)
    await desk.delete("clusterrolebinding", desk.namespace, wait=False)


CLUSTER = """\
apiVersion: {{ annotations.api }}
kind: Cluster
metadata: {name: web}
spec: {replicas: 1}
"""


async def test_a_custom_object_whose_status_counts_pods_says_why_it_has_too_few(
    desk: Desk, operate: Operate, templates: Path, group: str
) -> None:
    await desk.define(definition("clusters", group, "Cluster"))
    only(templates, cluster=CLUSTER)
    parent = echo("web")
    parent["metadata"]["annotations"] = {"api": f"{group}/v1"}
    async with operate():
        await desk.apply(parent)
        cluster = await desk.read(f"clusters.{group}", "web")
        status: dict[str, Any] = {
            "desiredWorkerReplicas": 2,
            "readyWorkerReplicas": 0,
            "conditions": [{"type": "Ready", "status": "False", "reason": "Pending", "message": "0 of 2"}],
        }
        resource = await desk.mapper.resource_by_name(f"clusters.{group}")
        await desk.update_as("controller", resource, "web", {"status": status}, "status")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "web.1"},
            "type": "Warning",
            "reason": "FailedToCreatePod",
            "message": "must be no more than\n::error::63 characters \x1b[31m" + "x" * 900,
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "involvedObject": {
                "apiVersion": cluster["apiVersion"],
                "kind": "Cluster",
                "name": "web",
                "namespace": desk.namespace,
                "uid": cluster["metadata"]["uid"],
            },
        }
        await desk.apply(event)
        found = await desk.until(
            ECHOES,
            "web",
            not_ready_because("Progressing", "Pending: 0 of 2; FailedToCreatePod: must be no more than\\n"),
        )
        message = entries(found)["Cluster/web"]["message"]
        assert "\x1b" not in message
        assert "\n" not in message
        assert len(message) < 600


async def test_a_paused_deployment_says_so(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, web=WORKLOADS["Deployment"].replace("spec:\n", "spec:\n  paused: true\n", 1))
    async with operate():
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("Progressing", "Deployment ", "is paused: 0 of 1 replicas"))
