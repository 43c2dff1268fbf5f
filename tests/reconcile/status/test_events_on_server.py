"""Events on a parent, on a real API server: which Events the operator emits, how often, and that none delays a
reconcile."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.auth import credentials
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.metrics import Metrics
from ssa_operator.reconcile.status.event_requests import EVENTS, Recorder
from ssa_operator.reconcile.status.events import Event
from tests.operator.harness import DEPLOYMENT, ECHOES, Desk, Operate, config_map, echo, holds, uid
from tests.operator.limited_accounts import with_token

pytestmark = pytest.mark.cluster

CREATED = Event(reason="Created", action="Create", note="created a thing")


async def test_changes_of_the_children_are_events_on_the_parent(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        parent = await desk.apply_until_ready(echo("web"))
        created = await desk.until_event("Created", f"created Deployment {desk.namespace}/web")
        await desk.until_event("Ready", "is ready")

        await desk.kubectl("scale", "deployment", "web", "--replicas=3")
        await desk.until_event(
            "Repaired", f"reverted Deployment {desk.namespace}/web: kubectl (Update of scale) changed"
        )

        await desk.delete("deployment", "web")
        await desk.until_event("Repaired", f"recreated Deployment {desk.namespace}/web: it was deleted")

        await desk.apply(echo("web", 2))
        await desk.until_event("Changed", f"changed Deployment {desk.namespace}/web: its manifest changed")

        running.write(f"{ECHOES}/extra.yaml.j2", "{{ spec.missing }}\n")
        failed = await desk.until_event("RenderFailed", "extra.yaml.j2:1", "spec.missing")
    assert created["regarding"] == {
        "apiVersion": "example.com/v1",
        "kind": "Echo",
        "namespace": desk.namespace,
        "name": "web",
        "uid": uid(parent),
    }
    assert created["related"]["kind"] == "Deployment"
    assert (created["type"], failed["type"]) == ("Normal", "Warning")
    assert created["reportingController"] == "ssa-operator"
    assert "created Deployment" in await desk.kubectl("describe", "echo", "web")


async def test_a_template_warns_once_of_an_object_that_it_looks_up(
    desk: Desk, operate: Operate, client: Client
) -> None:
    text = """\
{% set site = lookup("v1", "ConfigMap", "site") %}
{% do warn(site, "TooSmall", "size " ~ site.data.size ~ " is too small for " ~ name) if site.data.size | int < 3 %}
apiVersion: v1
kind: ConfigMap
metadata: {name: copy}
data: {size: "{{ site.data.size }}"}
"""
    await desk.apply(config_map("site", size="1"), echo("web"))
    async with operate(resync_rate=1000.0, interval=0.2) as running:
        running.write(f"{ECHOES}/copy.yaml.j2", text)
        event = await desk.until_event("TooSmall", "size 1 is too small for web", about="site")
        running.forget()
        await running.reconciled(3)
        await desk.apply(config_map("site", size="2"))
        await desk.until_event("TooSmall", "size 2 is too small for web", about="site")
        await desk.apply(config_map("site", size="3"))
        await desk.until("configmaps", "copy", holds(size="3"))
    found, _ = await client.list(EVENTS, desk.namespace)
    warnings = [live.body for live in found if live.body["reason"] == "TooSmall"]
    assert len(warnings) == 2
    assert all("series" not in body for body in warnings)
    assert (event["type"], event["regarding"]["kind"], event["related"]["kind"]) == ("Warning", "ConfigMap", "Echo")
    assert "TooSmall" in await desk.kubectl("describe", "configmap", "site")


@pytest.mark.exhaustive
async def test_a_prune_is_an_event_on_the_parent(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/map.yaml.j2", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\n")
        await desk.apply_until_ready(echo("web"))
        running.remove(f"{ECHOES}/map.yaml.j2")
        await desk.until_event("Pruned", f"deleted ConfigMap {desk.namespace}/extra: is no longer rendered")


@pytest.mark.exhaustive
async def test_a_warning_of_the_api_server_is_emitted_once_however_often_the_child_is_applied(
    desk: Desk, operate: Operate, caplog: pytest.LogCaptureFixture
) -> None:
    async with operate(resync_rate=1000.0, interval=0.2) as running:
        old = "    spec:\n      nodeSelector:\n        beta.kubernetes.io/arch: amd64\n"
        running.write(f"{ECHOES}/deployment.yaml.j2", DEPLOYMENT.replace("    spec:\n", old))
        await desk.apply(echo("web"))
        await desk.until_event("APIWarning", f"Deployment {desk.namespace}/web", "beta.kubernetes.io/arch")
        running.forget()
        await running.reconciled(5)
    assert sum("the API server warns" in record.getMessage() for record in caplog.records) == 1


async def test_a_repeated_event_is_counted_in_the_one_that_exists(client: Client, desk: Desk) -> None:
    metrics = Metrics()
    recorder = Recorder(client, metrics.event_ended, at_once)
    await desk.apply(echo("web"))
    parent = await client.get(await desk.mapper.resource_by_name(ECHOES), "web", desk.namespace)
    for _ in range(5):
        recorder.emit(parent, [CREATED])
    await ended(recorder)
    found, _ = await client.list(EVENTS, desk.namespace)
    (event,) = [live.body for live in found if live.body["reason"] == "Created"]
    assert event["series"]["count"] == 5
    assert counted(metrics, "failed") == 0


async def test_events_that_wait_when_the_operator_stops_are_written(
    client: Client, desk: Desk, operate: Operate
) -> None:
    async with operate():
        await desk.apply(echo("web"))
        await desk.read("deployments.apps", "web")
    found, _ = await client.list(EVENTS, desk.namespace)
    assert any(live.body["note"] == f"created Deployment {desk.namespace}/web" for live in found)


async def test_an_event_of_a_cluster_scoped_parent_is_in_the_namespace_default(client: Client, desk: Desk) -> None:
    recorder = Recorder(client, Metrics().event_ended, at_once)
    namespace = await client.get(await desk.mapper.resource_by_name("namespaces"), desk.namespace)
    recorder.emit(namespace, [CREATED])
    await ended(recorder)
    found, _ = await client.list(EVENTS, "default")
    assert any(live.body["regarding"].get("name") == desk.namespace for live in found)


async def test_a_missing_permission_is_logged_once_and_then_no_event_is_written(
    client: Client, desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.apply(echo("web"))
    parent = await client.get(await desk.mapper.resource_by_name(ECHOES), "web", desk.namespace)
    path = with_token(desk.kubeconfig, tmp_path, await desk.kubectl("create", "token", "default"))
    metrics = Metrics()
    async with Client(await credentials.load(str(path), None)) as limited:
        recorder = Recorder(limited, metrics.event_ended, at_once)
        recorder.emit(parent, [Event(reason=f"R{number}", action="A", note="n") for number in range(3)])
        await ended(recorder)
    assert (counted(metrics, "failed"), counted(metrics, "dropped"), counted(metrics, "written")) == (1, 2, 0)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([text for text in warnings if "events are not written" in text and "create and patch" in text]) == 1


async def test_a_note_that_is_longer_than_the_api_server_accepts_is_cut(client: Client, desk: Desk) -> None:
    metrics = Metrics()
    recorder = Recorder(client, metrics.event_ended, at_once)
    await desk.apply(echo("web"))
    parent: LiveObject = await client.get(await desk.mapper.resource_by_name(ECHOES), "web", desk.namespace)
    recorder.emit(parent, [Event(reason="Long", action="A", note="ä" * 3000)])
    await ended(recorder)
    assert counted(metrics, "written") == 1


async def at_once() -> None:
    """No parent waits in the work queue."""


async def ended(recorder: Recorder) -> None:
    """Write the queued Events."""
    await recorder.close(asyncio.create_task(recorder.run()))


def counted(metrics: Metrics, result: str) -> float:
    return float(metrics.events.labels(result)._value.get())
