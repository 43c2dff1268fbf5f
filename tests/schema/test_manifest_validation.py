"""Manifests are refused offline where the API server refuses them, for the same fields."""

from __future__ import annotations

import copy
import dataclasses
import re
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from ssa_operator.kube.api import request
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.schema.crd_validation import validate_crd
from ssa_operator.schema.manifest_validation import validate_manifest
from ssa_operator.tools.schema_rules import bundled_schemas
from tests.manifest_comparison import Trial, compare, mutated
from tests.operator.harness import definition
from tests.schema.built_in_objects import OBJECTS

pytestmark = pytest.mark.cluster


SCHEMAS = bundled_schemas(KUBERNETES_VERSION)
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
        fields = {each.field for each in validate_manifest(body, SCHEMAS)}
        if bool(fields) != bool(theirs) or not fields <= theirs:
            differences.append((kind, path, value, fields, theirs))
    assert not differences, "\n".join(map(str, differences))


CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
SCHEMA = ("spec", "versions", 0, "schema", "openAPIV3Schema")
SPEC = (*SCHEMA, "properties", "spec")
A = (*SPEC, "properties", "a")
VERSION = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}}


def crd(path: tuple[str | int, ...] = (), value: Any = None) -> dict[str, Any]:
    """A CRD with one field changed."""
    found = copy.deepcopy(definition("sites", "mistakes.example.com", "Site"))
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    inner: Any = found
    for part in path[:-1]:
        inner = inner[part]
    if path:
        inner[path[-1]] = value
    return found


COLUMNS = ("spec", "versions", 0, "additionalPrinterColumns")
METADATA = ("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "metadata")
CRD_CHANGES: tuple[tuple[tuple[str | int, ...], Any], ...] = (
    ((), None),
    (("metadata", "name"), "site.mistakes.example.com"),
    (("spec", "group"), "Mistakes.example.com"),
    (("spec", "group"), "mistakes"),
    (("spec", "scope"), "Namespace"),
    (("spec", "names", "plural"), "Sites"),
    (("spec", "names", "singular"), "a_site"),
    (("spec", "names", "kind"), "My Site"),
    (("spec", "names", "kind"), "site"),
    (("spec", "names", "listKind"), "Site"),
    (("spec", "names", "shortNames"), ["S"]),
    (("spec", "versions", 0, "name"), "1"),
    (("spec", "versions", 0, "name"), "v1.0"),
    (("spec", "versions", 0, "storage"), False),
    (("spec", "versions"), [*crd()["spec"]["versions"], VERSION]),
    (("spec", "versions"), [*crd()["spec"]["versions"], {**VERSION, "storage": True}]),
    (("spec", "versions"), [*crd()["spec"]["versions"], {**VERSION, "name": "v1"}]),
    ((*A, "type"), "int"),
    ((*A, "type"), "str"),
    ((*SCHEMA, "type"), "string"),
    (A, {"type": "array"}),
    (A, {"type": "array", "items": {"type": "text"}}),
    (A, {"type": "integer", "default": "1"}),
    (A, {"type": "integer", "default": 1}),
    (A, {"type": "string", "enum": ["a"], "default": "b"}),
    (A, {"type": "string", "pattern": "^b", "default": "a"}),
    (A, {"type": "string", "pattern": "["}),
    (A, {"type": "string", "pattern": "(?<=a)b"}),
    (A, {"type": "integer", "minimum": 1, "default": 0}),
    (A, {"type": "array", "items": {"type": "string"}, "default": ["a", 1]}),
    (A, {"type": "object", "default": {"b": 1}, "properties": {"c": {"type": "string"}}}),
    (A, {"type": "object", "default": {"b": 1}, "properties": {"b": {"type": "string"}}}),
    (A, {"type": "object", "default": {}, "required": ["b"], "properties": {"b": {"type": "string"}}}),
    (A, {"type": "object", "default": {}, "required": ["b"], "properties": {"b": {"type": "string", "default": "a"}}}),
    (A, {"type": "boolean", "default": "true"}),
    (A, {"type": "string", "nullable": True, "default": None}),
    (A, {"type": "object", "additionalProperties": {"type": "string"}, "default": {"x": "y"}}),
    (A, {"type": "object", "additionalProperties": {"type": "string", "default": 2}}),
    (A, {"x-kubernetes-int-or-string": True, "default": "50%"}),
    ((*SPEC, "required"), ["b"]),
    ((*SPEC, "additionalProperties"), False),
    ((*SPEC, "additionalProperties"), {"type": "string"}),
    (
        A,
        {
            "type": "array",
            "items": {"type": "object"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["b"],
        },
    ),
    (A, {"type": "string", "$ref": "#/b"}),
    (A, {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (COLUMNS, [{"name": "A", "type": "str", "jsonPath": ".spec.a"}]),
    (COLUMNS, [{"name": "A", "type": "string", "jsonPath": "spec.a"}]),
    (METADATA, {"type": "object", "properties": {"labels": {"type": "object"}}}),
    (METADATA, {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}}),
)


async def refused_fields(client: Client, body: Mapping[str, Any]) -> list[str]:
    """The fields for which the API server refuses a new CRD."""
    create = request.create(CRDS, "", encode(body))
    query = (("dryRun", "All"), ("fieldManager", "test"))
    try:
        await client.send(dataclasses.replace(create, query=query, dry_run=True))
    except ApiError as error:
        return sorted({each.field for each in error.causes}) or [error.message]
    return []


@pytest.mark.parametrize(("path", "value"), CRD_CHANGES, ids=[f"{path[-1:]}-{value}" for path, value in CRD_CHANGES])
async def test_a_crd_is_refused_as_by_the_api_server(client: Client, path: tuple[str | int, ...], value: Any) -> None:
    body = crd(path, value)
    ours = {each.field for each in validate_crd(body)}
    theirs = {_field(each) for each in await refused_fields(client, body)}
    assert bool(ours) == bool(theirs), theirs
    assert ours <= theirs


def _field(field: str) -> str:
    """A field in the words of `v1`: where all versions have one schema, the API server names that of `v1beta1`."""
    field = field.replace("spec.additionalPrinterColumns", "spec.versions[0].additionalPrinterColumns")
    field = (
        field.replace("JSONPath", "jsonPath").replace("spec.validation.", "spec.versions[0].schema.").replace(".[", "[")
    )
    return re.sub(r"\[(\D[^]]*)]", r".\1", field)


FREQUENT = (
    "Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Service", "Ingress",
    "HorizontalPodAutoscaler", "PodDisruptionBudget", "PersistentVolumeClaim", "ConfigMap", "Secret", "Role",
    "ClusterRole", "RoleBinding", "ClusterRoleBinding",
)  # fmt: skip
"""The kinds of which `check` finds 70 % of the mistakes without an API server."""

OF_ALL_KINDS = [each.body for each in objects(OBJECTS, "all.yaml")]


async def test_valid_objects_of_built_in_kinds_have_no_errors(client: Client) -> None:
    result = await compare(client, [Trial("valid", str(body), body) for body in OF_ALL_KINDS])
    assert result.total("refused") == 0
    assert not result.alarms, "\n".join(result.alarms)


@pytest.mark.exhaustive
async def test_mutations_are_refused_as_by_the_api_server(client: Client) -> None:
    frequent = await compare(client, mutated(each for each in OF_ALL_KINDS if each["kind"] in FREQUENT))
    others = await compare(client, mutated(each for each in OF_ALL_KINDS if each["kind"] not in FREQUENT))
    for result in (frequent, others):
        sys.stdout.write(f"{result}\n")
        assert not result.alarms, "\n".join(result.alarms)
        assert not result.missed, "\n".join(result.missed)
    assert frequent.total("missed alone") <= frequent.total("refused") * 0.3
