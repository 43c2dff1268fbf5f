"""CRDs and namespaces that are created and deleted while an operator runs, and restarts of the operator."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.api.transport import Response
from ssa_operator.operator.http import Server
from ssa_operator.operator.operator import Operator
from tests.devcluster.waiting import until
from tests.operator.harness import (
    ECHOES,
    ROLE,
    ROLES,
    Desk,
    MakeOptions,
    Operate,
    Running,
    administrator,
    definition,
    echo,
    holds,
    is_ready,
    map_template,
    not_ready_because,
    only,
    operating,
    other_than,
    shown,
    uid,
)
from tests.operator.limited_accounts import BASICS, Rules, acting_as, allowed, allowed_everywhere

pytestmark = pytest.mark.cluster

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


async def test_a_folder_starts_with_its_crd_and_stops_with_it_without_disturbing_others(
    desk: Desk, operate: Operate, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    name = crd["metadata"]["name"]
    async with operate(templates=gadget_templates) as running:
        await desk.apply_until_ready(echo("web"))
        assert "no resource" in running.operator.missing[name]
        assert running.operator.ready

        await desk.define(crd)
        await desk.apply_until_ready(gadget(group, "one"))
        assert holds(word="a")(await desk.read("configmaps", "one"))

        await desk.delete("crd", name)
        await desk.gone("customresourcedefinitions.apiextensions.k8s.io", name)
        await desk.apply_until_ready(echo("web", 2))
        await until(lambda: name not in running.operator.folders)

        await desk.define(crd)
        await desk.apply(gadget(group, "two"))
        await desk.until("configmaps", "two", holds(word="a"))


CRDS = "customresourcedefinitions.apiextensions.k8s.io"


@pytest.fixture
def finalized_templates(gadget_templates: Path, group: str) -> Path:
    """A second folder whose parents have the operator's finalizer: their child is cluster-scoped."""
    folder = gadget_templates / f"gadgets.{group}"
    (folder / "_settings.yaml").write_text("clusterScope: true\n")
    (folder / "role.yaml.j2").write_text(ROLE)
    return gadget_templates


@pytest.mark.slow
async def test_a_crd_is_deleted_with_its_parents_and_all_that_their_finalizers_delete(
    desk: Desk, operate: Operate, finalized_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    name = crd["metadata"]["name"]
    role = f"{desk.namespace}-one"
    await desk.define(crd)
    async with operate(templates=finalized_templates) as running:
        await desk.apply_until_ready(gadget(group, "one"))
        # The Echos' watch may still be syncing: their CRD is as new as the control plane where this test runs alone.
        await until(lambda: running.operator.ready)
        await desk.hold("clusterrole", role)
        await desk.delete("crd", name, wait=False)
        await desk.until(f"gadgets.{group}", "one", not_ready_because("Deleting", f"ClusterRole {role}"))
        assert running.operator.ready
        await desk.apply_until_ready(echo("web"))
        await desk.release("clusterrole", role)
        await desk.gone(ROLES, role)
        await desk.gone(CRDS, name)
        await until(lambda: name not in running.operator.folders)
        assert "was removed" in running.operator.missing[name]

        await desk.define(crd)
        await desk.apply_until_ready(gadget(group, "one"))
        await desk.delete(f"gadgets.{group}", "one", wait=False)
        await desk.gone(ROLES, role)


@pytest.mark.exhaustive
async def test_a_crd_whose_deletion_began_while_no_operator_ran_is_deleted_when_one_starts(
    desk: Desk, operate: Operate, finalized_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    name = crd["metadata"]["name"]
    await desk.define(crd)
    async with operate(templates=finalized_templates):
        await desk.apply_until_ready(gadget(group, "one"))
    await desk.delete("crd", name, wait=False)
    await desk.until(f"gadgets.{group}", "one", lambda body: "deletionTimestamp" in body["metadata"])
    async with operate(templates=finalized_templates) as running:
        await desk.gone(ROLES, f"{desk.namespace}-one")
        await desk.gone(CRDS, name)
        await until(lambda: name in running.operator.missing)
        assert name not in running.operator.folders


@pytest.mark.exhaustive
async def test_a_child_whose_crd_is_being_deleted_is_recreated_with_the_crd(
    desk: Desk, operate: Operate, templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    name = crd["metadata"]["name"]
    (templates / ECHOES / "gadget.yaml.j2").write_text(
        f"apiVersion: {group}/v1\nkind: Gadget\nmetadata:\n  name: {{{{ name }}}}\nspec: {{word: a}}\n"
    )
    await desk.define(crd)
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web"))
        first = await desk.read(name, "web")
        await desk.hold(f"gadgets.{group}", "web")
        await desk.delete("crd", name, wait=False)
        await desk.until(ECHOES, "web", not_ready_because("Progressing", f"Gadget {desk.namespace}/web", "deleted"))
        await desk.release(f"gadgets.{group}", "web")
        await desk.gone(CRDS, name)
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", f"has no kind Gadget.{group}"))
        await desk.define(crd)
        await desk.ready(ECHOES, "web")
        assert other_than(first)(await desk.read(name, "web"))


class HoldingClient(Client):
    """A client that sends no status until `release` is set."""

    holding = False
    release: asyncio.Event
    held: asyncio.Event

    async def send(self, request: Request) -> Response:
        if self.holding and request.path.endswith("/status"):
            self.held.set()
            await self.release.wait()
        return await super().send(request)


@pytest.mark.exhaustive
async def test_a_crd_that_changes_while_a_parent_is_reconciled_reaches_that_parent(
    desk: Desk,
    cluster: Cluster,
    options: MakeOptions,
    templates: Path,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crd = definition("gadgets", group, "Gadget")
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    allowed = properties["spec"]
    properties["spec"] = {"type": "object", "properties": {"replicas": {"type": "integer", "maximum": 1}}}
    only(
        templates,
        gadget=f"apiVersion: {group}/v1\nkind: Gadget\nmetadata: {{name: web}}\n"
        "spec: {replicas: {{ spec.replicas }}}\n",
    )
    await desk.define(crd)
    async with HoldingClient(await administrator(cluster)) as client, operating(client, options()) as running:
        client.held, client.release = asyncio.Event(), asyncio.Event()
        await desk.apply_until_ready(echo("web", 1))
        client.holding = True
        await desk.apply(echo("web", 2))
        await client.held.wait()
        requeued = asyncio.Event()
        requeue = running.operator.controllers._requeue_unready

        def noted() -> None:
            requeue()
            requeued.set()

        monkeypatch.setattr(running.operator.controllers, "_requeue_unready", noted)
        properties["spec"] = allowed
        await desk.define(crd)
        await requeued.wait()
        await desk.apply_until_accepted({**gadget(group, "accepted"), "spec": {"replicas": 2}})
        client.release.set()
        await desk.ready(ECHOES, "web")


@pytest.mark.exhaustive
@pytest.mark.parametrize("sees_crds", [True, False], ids=["watching CRDs", "no permission to watch CRDs"])
async def test_a_recorded_child_that_was_deleted_with_its_crd_keeps_no_parent_in_deletion(
    desk: Desk, options: MakeOptions, templates: Path, group: str, tmp_path: Path, *, sees_crds: bool
) -> None:
    crd = definition("gadgets", group, "Gadget", scope="Cluster")
    name = crd["metadata"]["name"]
    only(templates, gadget=f"apiVersion: {group}/v1\nkind: Gadget\nmetadata:\n  name: {{{{ name }}}}\n")
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    user = f"limited-{desk.namespace}"
    rules: Rules = [{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}]
    if sees_crds:
        rules.append({"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["list", "watch"]})
    await desk.apply(*allowed(user, BASICS, "basics"), *allowed_everywhere(user, rules))
    await desk.define(crd)
    async with acting_as(user, desk, tmp_path) as client, operating(client, options()):
        await desk.apply_until_ready(echo("web"))
        await desk.delete("crd", name)
        missing = (
            not_ready_because("ApplyFailed", "404 page not found"),
            not_ready_because("ApplyFailed", "has no kind"),
        )
        await desk.until(ECHOES, "web", lambda body: any(each(body) for each in missing))
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_parent_in_deletion_waits_for_a_child_whose_crd_is_being_deleted(
    desk: Desk, operate: Operate, templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget", scope="Cluster")
    name = crd["metadata"]["name"]
    (templates / ECHOES / "gadget.yaml.j2").write_text(
        f"apiVersion: {group}/v1\nkind: Gadget\nmetadata:\n  name: {{{{ name }}}}\n"
    )
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    await desk.define(crd)
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web"))
        await desk.hold(f"gadgets.{group}", "web")
        await desk.delete("crd", name, wait=False)
        await desk.until(name, "web", lambda body: "deletionTimestamp" in body["metadata"])
        await desk.delete("echo", "web", wait=False)
        await desk.until(ECHOES, "web", not_ready_because("Deleting", "Gadget web is being deleted"))
        await desk.release(f"gadgets.{group}", "web")
        await desk.gone(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_crd_that_serves_no_version_is_waited_for(
    desk: Desk, operate: Operate, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    crd["spec"]["versions"][0]["served"] = False
    await desk.apply(crd)
    async with operate(templates=gadget_templates) as running:
        await desk.apply_until_ready(echo("web"))
        assert "serves no version" in running.operator.missing[f"gadgets.{group}"]
        crd["spec"]["versions"][0]["served"] = True
        await desk.define(crd)
        await desk.apply(gadget(group, "late"))
        await desk.read("configmaps", "late")


def with_status(group: str, **fields: dict[str, Any]) -> dict[str, Any]:
    """The CRD of Gadgets whose status declares these fields."""
    crd = definition("gadgets", group, "Gadget")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["status"] = {"type": "object", "properties": fields}
    return crd


async def test_a_status_whose_fields_have_other_types_gets_the_rest(
    desk: Desk, operate: Operate, gadget_templates: Path, group: str
) -> None:
    strings = {"type": "array", "items": {"type": "string"}}
    number = {"type": "integer"}
    await desk.define(with_status(group, observedGeneration=number, resources=strings, conditions={"type": "string"}))
    async with operate(templates=gadget_templates):
        await desk.apply(gadget(group, "odd"))
        found = await desk.until(f"gadgets.{group}", "odd", lambda body: "status" in body)
    assert found["status"] == {"observedGeneration": 1}


async def test_a_field_that_a_crd_gains_reaches_parents_and_lookups_and_requeues_no_other(
    desk: Desk, operate: Operate, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    fields: dict[str, Any] = {"word": {"type": "string"}}
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"] = {"type": "object", "properties": fields}
    reads = "  fields: {{ spec.keys() | sort | join(' ') }}\n"
    (gadget_templates / f"gadgets.{group}" / "map.yaml.j2").write_text(CONFIG_MAP + reads)
    read = f"lookup('{group}/v1', 'Gadget', 'old').spec.keys() | sort | join(' ')"
    seen = f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: seen}}\ndata: {{fields: "{{{{ {read} }}}}"}}\n'
    only(gadget_templates, seen=seen)
    await desk.define(crd)
    async with operate(templates=gadget_templates) as running:
        await desk.apply(gadget(group, "old"))
        await desk.ready(f"gadgets.{group}", "old")
        await desk.apply_until_ready(echo("web"))
        await desk.until("configmaps", "seen", holds(fields="word"))
        running.forget()
        fields["added"] = {"type": "string"}
        await desk.apply(crd)
        await desk.apply_until_accepted(gadget(group, "new") | {"spec": {"word": "a", "added": "b"}})
        await desk.until("configmaps", "new", holds(word="a", fields="added word"))
        assert "old" not in {name for name, _ in running.reconciles}
        fields["defaulted"] = {"type": "string", "default": "c"}
        await desk.apply(crd)
        await desk.until("configmaps", "old", holds(word="a", fields="defaulted word"))
        await desk.until("configmaps", "seen", holds(fields="defaulted word"))


async def test_two_folders_are_served_by_one_process(
    desk: Desk, operate: Operate, gadget_templates: Path, group: str
) -> None:
    await desk.define(definition("gadgets", group, "Gadget"))
    async with operate(templates=gadget_templates):
        await desk.apply(echo("web"), gadget(group, "web"))
        await desk.ready(ECHOES, "web")
        await desk.ready(f"gadgets.{group}", "web")
        await desk.apply(gadget(group, "web", "b"))
        await desk.until("configmaps", "web", holds(word="b"))


async def test_a_crd_without_a_status_is_served_without_one(
    desk: Desk, operate: Operate, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    del crd["spec"]["versions"][0]["subresources"]
    await desk.define(crd)
    async with operate(templates=gadget_templates):
        await desk.apply(gadget(group, "plain"))
        await desk.read("configmaps", "plain")
        await desk.apply(gadget(group, "plain", "b"))
        await desk.until("configmaps", "plain", holds(word="b"))
        found = await desk.read(f"gadgets.{group}", "plain")
    assert "status" not in found


async def test_a_status_that_declares_only_some_fields_gets_those(
    desk: Desk, operate: Operate, gadget_templates: Path, group: str
) -> None:
    await desk.define(with_status(group, observedGeneration={"type": "integer"}))
    async with operate(templates=gadget_templates):
        await desk.apply(gadget(group, "few"))
        found = await desk.until(f"gadgets.{group}", "few", lambda body: "status" in body)
    assert found["status"] == {"observedGeneration": 1}


async def test_errors_that_a_status_does_not_declare_are_events_and_the_log_names_the_crd_once(
    desk: Desk, operate: Operate, gadget_templates: Path, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.define(with_status(group, observedGeneration={"type": "integer"}))
    (gadget_templates / f"gadgets.{group}" / "map.yaml.j2").write_text(CONFIG_MAP.replace("spec.word", "spec.nope"))
    async with operate(templates=gadget_templates):
        await desk.apply(gadget(group, "one"), gadget(group, "two"))
        for name in ("one", "two"):
            event = await desk.until_event("RenderFailed", "spec.nope", "map.yaml.j2:6", about=name)
            assert event["type"] == "Warning"
            await desk.until_event(
                "StatusNotDeclared", "declares no status.conditions and status.resources", about=name
            )
    assert sum("declares no status.conditions" in line for line in caplog.messages) == 1


async def test_what_a_parent_without_a_status_waits_for_is_an_event(
    desk: Desk, operate: Operate, gadget_templates: Path, group: str
) -> None:
    crd = definition("gadgets", group, "Gadget")
    del crd["spec"]["versions"][0]["subresources"]
    await desk.define(crd)
    waiting = CONFIG_MAP.replace("spec.word", "lookup('v1', 'ConfigMap', 'later').data.word")
    (gadget_templates / f"gadgets.{group}" / "map.yaml.j2").write_text(waiting)
    async with operate(templates=gadget_templates):
        await desk.apply(gadget(group, "plain"))
        await desk.until_event("WaitingForDependency", "waiting for ConfigMap", "later", about="plain")
        await desk.until_event("StatusNotDeclared", "no status subresource", about="plain")


@pytest.mark.slow
async def test_a_cluster_scoped_parent_owns_what_its_templates_place_in_namespaces(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    name = f"wide-{uuid.uuid4().hex[:8]}"
    wides = templates / "wides.shared.example.com"
    wides.mkdir()
    (wides / "map.yaml.j2").write_text(CONFIG_MAP.replace("metadata:\n", "metadata:\n  namespace: {{ spec.where }}\n"))
    spec = {"word": "a", "where": desk.namespace}
    parent = {"apiVersion": "shared.example.com/v1", "kind": "Wide", "metadata": {"name": name}, "spec": spec}
    async with operate(templates=templates):
        found = await desk.apply_until_ready(parent)
        child = await desk.read("configmaps", name)
        assert child["metadata"]["ownerReferences"][0]["uid"] == uid(found)
        await desk.kubectl("delete", "wides.shared.example.com", name, "--wait=false")
        await desk.gone("configmaps", name)


@pytest.fixture
async def doomed(desk: Desk) -> AsyncIterator[Desk]:
    """A namespace to be deleted, with an Echo in it that has a finalizer."""
    name = f"{desk.namespace}-doomed"
    await desk.kubectl("create", "namespace", name)
    held = echo("held")
    held["metadata"]["finalizers"] = ["example.com/test"]
    async with desk.elsewhere(name) as there:
        await there.create(held)
        yield there


@pytest.mark.slow
async def test_a_namespace_that_is_being_deleted_disturbs_no_other(desk: Desk, operate: Operate, doomed: Desk) -> None:
    async with operate(namespaces=(desk.namespace, doomed.namespace)) as running:
        await doomed.ready(ECHOES, "held")
        await desk.delete("namespace", doomed.namespace, wait=False)
        await doomed.until(ECHOES, "held", not_ready_because("Deleting"))
        await desk.apply_until_ready(echo("web"))
        # The operator neither fights for the children of what goes nor keeps it from going.
        await doomed.gone("deployments.apps", "held")
        await doomed.release("echo", "held")
        await doomed.gone(ECHOES, "held")
        assert running.operator.ready


@pytest.mark.exhaustive
async def test_an_echo_that_is_first_reconciled_while_its_namespace_is_deleted_gets_no_children(
    desk: Desk, operate: Operate, doomed: Desk
) -> None:
    await desk.delete("namespace", doomed.namespace, wait=False)
    await doomed.until(ECHOES, "held", lambda body: "deletionTimestamp" in body["metadata"])
    async with operate(namespaces=(doomed.namespace,)):
        await doomed.until(ECHOES, "held", not_ready_because("Deleting"))
        assert await doomed.find("deployments.apps", "held") is None
        await doomed.release("echo", "held")
        await doomed.gone(ECHOES, "held")


async def test_objects_over_http_follow_the_cluster(desk: Desk, operate: Operate) -> None:
    async with (
        operate() as running,
        Server(running.operator, "127.0.0.1", 0) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as http,
    ):

        async def ask(path: str) -> Any:
            async with http.get(path) as answer:
                return await answer.json() if answer.status == 200 else answer.status

        await desk.apply_until_ready(echo("web", 2))
        # The status reaches the cluster a moment before the operator remembers that it was written.
        await running.reported(lambda report: report.verdict.ready)
        listed = await ask("/objects/echoes.example.com")
        assert list(listed["items"]) == [f"{desk.namespace}/web"]
        one = await ask(f"/objects/echoes.example.com/{desk.namespace}/web")
        assert one == listed["items"][f"{desk.namespace}/web"]
        assert one["object"]["spec"] == {"replicas": 2}
        assert one["conditions"][0]["type"] == "Ready"
        assert one["resources"][0]["state"] == "Current"

        await desk.delete("echo", "web")
        await desk.gone(ECHOES, "web")
        async with asyncio.timeout(30):
            while (await ask("/objects/echoes.example.com"))["items"]:
                await desk.kubectl("get", "echoes")
        assert await ask(f"/objects/echoes.example.com/{desk.namespace}/web") == 404
        assert await ask("/objects/nothing.example.com") == 404
        async with http.get("/healthz") as healthy, http.get("/readyz") as ready, http.get("/metrics") as metrics:
            assert (healthy.status, ready.status) == (200, 200)
            text = await metrics.text()
        for name in (
            "reconcile_total",
            "reconcile_duration_seconds",
            "children_total",
            "workqueue_depth",
            "workqueue_queue_duration_seconds",
            "workqueue_unfinished_work_seconds",
            "workqueue_longest_running_seconds",
            "workqueue_retries_total",
            "watch_restarts",
            "resync_lag_seconds",
        ):
            assert f"ssa_operator_{name}" in text


def loaded(operator: Operator, folder: str) -> str:
    """The text of a folder's only template as the operator read it last."""
    assert operator.controllers.templates._loaded is not None
    (text,) = operator.controllers.templates._loaded.folders[folder].files.values()
    return text


@pytest.mark.exhaustive
async def test_a_folder_that_waits_is_forgotten_when_it_is_deleted(
    operate: Operate, gadget_templates: Path, group: str
) -> None:
    async with operate() as running:
        operator, name = running.operator, f"gadgets.{group}"
        await until(lambda: name in operator.missing)
        shutil.rmtree(gadget_templates / name)
        await until(lambda: name not in operator.missing)


async def test_a_template_saved_during_discovery_is_rendered(
    desk: Desk, operate: Operate, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked, answer = "serviceaccounts", asyncio.Event(), asyncio.Event()
    (templates / folder).mkdir()
    (templates / folder / "map.yaml.j2").write_text(map_template("words", word="'first'"))
    await desk.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    async with operate() as running:
        await desk.until("configmaps", "robot-words", holds(word="first"))
        resource_by_name = running.operator.controllers._mapper.resource_by_name

        async def slow(name: str) -> Resource:
            asked.set()
            await answer.wait()
            return await resource_by_name(name)

        monkeypatch.setattr(running.operator.controllers._mapper, "resource_by_name", slow)
        running.write(f"{folder}/map.yaml.j2", map_template("words", word="'second'"))
        await asked.wait()
        running.write(f"{folder}/map.yaml.j2", map_template("words", word="'third'"))
        await until(lambda: "third" in loaded(running.operator, folder))
        answer.set()
        await desk.until("configmaps", "robot-words", holds(word="third"))


@pytest.mark.exhaustive
async def test_five_hundred_echos_converge_and_the_process_stays_healthy(desk: Desk, operate: Operate) -> None:
    count = 500
    async with (
        operate(resync_rate=20.0) as running,
        Server(running.operator, "127.0.0.1", 0) as server,
    ):
        # The pods are Kubernetes' work, and most of it: every tenth Echo has one.
        await desk.apply(*(echo(f"e{number:03}", int(number % 10 == 0)) for number in range(count)))
        view = await desk.view(ECHOES)
        for number in range(count):
            await view.until(f"e{number:03}", is_ready)
        deployments = await desk.view("deployments.apps")
        assert len(deployments.cache) == count
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as http:
            for path in ("/healthz", "/readyz"):
                async with http.get(path) as answer:
                    assert answer.status == 200, await answer.text()


async def test_parents_that_outlive_their_folder_are_told_and_are_finalized_when_they_are_deleted(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder, role = only(templates, role=ROLE) / ECHOES, f"{desk.namespace}-web"
    (folder / "_settings.yaml").write_text("clusterScope: true\n")
    texts = {path.name: path.read_text() for path in folder.iterdir()}

    def metric(running: Running) -> bool:
        return f'ssa_operator_templates_loaded{{folder="{ECHOES}"}} 0.0' in shown(running)

    async with operate() as running:
        await desk.apply_until_ready(echo("web", 1))
        shutil.rmtree(folder)
        removed = not_ready_because("RenderFailed", f"the folder of templates {ECHOES} was removed", "finalizer")
        await desk.until(ECHOES, "web", removed)
        assert metric(running)
        # Nothing is lost if the folder comes back.
        folder.mkdir()
        for name, text in texts.items():
            (folder / name).write_text(text)
        await desk.ready(ECHOES, "web")
        assert not metric(running)
        shutil.rmtree(folder)
        await desk.until(ECHOES, "web", removed)
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ROLES, role)
        await desk.gone(ECHOES, "web")
        await until(lambda: ECHOES not in running.operator.folders)
