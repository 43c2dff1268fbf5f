"""Manifests that are made of what other children of the same parent have become."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, echo, is_ready, not_ready_because, operating

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

FACTS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  replicas: "{{ child('Deployment', name).status.readyReplicas }}"
"""

SECRET = """\
{% set password = generated(20) %}
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}
stringData:
  password: {{ password }}
"""


async def test_a_manifest_that_reads_a_child_waits_until_it_is_ready(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        path = "echoes.example.com/deployment.yaml.j2"
        text = (running.templates / path).read_text()
        nowhere = "      nodeSelector: {nowhere: here}\n      automount"
        running.write(path, text.replace("      automount", nowhere))
        running.write("echoes.example.com/facts.yaml.j2", FACTS)
        await desk.apply(echo("web", 2))
        words = ("ConfigMap", "waiting for Deployment/web")
        waiting = await desk.until("echoes.example.com", "web", not_ready_because("WaitingForDependency", *words))
        states = {entry["kind"]: entry["state"] for entry in waiting["status"]["resources"]}
        assert states["ConfigMap"] == "Waiting"
        assert (await desk.view("configmaps")).find("web") is None

        running.write(path, text)
        await desk.until("configmaps", "web", lambda body: body["data"] == {"replicas": "2"})
        await desk.ready("echoes.example.com", "web")
        await desk.apply(echo("web", 3))
        await desk.until("configmaps", "web", lambda body: body["data"] == {"replicas": "3"})


async def test_what_waits_again_keeps_its_object(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()) as running:
        running.write("echoes.example.com/facts.yaml.j2", FACTS)
        await desk.apply(echo("web", 1))
        first = await desk.until("configmaps", "web", lambda _: True)
        await desk.kubectl("delete", "deployment", "web", "--wait=false")
        await desk.until("echoes.example.com", "web", is_ready)
        after = await desk.until("configmaps", "web", lambda _: True)
    assert after["metadata"]["uid"] == first["metadata"]["uid"]


async def test_a_child_that_no_template_renders_is_an_error_that_names_the_nearest(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write("echoes.example.com/facts.yaml.j2", FACTS.replace("'Deployment', name", "'Deployment', 'wob'"))
        await desk.apply(echo("web"))
        await desk.until(
            "echoes.example.com", "web", not_ready_because("RenderFailed", "facts.yaml.j2:6", "wob", "web")
        )


async def test_a_generated_value_is_drawn_once_also_over_restarts(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    values = set()
    for replicas in (1, 2):
        async with operating(client, options()) as running:
            running.write("echoes.example.com/secret.yaml.j2", SECRET)
            await desk.apply(echo("web", replicas))
            await desk.ready("echoes.example.com", "web")
            secret = await desk.until("secrets", "web", lambda _: True)
            values.add(base64.b64decode(secret["data"]["password"]))
    (password,) = values
    assert len(password) == 20


async def test_a_manifest_may_depend_on_the_parents_age(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()) as running:
        text = (
            "{% if not expired('3s') %}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n{% endif %}\n"
        )
        running.write("echoes.example.com/young.yaml.j2", text)
        await desk.apply(echo("web"))
        await desk.until("configmaps", "web", lambda _: True)
        await desk.gone("configmaps", "web")
