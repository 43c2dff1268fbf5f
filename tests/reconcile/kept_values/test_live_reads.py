"""Manifests that keep what their own live objects have."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Applied
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.api.resource import Resource
from tests.operator.harness import (
    DEPLOYMENT,
    ECHOES,
    CountingClient,
    Desk,
    MakeOptions,
    Operate,
    administrator,
    echo,
    holds,
    is_ready,
    not_ready_because,
    only,
    operating,
)

pytestmark = pytest.mark.cluster

NO_OPTIONS = ApplyOptions()
_LIVE = "live('Deployment', name)"
NEVER_DOWN = f"replicas: {{{{ [spec.replicas, {_LIVE}.spec.replicas | default(0)] | max }}}}"

FACTS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-facts
data:
  replicas: "{{ live('Deployment', name).spec.replicas | default('none') }}"
  known: "{{ live('ConfigMap', 'another') is not none }}"
"""


def keeping(text: str) -> str:
    found = text.replace("replicas: {{ spec.replicas }}", NEVER_DOWN)
    assert found != text
    return found


async def test_a_child_is_never_scaled_down_also_after_a_restart(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        only(running.templates, deployment=keeping(DEPLOYMENT), facts=FACTS)
        await desk.apply_until_ready(echo("web", 1))
        await desk.until("configmaps", "web-facts", holds(replicas="1", known="false"))
        await desk.kubectl("scale", "deployment", "web", "--replicas=3")
        await desk.until("configmaps", "web-facts", holds(replicas="3", known="false"))
    view = await desk.view("deployments.apps")
    counts = set[int]()
    view.cache.listen(lambda _, new: counts.add(new.body["spec"]["replicas"]) if new else None)
    async with operate() as running:
        await desk.apply(echo("web", 2))
        await desk.until(ECHOES, "web", is_ready)
        assert (await desk.read("deployments.apps", "web"))["spec"]["replicas"] == 3
        await desk.apply(echo("web", 4))
        await desk.until("configmaps", "web-facts", holds(replicas="4", known="false"))
        await desk.until(ECHOES, "web", is_ready)
    assert counts <= {3, 4}


class ScalingClient(CountingClient):
    """A client in whose way an autoscaler comes: it scales the Deployment up just before an apply goes out."""

    desk: Desk

    async def apply(
        self, resource: Resource, namespace: str, name: str, body: bytes, options: ApplyOptions = NO_OPTIONS
    ) -> Applied:
        if resource.kind == "Deployment" and b'"replicas":3' in body and not self.met["apply"]:
            self.met["apply"] += 1
            await self.desk.scale("deployments", name, 10)
        return await super().apply(resource, namespace, name, body, options)


async def test_an_apply_of_what_a_child_was_before_an_autoscaler_scaled_it_up_is_rendered_again(
    desk: Desk, cluster: Cluster, options: MakeOptions, templates: Path
) -> None:
    only(templates, deployment=keeping(DEPLOYMENT))
    async with ScalingClient(await administrator(cluster)) as client, operating(client, options(templates=templates)):
        client.desk = desk
        await desk.apply_until_ready(echo("web", 1))
        view = await desk.view("deployments.apps")
        counts: list[int] = []
        view.cache.listen(lambda _, new: counts.append(new.body["spec"]["replicas"]) if new else None)
        await desk.apply(echo("web", 3))
        await desk.until(ECHOES, "web", is_ready)
        assert client.met["apply"]
        assert (await desk.read("deployments.apps", "web"))["spec"]["replicas"] == 10
        assert sorted(counts) == counts


async def test_a_missing_live_field_is_an_error_with_its_line(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        only(running.templates, facts=FACTS.replace(" | default('none')", ""))
        await desk.apply(echo("web", 1))
        words = ("facts.yaml.j2:6", "there is no live Deployment/web, so it has no spec.replicas")
        await desk.until(ECHOES, "web", not_ready_because("RenderFailed", *words))


async def test_a_child_that_reads_itself_and_changes_each_time_is_slowed_down(desk: Desk, operate: Operate) -> None:
    text = FACTS.replace(
        "live('Deployment', name).spec.replicas | default('none')",
        "live('ConfigMap', name ~ '-facts').data.replicas | default(0) | int + 1",
    )
    async with operate() as running:
        only(running.templates, facts=text)
        await desk.apply(echo("web", 1))
        words = ("web-facts changes each time it is applied", "its template reads ConfigMap/web-facts")
        await desk.until(
            ECHOES, "web", lambda body: all(word in str(body.get("status", {}).get("conditions")) for word in words)
        )
