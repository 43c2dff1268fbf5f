"""Manifests that are made of objects that aren't the parent's: what is looked up is waited for, watched and told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, Running, echo, not_ready_because, operating, ready_condition

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

FOLDER = "echoes.example.com"


def made(name: str, **data: str) -> str:
    """A template of a ConfigMap called after the parent and `name`; the data are expressions."""
    lines = "".join(f'  {key}: "{{{{ {expression} }}}}"\n' for key, expression in data.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ name }}}}-{name}\ndata:\n{lines}"


def config(name: str, namespace: str = "", **data: str) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def holds(**data: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body.get("data") == data


def is_ready(body: dict[str, Any]) -> bool:
    return ready_condition(body).get("status") == "True"


@pytest.fixture
async def running(client: Client, desk: Desk, options: MakeOptions) -> AsyncIterator[Running]:
    """An operator without any template of its own."""
    async with operating(client, options()) as running:
        running.remove(f"{FOLDER}/deployment.yaml.j2")
        yield running


async def test_a_manifest_waits_for_an_object_and_for_its_field(running: Running, desk: Desk) -> None:
    running.write(f"{FOLDER}/a.yaml.j2", made("url", url="lookup('v1', 'ConfigMap', 'site').data.url"))
    running.write(f"{FOLDER}/b.yaml.j2", made("plain", word="'here'"))
    await desk.apply(echo("web"))
    words = (f"waiting for ConfigMap {desk.namespace}/site .data.url",)
    waiting = await desk.until(FOLDER, "web", not_ready_because("WaitingForDependency", *words))
    states = {entry["name"]: (entry["state"], entry.get("message", "")) for entry in waiting["status"]["resources"]}
    assert states["web-plain"][0] == "Current"
    assert states["web-url"] == ("Waiting", words[0])

    await desk.apply(config("site", other="x"))
    await desk.apply(config("site", other="x", url="http://x"))
    await desk.until("configmaps", "web-url", holds(url="http://x"))
    await desk.until(FOLDER, "web", is_ready)
    await desk.apply(config("site", url="http://y"))
    await desk.until("configmaps", "web-url", holds(url="http://y"))
