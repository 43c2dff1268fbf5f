"""A child that gets another name: the new one is ready before the old one goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.core.live import Live
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, echo, not_ready_because, operating

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

ECHOES = "echoes.example.com"
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
    for file in (templates / ECHOES).iterdir():
        file.unlink()
    (templates / ECHOES / "app.yaml.j2").write_text(BLUE_GREEN)
    (templates / ECHOES / "map.yaml.j2").write_text(MAP)
    return templates


def states(parent: dict[str, Any]) -> dict[str, str]:
    return {
        entry["name"]: entry.get("message", "")
        for entry in parent.get("status", {}).get("resources", [])
        if entry["kind"] == "Deployment"
    }


@pytest.mark.parametrize("restarted", [False, True])
async def test_the_old_deployment_stands_until_the_new_one_is_ready(
    client: Client, desk: Desk, options: MakeOptions, blue_green: Path, restarted: bool
) -> None:
    async with operating(client, options(templates=blue_green)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        await desk.until("deployments.apps", "web-1", lambda _: True)
        await desk.apply(echo("web", 2))
        await desk.until("deployments.apps", "web-2", lambda _: True)
        # What is ready as soon as it exists takes the other's place at once.
        await desk.gone("configmaps", "web-1")
        waits = not_ready_because("Progressing", "web-2")
        parent = await desk.until(
            ECHOES, "web", lambda body: waits(body) and "kept until Deployment" in states(body).get("web-1", "")
        )
        assert set(states(parent)) == {"web-1", "web-2"}
        if not restarted:
            await desk.kubectl("label", "echo", "web", "open=yes")
            await desk.gone("deployments.apps", "web-1")
            await desk.ready(ECHOES, "web")
    if restarted:
        view = await desk.view("deployments.apps")
        ready_when_gone: list[bool] = []

        def note(_old: Live | None, new: Live | None) -> None:
            if new is None:
                other = view.find("web-2")
                ready_when_gone.append(other is not None and other.body["status"].get("readyReplicas") == 1)

        view.cache.listen(note)
        async with operating(client, options(templates=blue_green)):
            await desk.kubectl("label", "echo", "web", "open=yes")
            await desk.gone("deployments.apps", "web-1")
            await desk.ready(ECHOES, "web")
        assert ready_when_gone == [True]
