"""Children that are custom resources: they are ready when whoever looks after them says so."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube import credentials
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, definition, echo, not_ready_because, operating, ready_condition
from tests.controller.test_events import told
from tests.controller.test_lookups import BASICS, allowed, config, limited, made
from tests.controller.test_order import config_map, version

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

FOLDER = "echoes.example.com"


@pytest.fixture
async def group(desk: Desk) -> AsyncIterator[str]:
    """The group of a test's own CRDs, which are deleted at its end."""
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    yield group
    await desk.kubectl("delete", "crd", f"ins.{group}", "--ignore-not-found", "--wait=false")


async def define(desk: Desk, group: str, status: dict[str, Any] | None = None) -> None:
    crd = definition("ins", group, "In")
    if status is not None:
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = status
    await desk.apply(crd)
    await desk.kubectl("wait", "--for=condition=Established", f"crd/ins.{group}")


def child_of(group: str) -> str:
    return (
        f"apiVersion: {group}/v1\nkind: In\nmetadata:\n  name: {{{{ name }}}}\nspec: {{x: '{{{{ spec.replicas }}}}'}}\n"
    )


AFTER = config_map("{{ name }}-after", after="In/{{ name }}")


async def test_what_comes_after_a_custom_resource_of_another_folder_waits_until_that_is_ready(
    client: Client, desk: Desk, options: MakeOptions, group: str, templates: Path
) -> None:
    (templates / f"ins.{group}").mkdir()
    (templates / f"ins.{group}" / "a.yaml.j2").write_text(made("seeded", v="lookup('v1', 'ConfigMap', 'seed').data.v"))
    (templates / FOLDER / "in.yaml.j2").write_text(child_of(group))
    (templates / FOLDER / "after.yaml.j2").write_text(AFTER)
    await define(desk, group)
    verdicts = set[str]()
    async with operating(client, options()):
        view = await desk.view(FOLDER)
        view.cache.listen(lambda _, new: verdicts.add(ready_condition(new.body).get("status", "")) if new else None)
        await desk.apply(echo("web", 0))
        await desk.until(f"ins.{group}", "web", not_ready_because("WaitingForDependency", "seed"))
        words = ("web-after", "waiting for In/web to be ready (WaitingForDependency: ")
        await desk.until(FOLDER, "web", not_ready_because("WaitingForDependency", *words))
        assert "True" not in verdicts
        assert (await desk.view("configmaps")).find("web-after") is None
        await desk.apply(config("seed", v="1"))
        await desk.ready(FOLDER, "web")
        inner = await desk.ready(f"ins.{group}", "web")
        made_after = await desk.until("configmaps", "web-after", lambda _: True)
    assert version(inner) < version(made_after)


async def test_a_custom_resource_that_announces_no_status_is_ready_at_once(
    client: Client, desk: Desk, options: MakeOptions, group: str, templates: Path
) -> None:
    (templates / FOLDER / "in.yaml.j2").write_text(child_of(group))
    (templates / FOLDER / "after.yaml.j2").write_text(AFTER)
    await define(desk, group)
    async with operating(client, options()):
        await desk.apply(echo("web", 0))
        await desk.ready(FOLDER, "web")


async def test_a_custom_resource_whose_crd_announces_conditions_is_awaited(
    client: Client, desk: Desk, options: MakeOptions, group: str, templates: Path
) -> None:
    (templates / FOLDER / "in.yaml.j2").write_text(child_of(group))
    (templates / FOLDER / "up.yaml.j2").write_text(made("up", up="ready(child('In', name))"))
    item = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await define(desk, group, {"type": "object", "properties": {"conditions": {"type": "array", "items": item}}})
    async with operating(client, options()):
        await desk.apply(echo("web", 0))
        words = ("In ", "its controller has not written its status yet")
        await desk.until(FOLDER, "web", not_ready_because("Progressing", *words))
        await desk.until("configmaps", "web-up", lambda body: body["data"] == {"up": "false"})
        patch = '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}'
        await desk.kubectl("patch", f"ins.{group}", "web", "--subresource=status", "--type=merge", "-p", patch)
        await desk.ready(FOLDER, "web")
        await desk.until("configmaps", "web-up", lambda body: body["data"] == {"up": "true"})


async def test_a_status_that_the_crd_refuses_is_told_as_an_event(
    client: Client, desk: Desk, options: MakeOptions, group: str, templates: Path
) -> None:
    (templates / f"ins.{group}").mkdir()
    (templates / f"ins.{group}" / "a.yaml.j2").write_text(made("a", v="1"))
    message = {"type": "string", "maxLength": 3}
    item = {"type": "object", "properties": {"message": message}, "x-kubernetes-preserve-unknown-fields": True}
    await define(desk, group, {"type": "object", "properties": {"conditions": {"type": "array", "items": item}}})
    async with operating(client, options()):
        await desk.apply({"apiVersion": f"{group}/v1", "kind": "In", "metadata": {"name": "web"}, "spec": {}})
        event = await told(desk, "StatusRefused", "the status can't be written: ", "status.conditions[0].message")
    assert event["regarding"]["name"] == "web"


async def test_a_right_that_is_missing_for_a_childs_watch_is_stalled_until_it_is_granted(
    desk: Desk, options: MakeOptions, cluster: Cluster, tmp_path: Path, templates: Path
) -> None:
    for path in (templates / FOLDER).iterdir():
        path.unlink()
    (templates / FOLDER / "a.yaml.j2").write_text(made("a", v="1"))
    user = f"limited-{desk.namespace}"
    await desk.apply(*allowed(user, BASICS, "basics"))
    async with (
        Client(await credentials.load(str(limited(cluster, tmp_path, user)), None)) as client,
        operating(client, options()),
    ):
        await desk.apply(echo("web"))
        words = (f'"{user}" cannot', "configmaps")
        found = await desk.until(FOLDER, "web", not_ready_because("ApplyFailed", *words))
        assert {each["type"] for each in found["status"]["conditions"]} == {"Ready", "Stalled"}
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
        await desk.apply(*allowed(user, [rule], "maps"))
        await desk.ready(FOLDER, "web")
