"""Children in served versions that the API server doesn't prefer: they are watched, read, compared and shown in the
version of their manifest.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator.operator_options import Options
from ssa_operator.reconcile.field_conflicts.history import ConflictPolicy
from tests.cli.process import run
from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    Running,
    echo,
    entries,
    map_template,
    not_ready_because,
    only,
    operating,
    ready_condition,
    uid,
)

pytestmark = pytest.mark.cluster

SCALERS = "horizontalpodautoscalers.autoscaling"
SCALER = GroupKind("autoscaling", "HorizontalPodAutoscaler")

V1 = """\
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata:
  name: {{ name }}
spec:
  minReplicas: 1
  maxReplicas: {{ spec.replicas + 3 }}
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: "{{ name }}"}
  targetCPUUtilizationPercentage: 80
"""

V2 = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ name }}
spec:
  minReplicas: 1
  maxReplicas: {{ spec.replicas + 3 }}
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: "{{ name }}"}
  metrics:
  - type: Resource
    resource:
      name: cpu
      target: {type: Utilization, averageUtilization: 80}
"""

IN_V1 = "targetCPUUtilizationPercentage"

READER = map_template("read", fields="child('HorizontalPodAutoscaler', name).spec | list | sort | join(' ')")
"""A ConfigMap with the names of the fields that `child` shows in the autoscaler's spec."""


async def scaler(desk: Desk, version: str) -> Resource:
    return await desk.mapper.resource(SCALER, version)


async def write_status(desk: Desk, name: str, replicas: int) -> None:
    """Write the status of an autoscaler, as its controller does."""
    status = {"status": {"currentReplicas": replicas, "desiredReplicas": replicas}}
    await desk.update_as("controller", await scaler(desk, "v2"), name, status, "status")


async def write_statuses(running: Running, desk: Desk, *names: str) -> None:
    """Write the status of some autoscalers more often than a conflict is tolerated; each change is reconciled."""
    for replicas in range(1, 9):
        for name in names:
            running.forget()
            await write_status(desk, name, replicas)
            await running.reconciled(1)
            assert not any(report.verdict.stalled for report in running.reports)


def fields_read(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body.get("data") == {"fields": " ".join(sorted(names))}


async def command(desk: Desk, templates: Path, *arguments: str) -> tuple[int, str, str]:
    return await run(
        *arguments, f"--templates={templates}", f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}"
    )


async def test_status_writes_to_a_child_in_another_version_than_the_preferred_one_are_no_conflict(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, scaler=V1)
    async with operate() as running:
        await desk.apply(echo("web"))
        await desk.read(SCALERS, "web")
        before = uid(await desk.read(SCALERS, "web"))
        await write_statuses(running, desk, "web")
        parent = await desk.read(ECHOES, "web")
        assert ready_condition(parent)["reason"] != "Conflict"
        assert uid(await desk.read(SCALERS, "web")) == before


async def test_a_change_in_another_version_is_reverted_and_names_its_manager(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    """The fields of a managedFields entry are those of its own version: v1 has no `metrics`."""
    only(templates, scaler=V1)
    hours = ConflictPolicy(allowed_changes=2, backoff_base=3600.0, backoff_cap=3600.0)
    async with operate(conflict_policy=hours):
        await desk.apply(echo("web"))
        resource = await scaler(desk, "v2")
        for percent in (50, 51, 52):
            body = await desk.until(SCALERS, "web", lambda body: _percent(body) == 80)
            metric = {"type": "Resource", "resource": {"name": "cpu", "target": _target(percent)}}
            await desk.update_as("rival", resource, body["metadata"]["name"], {"spec": {"metrics": [metric]}})
        await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival (Update)", f"spec.{IN_V1}"))


def _target(percent: int) -> dict[str, Any]:
    return {"type": "Utilization", "averageUtilization": percent}


def _percent(body: dict[str, Any]) -> int | None:
    """The percentage of an autoscaler, in v2."""
    metrics = body["spec"].get("metrics") or [{}]
    value: int | None = metrics[0].get("resource", {}).get("target", {}).get("averageUtilization")
    return value


@pytest.mark.exhaustive
async def test_commands_show_no_change_of_a_child_in_its_version(desk: Desk, client: Client, templates: Path) -> None:
    only(templates, scaler=V1)
    options = Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply(echo("web"))
        await desk.read(SCALERS, "web")
        await desk.until(ECHOES, "web", lambda body: bool(entries(body)))
    await write_status(desk, "web", 2)
    assert await command(desk, templates, "diff", "echo/web") == (0, "", "")
    code, out, err = await command(desk, templates, "plan")
    assert (code, err) == (0, "")
    assert "changed" not in out.replace("unchanged", ""), out


async def test_blame_names_the_template_line_of_each_field_of_a_child_in_its_version(
    desk: Desk, client: Client, templates: Path
) -> None:
    only(templates, scaler=V1)
    options = Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply(echo("web"))
        await desk.read(SCALERS, "web")
    code, out, err = await command(desk, templates, "blame", "echo/web", "--output=json")
    assert (code, err) == (0, "")
    (found,) = json.loads(out)
    assert found["object"]["apiVersion"] == "autoscaling/v1"
    fields = {field["path"]: field for field in found["fields"]}
    assert fields[f"spec.{IN_V1}"]["line"] == 9
    assert fields["spec.maxReplicas"]["line"] == 7
    assert fields["spec.minReplicas"]["line"] == 6


async def test_blame_names_the_manager_that_wrote_a_field_in_another_version(
    desk: Desk, client: Client, templates: Path
) -> None:
    only(templates, scaler=V1.replace("  minReplicas: 1\n", ""))
    options = Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply(echo("web"))
        await desk.read(SCALERS, "web")
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": _target(50)}}
    await desk.update_as("rival", await scaler(desk, "v2"), "web", {"spec": {"metrics": [metric]}})
    code, out, err = await command(desk, templates, "blame", "echo/web", "--output=json")
    assert (code, err) == (0, "")
    fields = {field["path"]: field for field in json.loads(out)[0]["fields"]}
    assert (fields[f"spec.{IN_V1}"]["value"], fields[f"spec.{IN_V1}"]["manager"]) == (50, "rival")
    assert fields[f"spec.{IN_V1}"]["rendered"]["value"] == 80
    assert fields["spec.minReplicas"]["default"] is True


@pytest.mark.exhaustive
async def test_one_parent_may_have_children_in_two_versions_of_a_kind(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    older = V1.replace("name: {{ name }}\nspec", "name: {{ name }}-old\nspec")
    read = map_template(
        "read",
        old="child('HorizontalPodAutoscaler', name ~ '-old').spec | list | sort | join(' ')",
        new="child('HorizontalPodAutoscaler', name).spec | list | sort | join(' ')",
    )
    only(templates, newer=V2, older=older, read=read)
    common = ["maxReplicas", "minReplicas", "scaleTargetRef"]
    wanted = {"old": " ".join(sorted([*common, IN_V1])), "new": " ".join(sorted([*common, "metrics"]))}
    for _ in range(2):  # the second process finds both
        async with operate() as running:
            await desk.apply(echo("web"))
            await desk.until("configmaps", "web-read", lambda body: body["data"] == wanted)
            await write_statuses(running, desk, "web", "web-old")
            assert (await desk.read("configmaps", "web-read"))["data"] == wanted


@pytest.mark.exhaustive
async def test_a_template_that_moves_a_child_to_another_version_keeps_the_object(
    desk: Desk, operate: Operate, templates: Path, client: Client
) -> None:
    only(templates, scaler=V2, read=READER)
    common = ("maxReplicas", "minReplicas", "scaleTargetRef")
    async with operate() as running:
        await desk.apply(echo("web"))
        await desk.until("configmaps", "web-read", fields_read(*common, "metrics"))
        before = uid(await desk.read(SCALERS, "web"))
        for text, version, field in ((V1, "v1", IN_V1), (V2, "v2", "metrics"), (V1, "v1", IN_V1)):
            running.write(f"{ECHOES}/scaler.yaml.j2", text)
            await desk.until("configmaps", "web-read", fields_read(*common, field))
            body = await desk.until(SCALERS, "web", in_own_version(f"autoscaling/{version}"))
            assert uid(body) == before
            assert _percent(body) == 80
            parent = await desk.until(ECHOES, "web", lambda body: len(entries(body)) == 2)
            assert ready_condition(parent)["reason"] not in ("Conflict", "PruneHeld")
    (templates / ECHOES / "scaler.yaml.j2").write_text(V2)
    await desk.patch("echo", "web", metadata={"annotations": {"touched": "yes"}})
    code, out, _ = await command(desk, templates, "diff", "echo/web", "--output=json")
    objects = {each["kind"]: each for each in json.loads(out)["parents"][0]["objects"]}
    assert objects["HorizontalPodAutoscaler"]["result"] == "unchanged", out
    assert code == 1, "what `child` shows changes, and so the ConfigMap does"


MEMORY = """\
  - type: Resource
    resource:
      name: memory
      target: {type: Utilization, averageUtilization: 70}
  behavior: {scaleDown: {stabilizationWindowSeconds: 7}}
"""


@pytest.mark.parametrize("shared", [False, True])
async def test_a_child_in_another_version_loses_what_only_the_former_version_has(
    desk: Desk, operate: Operate, templates: Path, shared: bool
) -> None:
    only(templates, scaler=V2 + MEMORY)
    async with operate() as running:
        await desk.apply(echo("web"))
        await desk.until(SCALERS, "web", in_own_version("autoscaling/v2"))
        if shared:
            resource = await desk.mapper.resource_by_name(SCALERS)
            body = {
                **yaml.safe_load((V2 + MEMORY).replace("{{ spec.replicas + 3 }}", "4").replace("{{ name }}", "web"))
            }
            await desk.client.apply(resource, desk.namespace, "web", encode(body), ApplyOptions(manager="other"))
        running.write(f"{ECHOES}/scaler.yaml.j2", V1)
        body = await desk.until(SCALERS, "web", in_own_version("autoscaling/v1"))
        body = await desk.until(SCALERS, "web", lambda body: len(body["spec"]["metrics"]) == 1 + shared)
        assert ('"stabilizationWindowSeconds": 7' in json.dumps(body["spec"])) is shared


def in_own_version(api_version: str) -> Callable[[dict[str, Any]], bool]:
    """Whether the operator has applied an object in this version."""
    return lambda body: _own_version(body) == api_version


def _own_version(body: dict[str, Any]) -> str:
    entries = (each for each in body["metadata"]["managedFields"] if not each.get("subresource"))
    own = (each for each in entries if (each["manager"], each["operation"]) == ("ssa-operator", "Apply"))
    return next((str(each["apiVersion"]) for each in own), "")


GAUGES = "gauges.versions.example.com"


def gauge_crd() -> dict[str, Any]:
    """A CRD with two versions and a status."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"served": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": GAUGES},
        "spec": {
            "group": "versions.example.com",
            "names": {"kind": "Gauge", "plural": "gauges"},
            "scope": "Namespaced",
            "versions": [
                {**version, "name": "v1beta1", "storage": False},
                {**version, "name": "v1", "storage": True},
            ],
        },
    }


@pytest.fixture
async def gauges(desk: Desk) -> AsyncIterator[Desk]:
    await desk.define(gauge_crd())
    try:
        yield desk
    finally:
        with contextlib.suppress(AssertionError):
            await desk.delete("customresourcedefinition", GAUGES)


async def test_two_folders_may_use_two_versions_of_a_kind(gauges: Desk, operate: Operate, templates: Path) -> None:
    """The Gauge of one folder is in v1beta1, and that of the other, whose parents are Gauges themselves, in v1."""
    desk = gauges
    gauge = "apiVersion: versions.example.com/{}\nkind: Gauge\nmetadata:\n  name: {{{{ name }}}}-{}\nspec: {{n: 1}}\n"
    status = "shown: \"{{ child('Gauge', name ~ '-%s').apiVersion }}\"\n"
    only(
        templates,
        gauge=gauge.format("v1beta1", "a"),
        read=map_template("a", v="child('Gauge', name ~ '-a').apiVersion"),
    )
    (templates / GAUGES).mkdir()
    (templates / GAUGES / "gauge.yaml.j2").write_text(
        "{% if not spec.n | default(0) %}\n"
        + gauge.format("v1", "b")
        + "---\n"
        + map_template("b", v="child('Gauge', name ~ '-b').apiVersion")
        + "{% endif %}\n"
    )
    (templates / GAUGES / "_status.yaml.j2").write_text(
        "{% if not spec.n | default(0) %}" + status % "b" + "{% endif %}"
    )
    async with operate():
        await desk.apply(echo("web"))
        resource = await desk.mapper.resource(GroupKind("versions.example.com", "Gauge"), "v1")
        other = {"apiVersion": "versions.example.com/v1", "kind": "Gauge", "metadata": {"name": "other"}, "spec": {}}
        await desk.client.apply(resource, desk.namespace, "other", encode(other), ApplyOptions(manager="kubectl"))
        await desk.until("configmaps", "web-a", lambda body: body["data"] == {"v": "versions.example.com/v1beta1"})
        await desk.until("configmaps", "other-b", lambda body: body["data"] == {"v": "versions.example.com/v1"})
        for number in range(8):
            for name in ("web-a", "other-b"):
                await desk.update_as("controller", resource, name, {"status": {"number": number}}, "status")
        await desk.ready(ECHOES, "web")
        assert ready_condition(await desk.read(GAUGES, "other")).get("reason") != "Conflict"
        for name, version in (("web-a", "v1beta1"), ("other-b", "v1")):
            live = await desk.client.get(resource, name, desk.namespace)
            assert _own_version(live.body) == f"versions.example.com/{version}"


@pytest.mark.exhaustive
async def test_a_version_that_is_no_longer_served_is_named_until_the_template_has_another_one(
    gauges: Desk, operate: Operate, templates: Path
) -> None:
    desk = gauges
    gauge = "apiVersion: versions.example.com/{}\nkind: Gauge\nmetadata:\n  name: {{{{ name }}}}\nspec: {{n: 1}}\n"
    only(templates, gauge=gauge.format("v1beta1"))
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        before = uid(await desk.read(GAUGES, "web"))
        crd = gauge_crd()
        crd["spec"]["versions"][0]["served"] = False
        await desk.apply(crd)
        await desk.apply(echo("web", replicas=2))
        words = ("the cluster serves Gauge.versions.example.com in v1, not in v1beta1",)
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", *words))
        crd["spec"]["versions"][0]["served"] = True
        await desk.apply(crd)
        await desk.ready(ECHOES, "web")
        await desk.update_as(
            "kubectl",
            await desk.mapper.resource(GroupKind("versions.example.com", "Gauge"), "v1"),
            "web",
            {"spec": {"n": 2}},
        )
        await desk.until(GAUGES, "web", lambda body: body["spec"] == {"n": 1})
        running.write(f"{ECHOES}/gauge.yaml.j2", gauge.format("v1"))
        await desk.ready(ECHOES, "web")
        body = await desk.until(GAUGES, "web", in_own_version("versions.example.com/v1"))
        assert uid(body) == before
