"""Manifests that keep what their own live objects have."""

from __future__ import annotations

import pytest

from tests.controller.harness import DEPLOYMENT, ECHOES, Desk, Operate, echo, holds, is_ready, not_ready_because, only

pytestmark = pytest.mark.cluster

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
        words = ("ConfigMap", "web-facts changes each time it is applied, because it reads itself")
        await desk.until(
            ECHOES, "web", lambda body: all(word in str(body.get("status", {}).get("conditions")) for word in words)
        )
