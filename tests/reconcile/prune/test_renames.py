"""A child with another name: the new one is ready before the old one is deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import Readiness, readiness
from ssa_operator.reconcile import child as child_module
from tests.operator.harness import ECHOES, Desk, Operate, echo, entries, not_ready_because, only

pytestmark = pytest.mark.cluster

BLUE_GREEN = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ name }}-{{ spec.replicas }}
spec:
  replicas: 1
  selector: {matchLabels: {app: '{{ name }}-{{ spec.replicas }}'}}
  template:
    metadata: {labels: {app: '{{ name }}-{{ spec.replicas }}'}}
    spec:
      nodeSelector: {{ {'no': 'where'} if spec.replicas == 2 and not labels.open | default(false) else {} }}
      containers: [{name: main, image: busybox}]
"""
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}-{{ spec.replicas }}\n"


@pytest.fixture
def blue_green(templates: Path) -> Path:
    return only(templates, app=BLUE_GREEN, map=MAP)


@pytest.fixture
async def ready_when_gone(desk: Desk) -> list[bool]:
    """For each deleted Deployment: whether web-2 was ready then."""
    view = await desk.view("deployments.apps")
    noted: list[bool] = []

    def note(_old: LiveObject | None, new: LiveObject | None) -> None:
        if new is None:
            other = view.find("web-2")
            noted.append(other is not None and other.body["status"].get("readyReplicas") == 1)

    view.cache.listen(note)
    return noted


async def rename(desk: Desk) -> None:
    """Replace web-1 by web-2, which can't become ready."""
    await desk.apply_until_ready(echo("web"))
    await desk.read("deployments.apps", "web-1")
    await desk.apply(echo("web", 2))
    # What is ready as soon as it exists takes the other's place at once.
    await desk.gone("configmaps", "web-1")
    waits = not_ready_because("Progressing", "web-2")
    parent = await desk.until(ECHOES, "web", lambda body: waits(body) and keeps_the_old_one(body))
    deployments = {child for child in entries(parent) if child.startswith("Deployment/")}
    assert deployments == {"Deployment/web-1", "Deployment/web-2"}


def keeps_the_old_one(parent: dict[str, Any]) -> bool:
    return "kept until Deployment" in entries(parent).get("Deployment/web-1", {}).get("message", "")


async def let_it_become_ready(desk: Desk) -> None:
    await desk.kubectl("label", "echo", "web", "open=yes")
    await desk.gone("deployments.apps", "web-1")
    await desk.ready(ECHOES, "web")


async def test_the_old_deployment_stands_until_the_new_one_is_ready(
    desk: Desk, operate: Operate, blue_green: Path, ready_when_gone: list[bool]
) -> None:
    async with operate(templates=blue_green):
        await rename(desk)
        await let_it_become_ready(desk)
    assert ready_when_gone == [True]


async def test_the_old_deployment_stands_until_the_new_one_is_ready_also_after_a_restart(
    desk: Desk, operate: Operate, blue_green: Path, ready_when_gone: list[bool]
) -> None:
    async with operate(templates=blue_green):
        await rename(desk)
    async with operate(templates=blue_green):
        await let_it_become_ready(desk)
    assert ready_when_gone == [True]


HASHED = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ name }}
spec:
  replicas: 1
  selector: {matchLabels: {app: '{{ name }}'}}
  template:
    metadata: {labels: {app: '{{ name }}'}}
    spec:
      nodeSelector: {{ {'no': 'where'} if spec.replicas == 2 and not labels.open | default(false) else {} }}
      containers: [{name: main, image: busybox}]
      volumes: [{name: settings, configMap: {name: '{{ name }}-{{ spec.replicas }}'}}]
"""


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_config_map_with_a_hash_in_its_name_stays_until_no_pod_mounts_it(
    desk: Desk, operate: Operate, templates: Path, restarts: bool
) -> None:
    only(templates, app=HASHED, map=MAP)
    async with operate():
        await desk.apply_until_ready(echo("web"))
        await desk.apply(echo("web", 2))
        await desk.until("configmaps", "web-2", bool)
        await desk.until(ECHOES, "web", lambda body: "Deployment" in kept_until(body, "ConfigMap/web-1"))
        await desk.read("configmaps", "web-1")
        if not restarts:
            await let_it_roll_out(desk)
    if restarts:
        async with operate():
            await desk.until(ECHOES, "web", lambda body: "Deployment" in kept_until(body, "ConfigMap/web-1"))
            await let_it_roll_out(desk)


async def let_it_roll_out(desk: Desk) -> None:
    await desk.kubectl("label", "echo", "web", "open=yes")
    await desk.gone("configmaps", "web-1")
    await desk.ready(ECHOES, "web")


def kept_until(parent: dict[str, Any], child: str) -> str:
    return str(entries(parent).get(child, {}).get("message", "")).partition("kept until")[2]


MANY = """\
{% for number in range(60) %}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ name }}-{{ spec.replicas }}-{{ number }}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ name }}-{{ spec.replicas }}-{{ number }}-reader'}
data: {uid: "{{ child('ConfigMap', name ~ '-' ~ spec.replicas ~ '-' ~ number).metadata.uid }}"}
{% endfor %}
"""


@pytest.mark.exhaustive
async def test_the_readiness_of_many_new_children_is_judged_a_few_times_each(
    desk: Desk, operate: Operate, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once for each child that it replaces."""
    judged = 0

    def counted(*arguments: Any, **options: Any) -> Readiness:
        nonlocal judged
        judged += 1
        return readiness(*arguments, **options)

    async with operate(templates=only(templates, many=MANY)) as running:
        await desk.apply_until_ready(echo("web"))
        running.forget()
        monkeypatch.setattr(child_module, "readiness", counted)
        await desk.apply_until_ready(echo("web", 2))
        await desk.gone("configmaps", "web-1-59")
        await desk.gone("configmaps", "web-1-59-reader")
        assert judged < 10 * 2 * 60 * len(running.reports)
