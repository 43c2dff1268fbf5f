"""Manifests that read other children of the same parent."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.operator.harness import (
    DEPLOYMENT,
    ECHOES,
    Desk,
    Operate,
    config_map,
    echo,
    entries,
    holds,
    is_ready,
    not_ready_because,
    only,
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


async def test_a_manifest_that_waits_again_keeps_its_object(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/facts.yaml.j2", FACTS)
        await desk.apply_until_ready(echo("web", 1))
        first = await desk.read("configmaps", "web")
        old = await desk.read("deployments.apps", "web")
        await desk.delete("deployment", "web", wait=False)
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


async def test_a_value_is_generated_once_also_over_restarts(desk: Desk, operate: Operate) -> None:
    values = set()
    for replicas in (1, 2):
        async with operate() as running:
            running.write(f"{ECHOES}/secret.yaml.j2", SECRET)
            await desk.apply_until_ready(echo("web", replicas))
            secret = await desk.read("secrets", "web")
            values.add(base64.b64decode(secret["data"]["password"]))
    (password,) = values
    assert len(password) == 20


BALANCER = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}-lb
spec:
  type: LoadBalancer
  selector: {app: x}
  ports: [{port: 80}]
"""

LIVE = """\
{% set service = child("Service", name ~ "-lb") %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-live
data:
  address: {{ service.spec.clusterIP | default("none") }}
  note: {{ service.metadata.annotations["a.b/c"] | default("none", true) }}
  site: {{ lookup("v1", "ConfigMap", "site").data.url | default("none") }}
"""

IF_DEFINED = """\
{% if child("Service", name ~ "-lb").spec.ports[0].nodePort is defined %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-defined
data:
  note: {{ "yes" if child("Service", name ~ "-lb").metadata.annotations["a.b/c"] is defined else "no" }}
{% endif %}
"""

PLAIN = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-plain
data:
  address: {{ child("Service", name ~ "-lb").spec.clusterIP }}
"""


async def test_a_default_takes_the_live_value_of_a_child_that_is_not_ready_and_follows_it(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    """No controller in this cluster creates a load balancer, so the Service is never ready."""
    only(templates, balancer=BALANCER, live=LIVE, defined=IF_DEFINED, plain=PLAIN)
    async with operate():
        await desk.apply(echo("web"))
        address = (await desk.read("services", "web-lb"))["spec"]["clusterIP"]
        # The reconcile that created the Service rendered the defaults. Its own write causes no event.
        await desk.until("configmaps", "web-live", holds(address=address, note="none", site="none"))
        await desk.until("configmaps", "web-defined", holds(note="no"))
        await desk.patch("service", "web-lb", metadata={"annotations": {"a.b/c": "x"}})
        await desk.until("configmaps", "web-live", holds(address=address, note="x", site="none"))
        await desk.until("configmaps", "web-defined", holds(note="yes"))
        await desk.patch("service", "web-lb", metadata={"annotations": {"a.b/c": "y"}})
        await desk.create(config_map("site", url="http://a"))
        await desk.until("configmaps", "web-live", holds(address=address, note="y", site="http://a"))
        await desk.patch("service", "web-lb", metadata={"annotations": {"a.b/c": None}})
        await desk.delete("configmap", "site")
        await desk.until("configmaps", "web-live", holds(address=address, note="none", site="none"))
        await desk.until("configmaps", "web-defined", holds(note="no"))
        waiting = await desk.until(
            ECHOES, "web", not_ready_because("WaitingForDependency", "Service/web-lb to be ready")
        )
        assert entries(waiting)["ConfigMap/web-plain"]["state"] == "Waiting"
        assert await desk.find("configmaps", "web-plain") is None


@pytest.mark.exhaustive
async def test_a_size_that_never_shrinks_is_kept_while_the_child_is_not_ready(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    nowhere = "      nodeSelector: {nowhere: here}\n      automount"
    largest = "{{ [spec.replicas, child('Deployment', name).spec.replicas | default(0)] | max }}"
    text = DEPLOYMENT.replace("      automount", nowhere).replace("{{ spec.replicas }}", largest)
    assert largest in text
    only(templates, deployment=text)

    def seen(generation: int) -> Callable[[dict[str, Any]], bool]:
        return lambda body: bool(body.get("status", {}).get("observedGeneration") == generation)

    async with operate():
        await desk.apply(echo("web", 3))
        await desk.until("deployments.apps", "web", lambda body: body["spec"]["replicas"] == 3)
        await desk.until(ECHOES, "web", seen(1))
        await desk.apply(echo("web", 1))
        await desk.until(ECHOES, "web", seen(2))
        assert (await desk.read("deployments.apps", "web"))["spec"]["replicas"] == 3
        await desk.apply(echo("web", 4))
        await desk.until("deployments.apps", "web", lambda body: body["spec"]["replicas"] == 4)


YOUNG = """\
{% if not expired('3s') %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
{% endif %}
"""


@pytest.mark.exhaustive
async def test_a_manifest_may_depend_on_the_parents_age(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/young.yaml.j2", YOUNG)
        await desk.apply(echo("web"))
        await desk.read("configmaps", "web")
        await desk.gone("configmaps", "web")
