"""Manifests are refused offline where the API server refuses them, for the same fields."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from ssa_operator.kube.api import request
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_encoding import encode
from ssa_operator.schema.manifest_validation import validate_manifest

pytestmark = pytest.mark.cluster

POD: dict[str, Any] = {"containers": [{"name": "web", "image": "nginx:1"}]}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
SELECTOR = {"matchLabels": {"app": "web"}}
JOB: dict[str, Any] = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
BODIES: dict[str, dict[str, Any]] = {
    "ConfigMap": {"apiVersion": "v1"},
    "Secret": {"apiVersion": "v1"},
    "Namespace": {"apiVersion": "v1"},
    "ServiceAccount": {"apiVersion": "v1"},
    "Role": {"apiVersion": "rbac.authorization.k8s.io/v1"},
    "Lease": {"apiVersion": "coordination.k8s.io/v1"},
    "NetworkPolicy": {"apiVersion": "networking.k8s.io/v1", "spec": {"podSelector": {}}},
    "PriorityClass": {"apiVersion": "scheduling.k8s.io/v1", "value": 1},
    "Service": {"apiVersion": "v1", "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}},
    "Pod": {"apiVersion": "v1", "spec": POD},
    "Deployment": {"apiVersion": "apps/v1", "spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "Job": {"apiVersion": "batch/v1", "spec": JOB},
    "CronJob": {"apiVersion": "batch/v1", "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}},
}
NAMES = ("web", "Web", "my_web", "my web", "a.b", "1a", "-a", "a" * 64, "a" * 254, "a:b", "${a}")
_JOBS = ("CronJob", "Job")
CONTAINER = ("spec", "template", "spec", "containers", 0)
CHANGES: tuple[tuple[str, tuple[str | int, ...], Any], ...] = (
    *((kind, ("metadata", "name"), name) for kind in BODIES for name in NAMES if len(name) < 64 or kind not in _JOBS),
    ("ConfigMap", ("metadata", "labels"), {"a": "b" * 64}),
    ("ConfigMap", ("metadata", "labels"), {"a": "b c"}),
    ("ConfigMap", ("metadata", "labels"), {"a/b/c": "d"}),
    ("ConfigMap", ("metadata", "labels"), {"a": "_B-", "c": ""}),
    ("ConfigMap", ("metadata", "annotations"), {"a b": "c"}),
    ("Deployment", ("spec", "template", "metadata", "labels"), {"app": "web", "b": "c d"}),
    ("Service", ("spec", "selector"), {"app": "a b"}),
    ("Deployment", CONTAINER, {"name": "web"}),
    ("Deployment", CONTAINER, {"name": "Web", "image": "a"}),
    ("Deployment", CONTAINER, {"name": "web", "image": "a", "ports": [{"containerPort": 0}]}),
    ("Deployment", CONTAINER, {"name": "web", "image": "a", "ports": [{"containerPort": 65536}]}),
    ("Deployment", CONTAINER, {"name": "web", "image": "a", "ports": [{"name": "a" * 16, "containerPort": 1}]}),
    ("Deployment", CONTAINER, {"name": "web", "image": "a", "ports": [{"name": "HTTP", "containerPort": 1}]}),
    ("Deployment", CONTAINER, {"name": "web", "image": "a", "ports": [{"name": "80", "containerPort": 1}]}),
    ("Deployment", CONTAINER, {"name": "web", "image": "a", "ports": [{"name": "a-b", "containerPort": 1}]}),
    ("Job", ("spec", "template", "spec"), POD),
    ("Job", ("spec", "template", "spec"), {**POD, "restartPolicy": "Always"}),
    ("Job", ("spec", "template", "spec"), {**POD, "restartPolicy": "OnFailure"}),
    ("CronJob", ("spec", "jobTemplate", "spec", "template", "spec"), POD),
    ("Service", ("spec", "ports"), [{"port": 0}]),
    ("Service", ("spec", "ports"), [{"port": 1}, {"port": 2}]),
    ("Service", ("spec", "ports"), [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]),
    ("Service", ("spec", "ports"), [{"port": 1, "name": "A"}]),
    ("Service", ("spec", "ports"), [{"port": 1, "targetPort": 70000}]),
)  # fmt: skip


async def test_manifests_are_refused_as_by_the_api_server(client: Client) -> None:
    mapper = RESTMapper(client)
    differences = []
    for kind, path, value in CHANGES:
        body: Any = {"kind": kind, "metadata": {"name": "web"}, **copy.deepcopy(BODIES[kind])}
        inner = body
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = value
        group_kind = GroupKind(split_api_version(body["apiVersion"])[0], kind)
        resource = await mapper.resource(group_kind)
        create = request.create(resource, "default" if resource.namespaced else "", encode(body))
        try:
            await client.send(dataclasses.replace(create, query=(("dryRun", "All"),), dry_run=True))
            theirs = set()
        except ApiError as error:
            theirs = {
                each.field.replace("spec.template.labels", "spec.template.metadata.labels") for each in error.causes
            } or {error.message}
        fields = {each.field for each in validate_manifest(group_kind, body)}
        if bool(fields) != bool(theirs) or not fields <= theirs:
            differences.append((kind, path, value, fields, theirs))
    assert not differences, "\n".join(map(str, differences))
