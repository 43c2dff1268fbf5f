"""What comes and goes around a running operator: CRDs, namespaces, the process itself."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ssa_operator.controller.http import Server
from ssa_operator.controller.options import Options
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, definition, echo, is_ready, not_ready_because, operating

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\ndata:\n  word: {{ spec.word }}\n"


def gadget(group: str, name: str, word: str = "a") -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"word": word}}


@pytest.fixture
def group() -> str:
    """An API group that no other test uses."""
    return f"g{uuid.uuid4().hex[:8]}.example.com"


@pytest.fixture
def gadget_templates(templates: Path, group: str) -> Path:
    """The Echo templates, and a second folder beside them."""
    folder = templates / f"gadgets.{group}"
    folder.mkdir()
    (folder / "map.yaml.j2").write_text(CONFIG_MAP)
    return templates


async def test_a_crd_that_is_missing_is_waited_for_used_and_let_go_without_disturbing_others(
    client: Client, desk: Desk, options: MakeOptions, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    name = crd["metadata"]["name"]
    async with operating(client, options(templates=gadget_templates)) as running:
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        assert "no resource" in running.operator.missing[name]
        assert running.operator.ready

        await desk.apply(crd)
        await desk.kubectl("wait", "--for=condition=Established", f"crd/{name}")
        await desk.apply(gadget(group, "one"))
        await desk.ready(name, "one")
        await desk.until("configmaps", "one", lambda body: body["data"] == {"word": "a"})

        await desk.kubectl("delete", "crd", name)
        await desk.gone("customresourcedefinitions.apiextensions.k8s.io", name)
        await desk.apply(echo("web", 2))
        await desk.ready("echoes.example.com", "web")
        assert name not in running.operator.folders

        await desk.apply(crd)
        await desk.kubectl("wait", "--for=condition=Established", f"crd/{name}")
        await desk.apply(gadget(group, "two"))
        await desk.until("configmaps", "two", lambda body: body["data"] == {"word": "a"})


async def test_a_crd_that_serves_no_version_is_waited_for(
    client: Client, desk: Desk, options: MakeOptions, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    crd["spec"]["versions"][0]["served"] = False
    await desk.apply(crd)
    async with operating(client, options(templates=gadget_templates)) as running:
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        assert "serves no version" in running.operator.missing[f"gadgets.{group}"]
        crd["spec"]["versions"][0]["served"] = True
        await desk.apply(crd)
        await desk.kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}")
        await desk.until("customresourcedefinitions.apiextensions.k8s.io", f"gadgets.{group}", lambda _: True)
        await desk.apply(gadget(group, "late"))
        await desk.until("configmaps", "late", lambda _: True)


async def test_a_status_whose_fields_have_other_types_gets_the_rest(
    client: Client, desk: Desk, options: MakeOptions, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    strings = {"type": "array", "items": {"type": "string"}}
    fields = {"observedGeneration": {"type": "integer"}, "resources": strings, "conditions": {"type": "string"}}
    schema["status"] = {"type": "object", "properties": fields}
    await desk.apply(crd)
    await desk.kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}")
    async with operating(client, options(templates=gadget_templates)):
        await desk.apply(gadget(group, "odd"))
        found = await desk.until(f"gadgets.{group}", "odd", lambda body: "status" in body)
    assert found["status"] == {"observedGeneration": 1}


async def test_two_folders_are_served_by_one_process(
    client: Client, desk: Desk, options: MakeOptions, gadget_templates: Path, group: str
) -> None:
    await desk.apply(definition("gadgets", group, "Gadget"))
    await desk.kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}")
    async with operating(client, options(templates=gadget_templates)):
        await desk.apply(echo("web"), gadget(group, "web"))
        await desk.ready("echoes.example.com", "web")
        await desk.ready(f"gadgets.{group}", "web")
        await desk.apply(gadget(group, "web", "b"))
        await desk.until("configmaps", "web", lambda body: body["data"] == {"word": "b"})


async def test_a_crd_without_a_status_is_served_without_one(
    client: Client, desk: Desk, options: MakeOptions, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    del crd["spec"]["versions"][0]["subresources"]
    await desk.apply(crd)
    await desk.kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}")
    async with operating(client, options(templates=gadget_templates)):
        await desk.apply(gadget(group, "plain"))
        await desk.until("configmaps", "plain", lambda _: True)
        await desk.apply(gadget(group, "plain", "b"))
        await desk.until("configmaps", "plain", lambda body: body["data"] == {"word": "b"})
        found = await desk.until(f"gadgets.{group}", "plain", lambda _: True)
    assert "status" not in found


async def test_a_status_that_declares_only_some_fields_gets_those(
    client: Client, desk: Desk, options: MakeOptions, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["status"] = {"type": "object", "properties": {"observedGeneration": {"type": "integer"}}}
    await desk.apply(crd)
    await desk.kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}")
    async with operating(client, options(templates=gadget_templates)):
        await desk.apply(gadget(group, "few"))
        found = await desk.until(f"gadgets.{group}", "few", lambda body: "status" in body)
    assert found["status"] == {"observedGeneration": 1}


async def test_a_cluster_scoped_parent_owns_what_its_templates_place_in_namespaces(
    client: Client, desk: Desk, options: MakeOptions, gadget_templates: Path, group: str
) -> None:
    name = f"wide-{uuid.uuid4().hex[:8]}"
    (gadget_templates / f"gadgets.{group}" / "map.yaml.j2").write_text(
        CONFIG_MAP.replace("metadata:\n", "metadata:\n  namespace: {{ spec.where }}\n")
    )
    await desk.apply(definition("gadgets", group, "Gadget", scope="Cluster"))
    await desk.kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}")
    parent = gadget(group, name)
    parent["spec"]["where"] = desk.namespace
    async with operating(client, options(templates=gadget_templates)):
        await desk.apply(parent)
        found = await desk.ready(f"gadgets.{group}", name)
        child = await desk.until("configmaps", name, lambda _: True)
        assert child["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
        await desk.kubectl("delete", "gadget." + group, name, "--wait=false")
        await desk.gone("configmaps", name)


async def test_a_namespace_that_is_being_deleted_hurts_nobody_else(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    doomed = f"{desk.namespace}-doomed"
    await desk.kubectl("create", "namespace", doomed)
    async with operating(client, options(namespaces=(desk.namespace, doomed))) as running:
        held = echo("held")
        held["metadata"] |= {"namespace": doomed, "finalizers": ["example.com/test"]}
        await desk.kubectl("create", "--namespace", doomed, "-f", "-", stdin=json.dumps(held))
        there = Desk(client, desk.kubeconfig, doomed)
        try:
            await there.ready("echoes.example.com", "held")
            await desk.kubectl("delete", "namespace", doomed, "--wait=false")
            await there.until("echoes.example.com", "held", not_ready_because("Deleting"))
            await desk.apply(echo("web"))
            await desk.ready("echoes.example.com", "web")
            # The operator neither fights for the children of what goes nor keeps it from going.
            await there.gone("deployments.apps", "held")
            await desk.kubectl(
                "patch", "echo", "held", "--namespace", doomed, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
            )
            await there.gone("echoes.example.com", "held")
        finally:
            await there.close()
        assert running.operator.ready


async def test_a_new_echo_in_a_namespace_that_is_being_deleted_says_so(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    """An Echo from before the deletion, looked at for the first time after it: its children can't be made any more."""
    doomed = f"{desk.namespace}-late"
    await desk.kubectl("create", "namespace", doomed)
    holder = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "holder", "finalizers": ["example.com/test"]},
    }
    await desk.kubectl("create", "--namespace", doomed, "-f", "-", stdin=json.dumps(holder))
    await desk.kubectl("delete", "namespace", doomed, "--wait=false")
    there = Desk(client, desk.kubeconfig, doomed)
    try:
        with pytest.raises(AssertionError, match="being terminated"):
            await there.apply(echo("late"))
    finally:
        await desk.kubectl(
            "patch",
            "configmap",
            "holder",
            "--namespace",
            doomed,
            "--type=merge",
            "-p",
            '{"metadata":{"finalizers":null}}',
        )
        await there.close()


async def test_objects_over_http_follow_the_cluster(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with (
        operating(client, options()) as running,
        Server(running.operator, "127.0.0.1", 0) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as http,
    ):

        async def ask(path: str) -> Any:
            async with http.get(path) as answer:
                return await answer.json() if answer.status == 200 else answer.status

        await desk.apply(echo("web", 2))
        await desk.ready("echoes.example.com", "web")
        listed = await ask("/objects/echoes.example.com")
        assert list(listed["items"]) == [f"{desk.namespace}/web"]
        one = await ask(f"/objects/echoes.example.com/{desk.namespace}/web")
        assert one == listed["items"][f"{desk.namespace}/web"]
        assert one["object"]["spec"] == {"replicas": 2}
        assert one["conditions"][0]["type"] == "Ready"
        assert one["resources"][0]["state"] == "Current"

        await desk.kubectl("delete", "echo", "web")
        await desk.gone("echoes.example.com", "web")
        async with asyncio.timeout(30):
            while (await ask("/objects/echoes.example.com"))["items"]:
                await desk.kubectl("get", "echoes")
        assert await ask(f"/objects/echoes.example.com/{desk.namespace}/web") == 404
        assert await ask("/objects/nothing.example.com") == 404
        async with http.get("/healthz") as healthy, http.get("/readyz") as ready, http.get("/metrics") as metrics:
            assert (healthy.status, ready.status) == (200, 200)
            text = await metrics.text()
        for name in (
            "passes_total",
            "pass_seconds",
            "steps_total",
            "queue_depth",
            "queue_seconds",
            "watch_restarts",
            "tick_lag",
        ):
            assert f"ssa_operator_{name}" in text


@pytest.mark.slow
async def test_five_hundred_echos_converge_and_the_process_stays_healthy(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    count = 500
    async with (
        operating(client, options(tick_rate=20.0)) as running,
        Server(running.operator, "127.0.0.1", 0) as server,
    ):
        await desk.apply(*(echo(f"e{number:03}", number % 2) for number in range(count)))
        view = await desk.view("echoes.example.com")
        for number in range(count):
            await view.until(f"e{number:03}", is_ready)
        deployments = await desk.view("deployments.apps")
        assert len(deployments.cache) == count
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as http:
            for path in ("/healthz", "/readyz"):
                async with http.get(path) as answer:
                    assert answer.status == 200, await answer.text()
