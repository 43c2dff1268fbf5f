"""The manifests of a NeonDatabase: their order, names, rights, probes, volumes and networks."""

from __future__ import annotations

import base64
import itertools
import json
import re
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.rendering.render import render
from tests.neon.fake_ready_cluster import (
    ROOT,
    S3,
    Stage,
    container,
    containers,
    database,
    key,
    made,
    pods,
    templates,
)

pytestmark = pytest.mark.exhaustive

VARIANTS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "small": {"safekeepers": {"count": 1}, "deletion_policy": "Delete", "storage_class": "fast"},
    "external": {"s3": S3},
    "with roles": {
        "roles": [{"name": "app"}],
        "databases": [{"name": "shop", "owner": "app", "extensions": ["vector"]}],
    },
}
each_variant = pytest.mark.parametrize("stage", VARIANTS, indirect=True)


@cache
def variant(name: str = "as it comes") -> Stage:
    return made(**VARIANTS[name])


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Stage:
    return variant(request.param)


def wave(stage: Stage, name: str) -> int:
    return next(number for number, names in enumerate(stage.waves) if name in names)


def test_everything_is_made_in_order_and_as_soon_as_it_can_be() -> None:
    stage = variant()
    workloads = [
        {name for name in names if name.partition("/")[0] in ("StatefulSet", "Deployment", "Job")}
        for names in stage.waves
    ]
    assert [names for names in workloads if names] == [
        {"StatefulSet/db-minio"},
        {"Job/db-bucket"},
        {"Deployment/db-broker"},
        {"StatefulSet/db-safekeeper"},
        {"StatefulSet/db-pageserver"},
        {"Job/db-tenant"},
        {"Job/db-timeline"},
        {"Deployment/db-compute"},
    ]
    # What is no workload waits for nothing, but for what it is made of.
    late = {name for names in stage.waves[1:] for name in names} - set().union(*workloads)
    assert late == {"ConfigMap/db-pageserver", "Secret/db-compute"}
    # The pageserver waits for its configuration alone, which is made when the safekeepers are.
    assert wave(stage, "ConfigMap/db-pageserver") == wave(stage, "StatefulSet/db-safekeeper")


@pytest.mark.parametrize("component", ["minio", "bucket", "broker", "safekeeper", "pageserver", "tenant", "timeline"])
def test_what_comes_later_waits_while_something_before_it_is_not_ready(component: str) -> None:
    stage = Stage(database())
    stage.objects = {
        name: {key: value for key, value in body.items() if key != "status" or not name.endswith(f"-{component}")}
        for name, body in variant().objects.items()
    }
    waiting = {wait.identity.name for wait in stage.rendered().waits if wait.identity is not None}
    order = ["minio", "bucket", "broker", "safekeeper", "pageserver", "tenant", "timeline", "compute"]
    after = order[order.index(component) + 1]
    if component == "safekeeper":
        after = "tenant"
    assert f"db-{after}" in waiting
    assert not waiting & {f"db-{each}" for each in order[: order.index(component) + 1]}


NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
WORDS = st.lists(
    st.sampled_from(["a", "minio", "bucket", "broker", "safekeeper", "pageserver", "compute", "tenant", "timeline"]),
    min_size=1,
    max_size=3,
).map("-".join)


def identities(name: str) -> set[str]:
    """What the first pass makes or would make."""
    found = render(templates(), database(name))
    named = {f"{wait.identity.kind}/{wait.identity.name}" for wait in found.waits if wait.identity is not None}
    return named | {key(document.body) for document in found.documents}


@pytest.mark.exhaustive
@settings(max_examples=40)
@given(st.one_of(NAMES, WORDS), st.one_of(NAMES, WORDS))
def test_two_databases_in_a_namespace_have_nothing_in_common(one: str, other: str) -> None:
    if one != other:
        assert not identities(one) & identities(other)


@pytest.mark.exhaustive
@settings(max_examples=40)
@given(NAMES)
def test_all_names_are_short_enough_for_what_is_named(name: str) -> None:
    for identity in identities(name):
        # A StatefulSet's pods have a label of its name, a dash and ten characters.
        assert re.fullmatch("[a-z]([-a-z0-9]{0,50}[a-z0-9])?", identity.partition("/")[2])


def test_a_long_name_gives_a_database_like_any_other() -> None:
    stage = made("x" * 63)
    assert len(stage.objects) == len(variant().objects)
    labels = [value for body in stage.objects.values() for value in body["metadata"]["labels"].values()]
    assert all(len(value) <= 63 for value in labels)


@pytest.mark.more_cases
@each_variant
def test_every_pod_could_run_where_pod_security_is_restricted(stage: Stage) -> None:
    for pod in pods(stage).values():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        context = spec["securityContext"]
        assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 1000)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for each in spec["containers"]:
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert each["imagePullPolicy"] == "IfNotPresent"
            assert each["resources"]["requests"]


def test_every_image_comes_from_the_database() -> None:
    refs = {f"{image}_image_ref": f"registry.test/{image}:1" for image in ("compute", "neon", "minio", "mc")}
    stage = made(**refs)
    images = {component: container(stage, component)["image"].split("/")[1] for component in pods(stage)}
    neon = dict.fromkeys(("broker", "safekeeper", "pageserver", "tenant", "timeline"), "neon:1")
    assert images == {**neon, "compute": "compute:1", "minio": "minio:1", "bucket": "mc:1"}


@pytest.mark.exhaustive
def test_without_an_image_the_compute_s_is_that_of_its_version() -> None:
    for version in (14, "15", 16, "17"):
        image = container(made(postgres_version=version), "compute")["image"]
        assert image == f"ghcr.io/neondatabase/compute-node-v{version}:release-compute-9073"


@pytest.mark.more_cases
@each_variant
def test_no_image_is_the_latest(stage: Stage) -> None:
    """With `latest` and IfNotPresent, nodes run different builds of one protocol."""
    tags = {each["image"].rpartition(":")[2] for each in containers(stage)}
    assert all(re.search(r"\d{4}", tag) for tag in tags)


def test_the_example_and_the_page_have_the_images_of_the_templates() -> None:
    """The templates are the one place to raise the releases; this test tells where they are repeated."""
    example = yaml.safe_load((ROOT / "examples" / "neondatabase.yaml").read_text())["spec"]
    refs = {each: example.pop(each) for each in ("compute_image_ref", "neon_image_ref")}
    stage = made(**example)
    assert container(stage, "compute")["image"] == refs["compute_image_ref"]
    assert container(stage, "pageserver")["image"] == refs["neon_image_ref"]
    page = (ROOT / "docs" / "neondatabase.md").read_text()
    for ref in refs.values():
        assert f":{ref.rpartition(':')[2]}`" in page


def test_resources_reach_every_component() -> None:
    def asked(number: int) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": number}}}

    fields = {"minio": "minio", "broker": "broker", "safekeepers": "safekeeper", "pageserver": "pageserver"}
    fields |= {"compute": "compute", "jobs": "tenant"}
    spec: dict[str, Any] = {field: asked(number) for number, field in enumerate(fields, 1)}
    stage = made(**spec)
    for number, component in enumerate(fields.values(), 1):
        assert container(stage, component)["resources"] == asked(number)["resources"]


def test_probes_are_those_of_the_programs() -> None:
    stage = variant()
    paths = {
        "minio": "/minio/health/ready",
        "broker": "/status",
        "safekeeper": "/v1/status",
        "pageserver": "/v1/status",
    }
    ports = {"minio": 9000, "broker": 50051, "safekeeper": 7676, "pageserver": 9898}
    for component, path in paths.items():
        found = container(stage, component)
        probe = found["readinessProbe"]["httpGet"]
        numbers = {port["name"]: port["containerPort"] for port in found["ports"]}
        assert (probe["path"], numbers[probe["port"]]) == (path, ports[component])
        assert found["startupProbe"]["httpGet"] == found["livenessProbe"]["httpGet"]
    compute = container(stage, "compute")
    command = "pg_isready -h 127.0.0.1 -p 55433 -U cloud_admin"
    assert " ".join(compute["readinessProbe"]["exec"]["command"]) == command
    ports = {port["name"]: port["containerPort"] for port in compute["ports"]}
    assert ports == {"postgres": 55433, "external-http": 3080, "internal-http": 3081}
    # Whoever restarts a Postgres that is only busy makes it worse, and compute_ctl ends with it when it dies.
    assert "livenessProbe" not in compute


@each_variant
def test_every_container_that_keeps_running_has_a_readiness_probe(stage: Stage) -> None:
    without = [
        f"{name}: {each['name']}"
        for name, body in stage.objects.items()
        if body["kind"] in ("Deployment", "StatefulSet", "DaemonSet")
        for each in body["spec"]["template"]["spec"]["containers"]
        if "readinessProbe" not in each
    ]
    assert without == []


def test_the_generation_validator_is_ready_while_it_answers_by_the_volume() -> None:
    (found,) = [
        each
        for each in variant().objects["StatefulSet/db-pageserver"]["spec"]["template"]["spec"]["containers"]
        if each["name"] == "generation-validator"
    ]
    # It listens on 127.0.0.1, where the kubelet's own request would not reach it.
    ready, alive = found["readinessProbe"], found["livenessProbe"]
    assert ready["exec"] == alive["exec"]
    assert ready["exec"]["command"][-1] == "http://127.0.0.1:6666/status"
    # The container is taken for unready before it is restarted.
    slowest = [probe["periodSeconds"] * probe.get("failureThreshold", 3) for probe in (ready, alive)]
    assert slowest[0] < slowest[1]


@each_variant
def test_every_service_leads_to_ports_that_pods_have(stage: Stage) -> None:
    for name, body in stage.objects.items():
        if not name.startswith("Service/"):
            continue
        (pod,) = (pod for pod in pods(stage).values() if body["spec"]["selector"] == pod["metadata"]["labels"])
        numbers = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
        for port in body["spec"]["ports"]:
            assert numbers[port["targetPort"]] == port["port"]


@each_variant
def test_every_mount_has_its_volume(stage: Stage) -> None:
    for body in stage.objects.values():
        spec = body.get("spec", {})
        if "template" not in spec:
            continue
        claims = [claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())]
        volumes = [volume["name"] for volume in spec["template"]["spec"].get("volumes", ())]
        mounts = [each.get("volumeMounts", ()) for each in spec["template"]["spec"]["containers"]]
        mounted = [mount["name"] for each in mounts for mount in each]
        assert set(mounted) == {*claims, *volumes}
        assert (
            spec.get("selector", {}).get("matchLabels", spec["template"]["metadata"]["labels"])
            == (spec["template"]["metadata"]["labels"])
        )


def allowed(stage: Stage, caller: str, component: str, port: int) -> bool:
    """Whether the NetworkPolicy of a component lets a caller in."""
    policy = stage.objects[f"NetworkPolicy/db-{component}"]["spec"]
    assert policy["podSelector"]["matchLabels"] == pods(stage)[component]["metadata"]["labels"]
    assert policy["policyTypes"] == ["Ingress"]
    labels = {"app.kubernetes.io/name": "neon", "app.kubernetes.io/instance": "db"}
    labels["app.kubernetes.io/component"] = caller
    return any(
        port in [each["port"] for each in rule["ports"]]
        and ("from" not in rule or any(peer["podSelector"]["matchLabels"] == labels for peer in rule["from"]))
        for rule in policy["ingress"]
    )


@each_variant
def test_the_network_lets_through_who_has_to_talk_and_nobody_else(stage: Stage) -> None:
    calls = {
        *(("bucket", "minio", 9000), ("safekeeper", "minio", 9000), ("pageserver", "minio", 9000)),
        *(("safekeeper", "broker", 50051), ("pageserver", "broker", 50051)),
        *(("compute", "safekeeper", 5454), ("pageserver", "safekeeper", 5454), ("safekeeper", "safekeeper", 5454)),
        *(("safekeeper", "safekeeper", 7676), ("pageserver", "safekeeper", 7676)),
        *(("compute", "pageserver", 6400), ("tenant", "pageserver", 9898), ("timeline", "pageserver", 9898)),
    }
    ports = {"minio": (9000, 9001), "broker": (50051,), "safekeeper": (5454, 7676), "pageserver": (6400, 9898)}
    components = [component for component in ports if component in pods(stage)]
    for caller, component in itertools.product([*pods(stage), "stranger"], components):
        for port in ports[component]:
            assert allowed(stage, caller, component, port) == ((caller, component, port) in calls)
    assert allowed(stage, "stranger", "compute", 55433)
    assert not allowed(stage, "stranger", "compute", 3080)


@pytest.mark.exhaustive
def test_volumes_are_kept_or_go_as_the_database_says() -> None:
    for policy in ("Retain", "Delete"):
        stage = made(deletion_policy=policy)
        sets = [body["spec"] for name, body in stage.objects.items() if name.startswith("StatefulSet/")]
        assert len(sets) == 3
        for spec in sets:
            retention = {"whenDeleted": policy, "whenScaled": "Retain"}
            assert spec["persistentVolumeClaimRetentionPolicy"] == retention


def test_volumes_have_the_sizes_and_the_class_that_are_asked_for() -> None:
    sizes = {"minio": "1Gi", "safekeepers": "2Gi", "pageserver": "3Gi"}
    spec: dict[str, Any] = {field: {"storage_size": size} for field, size in sizes.items()}
    stage = made(storage_class="fast", **spec)
    for field, size in sizes.items():
        (claim,) = stage.objects[f"StatefulSet/db-{field.removesuffix('s')}"]["spec"]["volumeClaimTemplates"]
        assert claim["spec"]["resources"]["requests"] == {"storage": size}
        assert claim["spec"]["storageClassName"] == "fast"
    (claim,) = made().objects["StatefulSet/db-minio"]["spec"]["volumeClaimTemplates"]
    assert "storageClassName" not in claim["spec"]


@each_variant
def test_what_can_not_be_changed_is_made_anew_and_pods_are_kept(stage: Stage) -> None:
    for name, body in stage.objects.items():
        kind = name.partition("/")[0]
        asked = body["metadata"].get("annotations", {}).get("ssa-operator.dev/recreate")
        assert asked == {"StatefulSet": "Orphan", "Job": "Background"}.get(kind)


def test_a_node_can_always_be_emptied() -> None:
    for stage in map(variant, VARIANTS):
        budgets = [name for name in stage.objects if name.startswith("PodDisruptionBudget/")]
        replicas = stage.objects["StatefulSet/db-safekeeper"]["spec"]["replicas"]
        # A budget for the only one of something would never let it go.
        assert budgets == (["PodDisruptionBudget/db-safekeeper"] if replicas == 3 else [])
    budget = variant().objects["PodDisruptionBudget/db-safekeeper"]["spec"]
    assert budget == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": pods(variant())["safekeeper"]["metadata"]["labels"]},
    }


@each_variant
def test_what_a_secret_has_is_in_nothing_but_secrets(stage: Stage) -> None:
    """Neither as it is, nor in base64, nor as the hash that Postgres keeps."""
    contents = [body["data"] for name, body in stage.objects.items() if name.startswith("Secret/")]
    contents += [body["data"] for body in stage.others if "s3" in stage.parent["spec"]]
    config = base64.b64decode(stage.objects["Secret/db-compute"]["data"]["config.json"]).decode()
    (role,) = json.loads(config)["spec"]["cluster"]["roles"]
    hidden = {role["encrypted_password"]}
    for data in contents:
        for field in ("password", "uri", "config.json", "databases.json", "AWS_SECRET_ACCESS_KEY"):
            if field in data:
                hidden |= {data[field], base64.b64decode(data[field]).decode()}
        if "databases.json" in data:
            hidden |= {each["password"] for each in json.loads(base64.b64decode(data["databases.json"]))["roles"]}
    assert len(hidden) == 9 + 7 * len(stage.parent["spec"].get("roles", ()))
    shown = {name: json.dumps(body) for name, body in stage.objects.items() if not name.startswith("Secret/")}
    shown["status"] = json.dumps(stage.status())
    assert [(name, len(text)) for name, body in shown.items() for text in hidden if text in body] == []


@each_variant
def test_the_environment_names_no_secret_but_by_reference(stage: Stage) -> None:
    for found in containers(stage):
        for each in found.get("env", ()):
            if each["name"].startswith(("AWS_", "MINIO_ROOT_", "PGPASSWORD")):
                assert set(each) == {"name", "valueFrom"}
                assert set(each["valueFrom"]) == {"secretKeyRef"}


@each_variant
def test_a_set_that_was_corrected_is_not_kept_by_a_pod_that_can_not_run(stage: Stage) -> None:
    sets = [body for name, body in stage.objects.items() if name.startswith("StatefulSet/")]
    assert all(body["spec"]["podManagementPolicy"] == "Parallel" for body in sets)


def test_an_image_reaches_one_safekeeper_after_the_other() -> None:
    spec = variant().objects["StatefulSet/db-safekeeper"]["spec"]
    # A rolling update without a partition and without maxUnavailable: one pod, and the next when it is ready.
    assert spec["updateStrategy"] == {"type": "RollingUpdate"}
