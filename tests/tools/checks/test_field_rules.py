"""Fields of the parent that templates read and that the CRD doesn't declare, as values."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.objects.template_contents import PossibleField
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.tools.checks.field_rules import COUNTED, FolderFields, check_empty_values, check_fields
from ssa_operator.tools.schema_rules import bundled_schemas
from tests.operator.fixtures import client, desk
from tests.operator.harness import Desk

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "limits": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"cpu": {"type": "string"}}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "names": {"type": "array", "items": {"type": "string"}},
                "items": {"type": "object", "properties": {"first": {"type": "string"}}},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def reads(*paths: str, file: str = "echoes.example.com/a.yaml.j2", schema: dict[str, Any] = SCHEMA) -> FolderFields:
    """A folder that reads these fields, each at a line of its own."""
    fields = [
        PossibleField(path=tuple(path.split(".")), location=SourceLocation(file, line))
        for line, path in enumerate(paths, 1)
    ]
    return FolderFields(folder="echoes.example.com", schema=schema, fields=fields)


@pytest.mark.parametrize(
    "path",
    [
        *("spec", "spec.replicas", "spec.labels.anything", "spec.limits.x.cpu", "spec.free.a.b", "spec.names.0"),
        *("spec.items.first", "spec.labels.items", "spec.keys", "status.phase", "metadata.whatever", "spec.names.x"),
    ],
)
def test_a_field_that_a_parent_may_have_is_no_finding(path: str) -> None:
    assert check_fields([reads(path)]) == []


@pytest.mark.parametrize(
    ("path", "missing", "fix"),
    [
        ("spec.replcas", "spec.replcas", "did you mean spec.replicas?"),
        ("spec.limits.x.gpu", "spec.limits.x.gpu", "did you mean spec.limits.x.cpu?"),
        ("spec.zzzz.b.c", "spec.zzzz", "declare it, or remove it"),
        ("status.ready", "status.ready", "declare it, or remove it"),
        ("spec.items.frist", "spec.items.frist", "did you mean spec.items.first?"),
    ],
)
def test_a_field_that_no_parent_ever_has_is_found_with_the_nearest_one(path: str, missing: str, fix: str) -> None:
    (found,) = check_fields([reads("spec.replicas", path)])
    assert found.message == f"the CRD echoes.example.com declares no {missing}"
    assert (found.code, found.fix) == ("undeclared-field", fix)
    assert found.location == SourceLocation("echoes.example.com/a.yaml.j2", 2)


def test_a_shared_file_may_read_what_only_one_of_its_folders_has() -> None:
    other = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"lsn": {"type": "string"}}}}}
    shared = "_shared/a.yaml.j2"
    assert check_fields([reads("spec.lsn", file=shared), reads("spec.lsn", file=shared, schema=other)]) == []
    (found, _) = check_fields([reads("spec.lns", file=shared), reads("spec.x", file="b", schema=other)])
    assert found.message.endswith("declares no spec.lns")


__all__ = ["client", "desk"]

SCHEMAS = bundled_schemas(KUBERNETES_VERSION)
POLICY = """apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, annotations: {}}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        - podSelector: {}
        - namespaceSelector: {matchLabels: {a: b}}
    - {}
"""


def lines(text: str) -> list[int]:
    found = check_empty_values(objects(text, "all.yaml"), SCHEMAS)
    assert {each.code for each in found} <= {"repeated-change"}
    return [each.location.line for each in found if each.location is not None]


def test_empty_mappings_that_mean_something_are_no_finding() -> None:
    assert lines(POLICY) == []


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("  podSelector: {}", "  egress: []\n  podSelector: {}", 5),
        ("    - {}", "    - {from: []}", 11),
        ("    - {}", "    - ports: []", 11),
        ("podSelector: {}\n  policy", "podSelector: {matchLabels: {}}\n  policy", 5),
        ("{matchLabels: {a: b}}", "{matchExpressions: []}", 10),
    ],
)
def test_an_empty_list_or_mapping_that_the_api_server_drops_is_found_at_its_line(
    before: str, after: str, line: int
) -> None:
    assert lines(POLICY.replace(before, after, 1)) == [line]


def test_empty_values_of_other_kinds_are_no_finding() -> None:
    text = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {}}
    spec:
      tolerations: []
      nodeSelector: {}
      containers: [{name: web, image: "nginx:1.27", env: [], resources: {limits: {}}}]
      volumes: [{name: a, emptyDir: {}}]
"""
    assert lines(text) == []
    assert lines("apiVersion: a.example.com/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {ingress: []}\n") == []


WEBHOOK: dict[str, Any] = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://a.example.com/"},
    "sideEffects": "None",
    "failurePolicy": "Ignore",
    "admissionReviewVersions": ["v1"],
    "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["nones"]}],
    "namespaceSelector": {},
    "objectSelector": {},
}
MATCHED = {"resourceRules": WEBHOOK["rules"], "namespaceSelector": {}, "objectSelector": {}}
PODS: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
JOB = {"template": {"spec": {**PODS["spec"], "restartPolicy": "Never"}}}
SELECTOR = {"matchLabels": {"a": "b"}}
ADMISSION, NETWORK = "admissionregistration.k8s.io/v1", "networking.k8s.io/v1"
POD_SCALER = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}, "maxReplicas": 2}
MANIFESTS: dict[tuple[str, str], dict[str, Any]] = {
    ("v1", "ReplicationController"): {"spec": {"replicas": 0, "selector": {"a": "b"}, "template": PODS}},
    ("v1", "Service"): {"spec": {"ports": [{"port": 80}]}},
    ("v1", "ConfigMap"): {},
    ("v1", "ServiceAccount"): {},
    ("v1", "ResourceQuota"): {"spec": {}},
    ("apps/v1", "ReplicaSet"): {"spec": {"replicas": 0, "selector": SELECTOR, "template": PODS}},
    ("apps/v1", "Deployment"): {"spec": {"replicas": 0, "selector": SELECTOR, "template": PODS}},
    ("apps/v1", "StatefulSet"): {"spec": {"replicas": 0, "selector": SELECTOR, "template": PODS, "serviceName": "a"}},
    ("apps/v1", "DaemonSet"): {"spec": {"selector": SELECTOR, "template": PODS}},
    ("batch/v1", "Job"): {"spec": {"suspend": True, **JOB}},
    ("batch/v1", "CronJob"): {"spec": {"schedule": "1 1 1 1 1", "jobTemplate": {"spec": JOB}}},
    (NETWORK, "NetworkPolicy"): {
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}
    },
    (NETWORK, "Ingress"): {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    (ADMISSION, "ValidatingWebhookConfiguration"): {"webhooks": [WEBHOOK]},
    (ADMISSION, "MutatingWebhookConfiguration"): {"webhooks": [WEBHOOK]},
    (ADMISSION, "ValidatingAdmissionPolicy"): {
        "spec": {"matchConstraints": MATCHED, "validations": [{"expression": "true"}]}
    },
    (ADMISSION, "ValidatingAdmissionPolicyBinding"): {
        "spec": {"policyName": "none", "validationActions": ["Deny"], "matchResources": {"objectSelector": {}}}
    },
    ("policy/v1", "PodDisruptionBudget"): {"spec": {"minAvailable": 0, "selector": {}}},
    ("autoscaling/v2", "HorizontalPodAutoscaler"): {"spec": POD_SCALER},
    ("rbac.authorization.k8s.io/v1", "Role"): {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ("storage.k8s.io/v1", "StorageClass"): {"provisioner": "a.example.com/none"},
    ("resource.k8s.io/v1", "DeviceClass"): {"spec": {}},
}


def with_empty_values(body: dict[str, Any]) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """A manifest with one more empty list or mapping each, wherever its schema has a list or free keys."""
    root = SCHEMAS.schema(body["apiVersion"], body["kind"])
    assert root is not None

    def places(value: Any, schema: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
        schema = SCHEMAS.resolved(schema)
        for name, below in schema.get("properties", {}).items() if isinstance(value, dict) else ():
            found = SCHEMAS.resolved(below)
            if not path and name in ("apiVersion", "kind", "metadata", "status"):
                continue
            if name in value:
                yield from places(value[name], below, (*path, name))
            elif found.get("type") == "array" or "additionalProperties" in found:
                yield (*path, name), [] if found.get("type") == "array" else {}
        for position, item in enumerate(value) if isinstance(value, list) else ():
            yield from places(item, schema.get("items", {}), (*path, position))

    for path, empty in places(body, root, ()):
        changed = at = copy.deepcopy(body)
        for part in path[:-1]:
            at = at[part]  # type: ignore[index]
        at[path[-1]] = empty  # type: ignore[index]
        yield path, changed


@pytest.mark.cluster
@pytest.mark.usefixtures("current_kubernetes")
async def test_the_api_server_counts_an_apply_of_an_empty_value_for_the_kinds_that_are_checked_and_no_other(
    desk: Desk,
) -> None:
    async def applied(body: dict[str, Any]) -> LiveObject:
        group, version = split_api_version(body["apiVersion"])
        resource = await desk.mapper.resource(GroupKind(group, body["kind"]), version)
        namespace = desk.namespace if resource.namespaced else ""
        options = ApplyOptions(manager="test")
        done = await desk.client.apply(resource, namespace, body["metadata"]["name"], encode(body), options)
        return done.live

    for (api_version, kind), fields in MANIFESTS.items():
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": desk.namespace}, **fields}
        counted = GroupKind(split_api_version(api_version)[0], kind) in COUNTED
        variants = [(path, made) for path, made in with_empty_values(body) if path[-1] not in REFUSED_EMPTY]
        if not counted:
            variants = variants[:1] and [((), merged([made for _, made in variants]))]
        for path, made in variants:
            first = await applied(made)
            second = await applied(made)
            raised = first.metadata.generation != second.metadata.generation
            assert raised is counted, f"{kind} {field_text(path)}"
            found = check_empty_values(objects(encode(made).decode(), "all.json"), SCHEMAS)
            assert bool(found) is counted, f"{kind} {field_text(path)}"
        if kind in CLUSTER_SCOPED:
            await desk.delete(kind, desk.namespace, wait=False)


REFUSED_EMPTY = frozenset({"policies"})
CLUSTER_SCOPED = frozenset({
    "StorageClass", "DeviceClass", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
})  # fmt: skip


def merged(bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """One manifest with the empty values of all."""

    def join(one: Any, other: Any) -> Any:
        if isinstance(one, dict):
            return {
                name: join(one[name], other[name]) if name in one and name in other else {**one, **other}[name]
                for name in {**one, **other}
            }
        if isinstance(one, list) and len(one) == len(other):
            return [join(*each) for each in zip(one, other, strict=True)]
        return one

    found = bodies[0]
    for body in bodies[1:]:
        found = join(found, body)
    return found
