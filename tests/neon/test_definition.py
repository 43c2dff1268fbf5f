"""The CRD and the manifests of a NeonDatabase on a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.rendering.render import render
from tests.conftest import Kubectl
from tests.neon.fake_ready_cluster import ROOT, S3, Stage, branch, database, made, made_branch, pods, templates

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def definition(cluster: Cluster) -> None:
    """The CRDs, once they are served."""
    kubectl = [str(Path(sys.executable).parent / "kubectl"), f"--kubeconfig={cluster.kubeconfig}"]
    files = [f"--filename={ROOT / 'crds' / name}.melenion.com.yaml" for name in ("neondatabases", "neonbranches")]
    for words in (["apply", "--server-side"], ["wait", "--for=condition=Established", "--timeout=60s"]):
        subprocess.run([*kubectl, *words, *files], check=True)


@pytest.fixture
def apply(definition: None, kubectl: Kubectl, namespace: str) -> Kubectl:
    """`apply(body, *arguments)`: strict server-side apply in the test's namespace."""

    def run(body: Any, *arguments: str) -> str:
        words = ("apply", "--server-side", "--validate=strict", f"--namespace={namespace}", "--filename=-", *arguments)
        return kubectl(*words, input=json.dumps(body))

    return run


def resource(name: str = "db", **spec: Any) -> dict[str, Any]:
    """A NeonDatabase as its user writes it."""
    body = database(name, **spec)
    return {**body, "metadata": {"name": name}}


def refusal(apply: Kubectl, body: dict[str, Any]) -> str:
    with pytest.raises(subprocess.CalledProcessError) as error:
        apply(body, "--dry-run=server")
    return str(error.value.stderr)


@pytest.mark.more_cases
@pytest.mark.parametrize("version", [14, 15, 16, 17, "14", "17"])
def test_a_version_is_a_number_or_a_string(apply: Kubectl, version: int | str) -> None:
    apply(resource(postgres_version=version), "--dry-run=server")


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"postgres_version": 13}, "postgres_version must be 14, 15, 16 or 17"),
        ({"postgres_version": "17.2"}, "postgres_version must be 14, 15, 16 or 17"),
        ({"deletion_policy": "Keep"}, 'Unsupported value: "Keep": supported values: "Retain", "Delete"'),
        ({"safekeepers": {"count": 2}}, 'spec.safekeepers.count: Unsupported value: 2: supported values: "1", "3"'),
        ({"minio": {"storage_size": "big"}}, "spec.minio.storage_size"),
        ({"s3": {"bucket": "mine"}}, "spec.s3.secret_ref: Required value"),
        ({"s3": {**S3, "endpoint": "minio:9000"}}, "spec.s3.endpoint"),
        ({"tenant_id": "a" * 32}, "tenant_id and timeline_id belong together"),
        ({"tenant_id": "a", "timeline_id": "b"}, "spec.tenant_id"),
        ({"compute": {"settings": {"fsync": "on"}}}, "settings may not set what Neon depends on"),
        ({"compute": {"settings": {"neon.tenant_id": "x"}}}, "settings may not set what Neon depends on"),
        ({"compute": {"settings": {"a b": "x"}}}, "settings must have the names of Postgres' settings"),
        ({"compute": {"settings": {"work_mem": 1}}}, "spec.compute.settings.work_mem"),
        ({"postgresVersion": 17}, ".spec.postgresVersion: field not declared in schema"),
        ({"compute": {"preload": ["neon"]}}, "neon is always the first library"),
        ({"compute": {"preload": ["a,b"]}}, "spec.compute.preload[0]"),
        ({"compute": {"settings": {"shared_preload_libraries": "x"}}}, "settings may not set what Neon depends on"),
        ({"roles": [{"name": "App"}]}, "spec.roles[0].name"),
        ({"roles": [{"name": "cloud_admin"}]}, "this name belongs to Postgres or Neon"),
        ({"roles": [{"name": "a"}, {"name": "a"}]}, 'duplicate entries for key [name="a"]'),
        ({"roles": [{"name": "a", "secretRef": {}}]}, "spec.roles[0].secretRef.name: Required value"),
        ({"databases": [{"name": "template1"}]}, "choose another name"),
        ({"databases": [{"name": "a", "owner": "b"}]}, "the owner of a database must be a role of spec.roles"),
        ({"databases": [{"name": "a", "extensions": ["x; y"]}]}, "spec.databases[0].extensions[0]"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_a_reason(apply: Kubectl, spec: dict[str, Any], message: str) -> None:
    assert message in refusal(apply, resource(**spec))


def test_a_database_needs_a_version(apply: Kubectl) -> None:
    body = resource()
    assert "spec.postgres_version: Required value" in refusal(apply, {**body, "spec": {}})


@pytest.mark.parametrize("name", ["a.b", "1a", "x" * 64])
def test_a_name_that_no_service_can_have_is_refused(apply: Kubectl, name: str) -> None:
    assert "metadata.name must be at most 63 lower case letters" in refusal(apply, resource(name))


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({}, {"postgres_version": 16}, "postgres_version is immutable"),
        ({}, {"s3": S3}, "s3 can't be added or removed later"),
        ({"s3": S3}, {}, "s3 can't be added or removed later"),
        ({"s3": S3}, {"s3": {**S3, "bucket": "other"}}, "s3.bucket is immutable"),
        ({}, {"safekeepers": {"count": 1}}, "safekeepers.count is immutable"),
        ({"safekeepers": {"count": 1}}, {}, "safekeepers.count is immutable"),
        ({}, {"storage_class": "fast"}, "storage_class is immutable"),
        ({}, {"tenant_id": "a" * 32, "timeline_id": "b" * 32}, "can't be added or removed later"),
        (
            {"tenant_id": "a" * 32, "timeline_id": "b" * 32},
            {"tenant_id": "c" * 32, "timeline_id": "b" * 32},
            "an id is immutable",
        ),
    ],
)
def test_what_would_lose_data_is_immutable(
    apply: Kubectl, before: dict[str, Any], after: dict[str, Any], message: str
) -> None:
    apply(resource(**before))
    assert message in refusal(apply, resource(**after))


def test_what_can_be_changed_is_changed(apply: Kubectl) -> None:
    apply(resource(safekeepers={"count": 3}, s3=S3))
    other = {**S3, "endpoint": "https://s3.example.com", "secret_ref": {"name": "other"}}
    apply(resource(postgres_version="17", deletion_policy="Delete", neon_image_ref="neon:2", s3=other))


def test_all_but_the_version_has_a_default(apply: Kubectl) -> None:
    spec = json.loads(apply(resource(safekeepers={}, minio={}), "--output=json"))["spec"]
    assert spec == {
        "postgres_version": 17,
        "deletion_policy": "Retain",
        "safekeepers": {"count": 3, "storage_size": "20Gi"},
        "minio": {"storage_size": "50Gi"},
    }


@pytest.mark.exhaustive
def test_the_defaults_of_the_templates_are_those_of_the_crd(apply: Kubectl) -> None:
    """A database that an older CRD let in has the same children."""
    sections: dict[str, Any] = {"minio": {}, "safekeepers": {}, "pageserver": {}, "compute": {}}
    spec = json.loads(apply(resource(**sections), "--output=json", "--dry-run=server"))["spec"]
    assert made(**spec).objects == made().objects


SPECS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "a string": {"postgres_version": "14", "deletion_policy": "Delete"},
    "with roles": {
        "roles": [{"name": "app"}, {"name": "other"}],
        "databases": [{"name": "shop", "owner": "app", "extensions": ["vector"]}, {"name": "plain"}],
        "compute": {
            "preload": ["pg_stat_statements"],
            "settings": {"neon.max_file_cache_size": "1GB", "neon.file_cache_size_limit": "1GB"},
        },
    },
    "external": {"s3": {**S3, "endpoint": "https://s3.example.com"}, "safekeepers": {"count": 1}},
    "everything": {
        "storage_class": "standard",
        "tenant_id": "a" * 32,
        "timeline_id": "b" * 32,
        "minio": {"storage_size": "1Gi", "resources": {"limits": {"memory": "1Gi", "cpu": 2}}},
        "compute": {"max_connections": 10, "settings": {"log_statement": "all"}, "resources": {"requests": {"cpu": 1}}},
    },
}


@pytest.mark.more_cases
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_api_server_takes_every_manifest(apply: Kubectl, spec: dict[str, Any]) -> None:
    stage = made(**spec)
    bodies = [document.body for document in stage.rendered().documents]
    assert {f"{body['kind']}/{body['metadata']['name']}" for body in bodies} == set(stage.objects)
    applied = apply({"apiVersion": "v1", "kind": "List", "items": bodies}, "--dry-run=server")
    assert len(applied.splitlines()) == len(bodies)


STAGES: dict[str, Callable[[], Stage]] = {
    "as it comes": made,
    "external": partial(made, s3=S3),
    "with roles": partial(made, **SPECS["with roles"]),
    "a branch": made_branch,
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("stage_of", STAGES.values(), ids=STAGES)
def test_every_pod_is_admitted_where_pod_security_is_restricted(
    apply: Kubectl, kubectl: Kubectl, namespace: str, stage_of: Callable[[], Stage]
) -> None:
    stage = stage_of()
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    made_pods: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": component}, "spec": volumeless(pod["spec"])}
        for component, pod in pods(stage).items()
    ]
    apply({"apiVersion": "v1", "kind": "List", "items": made_pods}, "--dry-run=server")
    # The API server does look.
    for pod in made_pods:
        pod["spec"]["containers"][0]["securityContext"].pop("capabilities")
        assert 'violates PodSecurity "restricted' in refusal(apply, pod)


def volumeless(spec: dict[str, Any]) -> dict[str, Any]:
    """A pod as its StatefulSet makes it, with a volume for each claim."""
    volumes = [*spec.get("volumes", ())]
    known = {volume["name"] for volume in volumes}
    for mount in (mount for each in spec["containers"] for mount in each.get("volumeMounts", ())):
        if mount["name"] not in known:
            known.add(mount["name"])
            volumes.append({"name": mount["name"], "persistentVolumeClaim": {"claimName": mount["name"]}})
    return {**spec, "volumes": volumes}


def complete(status: dict[str, Any]) -> dict[str, Any]:
    """A status with the fields that the operator adds."""
    condition = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    resources = [{"group": "", "kind": "Secret", "namespace": "n", "name": "a", "uid": "u", "state": "Current"}]
    return {**status, "observedGeneration": 1, "conditions": [condition], "resources": resources}


@pytest.mark.exhaustive
def test_the_crd_has_room_for_all_that_a_status_says(apply: Kubectl, kubectl: Kubectl, namespace: str) -> None:
    apply(resource())
    stage = made(**SPECS["with roles"])
    stage.others = (*stage.others, branch("dev"))
    full = complete(stage.status())
    assert {"branches", "roles", "storage"} <= set(full)
    body = {**resource(), "status": full}
    assert json.loads(apply(body, "--subresource=status", "--output=json"))["status"] == full
    words = kubectl("get", "nd", f"--namespace={namespace}", "--no-headers", "--output=wide").split()
    assert words[:6] == ["db", "Ready", "17", "True", full["connectionString"], "db-credentials"]


def test_the_example_is_taken_and_renders(apply: Kubectl) -> None:
    example = yaml.safe_load((ROOT / "examples" / "neondatabase.yaml").read_text())
    del example["metadata"]["namespace"]
    live = json.loads(apply(example, "--output=json"))
    assert render(templates(), live).problems == ()


def branch_resource(name: str = "dev", **spec: Any) -> dict[str, Any]:
    """A NeonBranch as its user writes it."""
    return {**branch(name, **spec), "metadata": {"name": name}}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"lsn": "16B3748"}, "spec.lsn"),
        ({"ancestor": "dev"}, "a branch can't be its own ancestor"),
        ({"compute": {"settings": {"fsync": "on"}}}, "settings may not set what Neon depends on"),
        ({"from": "x"}, ".spec.from: field not declared in schema"),
    ],
)
def test_a_branch_that_can_not_be_meant_is_refused_with_a_reason(
    apply: Kubectl, spec: dict[str, Any], message: str
) -> None:
    assert message in refusal(apply, branch_resource(**spec))


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({}, {"database": "other"}, "database is immutable"),
        ({}, {"ancestor": "other"}, "ancestor is immutable"),
        ({"ancestor": "one"}, {"ancestor": "two"}, "ancestor is immutable"),
        ({"lsn": "0/1"}, {}, "lsn is immutable"),
    ],
)
def test_a_branch_keeps_its_history(
    apply: Kubectl, before: dict[str, Any], after: dict[str, Any], message: str
) -> None:
    apply(branch_resource(**before))
    assert message in refusal(apply, branch_resource(**after))


def test_the_api_server_takes_every_manifest_of_a_branch(apply: Kubectl) -> None:
    stage = made_branch(compute={"max_connections": 7, "preload": ["pg_cron"], "resources": {"requests": {"cpu": 1}}})
    bodies = [document.body for document in stage.rendered().documents]
    assert {f"{body['kind']}/{body['metadata']['name']}" for body in bodies} == set(stage.objects)
    applied = apply({"apiVersion": "v1", "kind": "List", "items": bodies}, "--dry-run=server")
    assert len(applied.splitlines()) == len(bodies)


def test_the_crd_of_a_branch_has_room_for_all_that_a_status_says(
    apply: Kubectl, kubectl: Kubectl, namespace: str
) -> None:
    apply(branch_resource(ancestor="one"))
    full = complete(made_branch().status())
    body = {**branch_resource(ancestor="one"), "status": full}
    assert json.loads(apply(body, "--subresource=status", "--output=json"))["status"] == full
    words = kubectl("get", "nb", f"--namespace={namespace}", "--no-headers", "--output=wide").split()
    assert words[:7] == ["dev", "db", "one", "Ready", "True", full["connectionString"], "dev-branch-credentials"]


def test_the_example_of_a_branch_is_taken_and_renders(apply: Kubectl) -> None:
    example = yaml.safe_load((ROOT / "examples" / "neonbranch.yaml").read_text())
    del example["metadata"]["namespace"]
    live = json.loads(apply(example, "--output=json"))
    assert render(templates("NeonBranch"), live).problems == ()
