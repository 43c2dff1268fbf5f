"""Objects as `kubectl get` prints them lose what the API server wrote, and nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ssa_operator.tools.scaffold.server_fields import shows_cluster, without_server_fields
from tests.conftest import Kubectl
from tests.tools.scaffold.shapes import of, pods

LABELS = {"app": "x"}
WEB = {
    "name": "web",
    "image": "web",
    "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
    "livenessProbe": {"httpGet": {"port": 80}, "terminationGracePeriodSeconds": 30},
    "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 3},
    "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/stop"}}},
    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "volumeMounts": [{"name": "conf", "mountPath": "/conf"}],
}
POD = {
    "serviceAccountName": "default",
    "initContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}],
    "containers": [WEB],
    "volumes": [
        {"name": "conf", "configMap": {"name": "x"}},
        {"name": "keys", "secret": {"secretName": "x", "defaultMode": 256}},
        {"name": "all", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {"name": "host", "hostPath": {"path": "/x"}},
        {"name": "empty", "emptyDir": {}},
    ],
}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
RUN = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}}}
PORTS = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "targetPort": 8}]
OBJECTS = [
    pods(LABELS, "all", **POD),
    of(
        "apps/v1",
        "Deployment",
        "chosen",
        spec={
            "replicas": 0,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [{"name": "a", "image": "a:1", "imagePullPolicy": "Always"}]},
            },
        },
    ),
    of(
        "apps/v1",
        "StatefulSet",
        "db",
        spec={
            "replicas": 0,
            "serviceName": "db",
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
        },
    ),
    of(
        "apps/v1",
        "DaemonSet",
        "agent",
        spec={
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "a", "image": "a:latest"}]}},
        },
    ),
    of("batch/v1", "Job", "once", spec={**RUN, "backoffLimit": 2}),
    of("batch/v1", "CronJob", "often", spec={"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": RUN}}),
    of("v1", "Service", "web", spec={"selector": LABELS, "ports": PORTS}),
    of("v1", "Service", "headless", spec={"selector": LABELS, "clusterIP": "None", "ports": [{"port": 80}]}),
    of("v1", "PersistentVolumeClaim", "data", spec={**CLAIM, "storageClassName": "none", "volumeName": "mine"}),
    of(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "deny",
        spec={"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}]}]},
    ),
    of(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "scale",
        spec={
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "all"},
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    ),
    of("v1", "ServiceAccount", "account", metadata={"finalizers": ["example.com/mine"], "labels": {"job-name": "x"}}),
]  # fmt: skip


@pytest.mark.cluster
async def test_what_was_applied_is_what_is_left_of_the_stored_object(kubectl: Kubectl, namespace: str) -> None:
    where = f"--namespace={namespace}"
    items = {"apiVersion": "v1", "kind": "List", "items": OBJECTS}
    await asyncio.to_thread(kubectl, "apply", where, "-f", "-", input=json.dumps(items))
    for body in OBJECTS:
        reference = f"{body['kind']}/{body['metadata']['name']}".lower()
        stored = json.loads(await asyncio.to_thread(kubectl, "get", where, reference, "-o", "json"))
        assert shows_cluster(stored)
        assert without_nulls_and_namespace(without_server_fields(stored)) == with_defaults_of_sizes(body)


def without_nulls_and_namespace(body: dict[str, Any]) -> dict[str, Any]:
    del body["metadata"]["namespace"]
    return body


def with_defaults_of_sizes(body: dict[str, Any]) -> dict[str, Any]:
    """A number of pods that nobody chose is a field, so it may stay."""
    if body["kind"] != "Deployment" or "replicas" in body["spec"]:
        return body
    return {**body, "spec": {**body["spec"], "replicas": 1}}
