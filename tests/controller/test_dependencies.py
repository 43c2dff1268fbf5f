"""Manifests that are made of what other children of the same parent have become."""

from __future__ import annotations

import base64

import pytest

from tests.controller.harness import (
    DEPLOYMENT,
    ECHOES,
    Desk,
    Operate,
    echo,
    entries,
    holds,
    is_ready,
    not_ready_because,
    other_than,
    uid,
)

pytestmark = pytest.mark.cluster

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


async def test_a_manifest_that_reads_a_child_waits_until_it_is_ready(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        path = f"{ECHOES}/deployment.yaml.j2"
        nowhere = "      nodeSelector: {nowhere: here}\n      automount"
        running.write(path, DEPLOYMENT.replace("      automount", nowhere))
        running.write(f"{ECHOES}/facts.yaml.j2", FACTS)
        await desk.apply(echo("web", 2))
        words = ("ConfigMap", "waiting for Deployment/web")
        waiting = await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))
        assert entries(waiting)["ConfigMap/web"]["state"] == "Waiting"
        assert await desk.find("configmaps", "web") is None

        running.write(path, DEPLOYMENT)
        await desk.until("configmaps", "web", holds(replicas="2"))
        await desk.ready(ECHOES, "web")
        await desk.apply(echo("web", 3))
        await desk.until("configmaps", "web", holds(replicas="3"))


async def test_what_waits_again_keeps_its_object(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/facts.yaml.j2", FACTS)
        await desk.apply_until_ready(echo("web", 1))
        first = await desk.read("configmaps", "web")
        old = await desk.read("deployments.apps", "web")
        await desk.kubectl("delete", "deployment", "web", "--wait=false")
        new = await desk.until("deployments.apps", "web", other_than(old))
        await desk.until(
            ECHOES, "web", lambda body: is_ready(body) and entries(body)["Deployment/web"]["uid"] == uid(new)
        )
        assert uid(await desk.read("configmaps", "web")) == uid(first)


async def test_a_child_that_no_template_renders_is_an_error_that_names_the_nearest(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/facts.yaml.j2", FACTS.replace("'Deployment', name", "'Deployment', 'wob'"))
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("RenderFailed", "facts.yaml.j2:6", "wob", "web"))


async def test_a_generated_value_is_drawn_once_also_over_restarts(desk: Desk, operate: Operate) -> None:
    values = set()
    for replicas in (1, 2):
        async with operate() as running:
            running.write(f"{ECHOES}/secret.yaml.j2", SECRET)
            await desk.apply_until_ready(echo("web", replicas))
            secret = await desk.read("secrets", "web")
            values.add(base64.b64decode(secret["data"]["password"]))
    (password,) = values
    assert len(password) == 20


YOUNG = """\
{% if not expired('3s') %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
{% endif %}
"""


async def test_a_manifest_may_depend_on_the_parents_age(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/young.yaml.j2", YOUNG)
        await desk.apply(echo("web"))
        await desk.read("configmaps", "web")
        await desk.gone("configmaps", "web")
