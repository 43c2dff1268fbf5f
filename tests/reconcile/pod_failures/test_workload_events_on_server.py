"""Workloads that can't create pods: the status has the reason, which only their Events have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.reconcile.pod_failures import requests as pod_diagnosis
from ssa_operator.reconcile.pod_failures import rules as pod_failures
from tests.devcluster.audit import own_requests
from tests.operator.harness import (
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
    ready_condition,
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


@pytest.mark.more_cases
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


@pytest.mark.exhaustive
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
spec: {replicas: 2}
"""

NOT_READY = {"type": "Ready", "status": "False", "reason": "Pending", "message": "0 of 2"}
STATUSES: dict[str, dict[str, Any]] = {
    "replicas": {"desiredWorkerReplicas": 2, "readyWorkerReplicas": 0, "conditions": [NOT_READY]},
    "ready": {"ready": 0, "conditions": [NOT_READY]},
    "number": {"numberReady": 1, "currentReplicas": 2, "conditions": [NOT_READY]},
    "conditions": {"conditions": [NOT_READY]},
    "stalled": {"conditions": [{**NOT_READY, "type": "Stalled", "status": "True"}]},
}


def warning(about: dict[str, Any], message: str, reason: str = "FailedToCreatePod") -> dict[str, Any]:
    """A Warning Event on an object."""
    metadata = about["metadata"]
    reference = {key: metadata[key] for key in ("name", "namespace", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{metadata['uid'][:8]}"},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"apiVersion": about["apiVersion"], "kind": about["kind"], **reference},
    }


@pytest.fixture
async def custom(desk: Desk, templates: Path, group: str) -> dict[str, Any]:
    """A parent whose child is a custom object."""
    await desk.define(definition("clusters", group, "Cluster"))
    only(templates, cluster=CLUSTER)
    parent = echo("web")
    parent["metadata"]["annotations"] = {"api": f"{group}/v1"}
    return parent


async def report(desk: Desk, group: str, status: dict[str, Any]) -> dict[str, Any]:
    """Write the status of the custom object, as its controller does."""
    cluster = await desk.read(f"clusters.{group}", "web")
    resource = await desk.mapper.resource_by_name(f"clusters.{group}")
    await desk.update_as("controller", resource, "web", {"status": status}, "status")
    return cluster


@pytest.mark.exhaustive
@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
async def test_a_custom_object_that_is_not_ready_says_why_whatever_its_status_counts(
    desk: Desk, operate: Operate, group: str, custom: dict[str, Any], status: dict[str, Any]
) -> None:
    async with operate():
        await desk.apply(custom)
        cluster = await report(desk, group, status)
        await desk.apply(warning(cluster, "must be no more than\n::error::63 characters \x1b[31m" + "x" * 900))
        words = "Pending: 0 of 2; FailedToCreatePod: must be no more than\\n"
        found = await desk.until(ECHOES, "web", lambda body: words in ready_condition(body).get("message", ""))
        message = entries(found)["Cluster/web"]["message"]
        assert "\x1b" not in message
        assert "\n" not in message
        assert len(message) < 600


@pytest.mark.exhaustive
async def test_events_are_listed_once_a_check_of_what_is_not_ready_and_never_for_what_is(
    desk: Desk,
    operate: Operate,
    cluster: Cluster,
    group: str,
    custom: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checks, cause = [], pod_diagnosis._cause

    async def counted(*arguments: Any) -> str:
        checks.append(arguments)
        return await cause(*arguments)

    monkeypatch.setattr(pod_diagnosis, "_cause", counted)

    def lists() -> int:
        return sum(
            each["verb"] == "list" and each["objectRef"]["resource"] in ("events", "pods")
            for each in own_requests(cluster, desk.namespace)
        )

    async with operate(resync_rate=1000.0, interval=0.5) as running:
        await desk.apply(custom)
        ready = {"ready": 2, "conditions": [{**NOT_READY, "status": "True"}]}
        await report(desk, group, ready)
        await desk.ready(ECHOES, "web")
        running.forget()
        await running.reconciled(5)
        assert lists() == 0
        child = await report(desk, group, STATUSES["ready"])
        await desk.apply(warning(child, "no node fits"))
        await desk.until(ECHOES, "web", not_ready_because("Progressing", "no node fits"))
        assert 1 <= lists() <= len(checks)
        await report(desk, group, ready)
        await desk.ready(ECHOES, "web")
        checks.clear()
        running.forget()
        await running.reconciled(5)
        assert not checks


POD_OF_NOBODY = "      schedulerName: nobody\n      containers: [{name: main, image: 'example.com/none:1'}]\n"
WITH_PODS = WORKLOADS["StatefulSet"].partition("      serviceAccountName")[0] + POD_OF_NOBODY


async def test_a_workload_whose_pod_waits_quotes_the_events_of_that_pod(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, web=WITH_PODS)
    async with operate():
        await desk.apply(echo("web"))
        pod = await desk.read("pods", "web-0")
        await desk.apply(warning(pod, 'MountVolume.SetUp failed for volume "x": secret "y" not found', "FailedMount"))
        words = 'pod web-0: FailedMount: MountVolume.SetUp failed for volume "x"'
        await desk.until(ECHOES, "web", not_ready_because("Progressing", words))


CLAIM = (
    "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: web}\nspec:\n"
    "  accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 1Gi}}\n  storageClassName: CLASS\n"
)
BALANCED = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  type: LoadBalancer\n  ports: [{port: 80}]\n"
SCALER = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
  annotations: {ssa-operator.dev/ready-when: "status.currentReplicas > 0"}
spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}
"""
GENERIC: dict[str, tuple[str, str, str]] = {
    "Service": (BALANCED, "services", "SyncLoadBalancerFailed"),
    "HorizontalPodAutoscaler": (SCALER, "horizontalpodautoscalers.autoscaling", "FailedGetScale"),
}


@pytest.mark.more_cases
@pytest.mark.parametrize(("template", "resource", "reason"), GENERIC.values(), ids=GENERIC)
async def test_other_built_in_objects_that_are_not_ready_quote_their_events(
    desk: Desk, operate: Operate, templates: Path, template: str, resource: str, reason: str
) -> None:
    only(templates, web=template)
    async with operate():
        await desk.apply(echo("web"))
        await desk.apply(warning(await desk.read(resource, "web"), "it has a cause", reason))
        await desk.until(ECHOES, "web", lambda body: f"; {reason}: " in ready_condition(body).get("message", ""))


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("WaitForFirstConsumer", "WaitForFirstConsumer"), ("Immediate", "ExternalProvisioning")],
)
async def test_a_pending_claim_says_what_it_waits_for(
    desk: Desk, operate: Operate, templates: Path, mode: str, reason: str
) -> None:
    name = f"{desk.namespace}-{mode.lower()}"
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    await desk.apply({**storage, "provisioner": "example.com/none", "volumeBindingMode": mode})
    only(templates, web=CLAIM.replace("CLASS", name))
    async with operate():
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", lambda body: f"Pending; {reason}: " in ready_condition(body).get("message", ""))
    await desk.delete("storageclass", name, wait=False)


async def test_a_paused_deployment_says_so(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, web=WORKLOADS["Deployment"].replace("spec:\n", "spec:\n  paused: true\n", 1))
    async with operate():
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("Progressing", "Deployment ", "is paused: 0 of 1 replicas"))
