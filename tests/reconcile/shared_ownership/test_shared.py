"""Several parents share an object: each is an owner, and the last one takes it along."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.objects.shards import Shard
from ssa_operator.rendering.folder.installation import Installation
from tests.cli.process import run
from tests.operator.admission_webhook import ALLOWED, Body, webhook
from tests.operator.harness import (
    ECHOES,
    ROLES,
    Desk,
    Operate,
    config_map,
    echo,
    entries,
    holds,
    not_ready_because,
    only,
    uid,
)

pytestmark = pytest.mark.cluster

MAPS = "configmaps"

COMMON = """\
{% if spec.replicas < 9 %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: common
  annotations:
    ssa-operator.dev/apply: Shared
data:
  replicas: {{ spec.replicas | string }}
{% endif %}
"""


OWN_FROM_7 = """\
    ssa-operator.dev/apply: {% if spec.replicas == 7 %}Always{% else %}Shared{% endif %}"""

SHARED_ROLE = """\
{% if spec.replicas < 9 %}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-common
  annotations:
    ssa-operator.dev/apply: Shared
rules: []
{% endif %}
"""

OWNERS, LABEL = "ssa-operator.dev/owners", "ssa-operator.dev/parent-uid"

NAMES = ("a", "b", "c", "d")


def owners(body: dict[str, Any]) -> set[str]:
    """The uids of the owners of an object, none of which is its controller."""
    references = body["metadata"].get("ownerReferences", [])
    return {each["uid"] for each in references if not each.get("controller")}


def shared_by(*parents: dict[str, Any], **data: str) -> Any:
    wanted = set(map(uid, parents))
    return lambda body: owners(body) == wanted and (not data or holds(**data)(body))


def service(name: str, number: str) -> dict[str, Any]:
    spec = {"ports": [{"port": 80, "protocol": "TCP"}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {"n": number}}, "spec": spec}


async def parents(desk: Desk, *names: str, replicas: int = 1) -> list[dict[str, Any]]:
    """Parents that are created at once, as soon as they are ready."""
    await asyncio.gather(*(desk.apply(echo(name, replicas)) for name in names))
    return [await desk.ready(ECHOES, name) for name in names]


async def test_parents_share_an_object_that_follows_when_all_change_and_the_last_one_deletes(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        only(running.templates, common=COMMON)
        a, b = await parents(desk, "a", "b")
        common = await desk.until(MAPS, "common", shared_by(a, b, replicas="1"))
        assert common["metadata"]["labels"][LABEL] == "shared"
        # Both owners see it, and it is repaired as any other child.
        assert [entries(each)["ConfigMap/common"]["state"] for each in (a, b)] == ["Current", "Current"]
        await desk.patch("configmap", "common", data={"replicas": "drift"})
        await desk.until(MAPS, "common", shared_by(a, b, replicas="1"))
        await desk.patch("configmap", "common", metadata={"ownerReferences": None})
        await desk.until(MAPS, "common", shared_by(a, b, replicas="1"))
        # One changes: it waits in conflict, and the object stays.
        await desk.apply(echo("a", 2))
        await desk.until(ECHOES, "a", not_ready_because("Conflict", "Echo", "/a ", "/b", "data.replicas"))
        assert holds(replicas="1")(await desk.read(MAPS, "common"))
        # The other one follows, and so does the object.
        await desk.apply(echo("b", 2))
        await desk.until(MAPS, "common", shared_by(a, b, replicas="2"))
        for name in ("a", "b"):
            await desk.ready(ECHOES, name)
        # One gives it up, and then the last one does.
        await desk.apply(echo("a", 9))
        await desk.until(MAPS, "common", shared_by(b, replicas="2"))
        await desk.until_event("Changed", "is no longer rendered; its other owners keep it", about="a")
        await desk.until(ECHOES, "a", lambda body: not entries(body))
        await desk.apply(echo("b", 3))
        await desk.until(MAPS, "common", shared_by(b, replicas="3"))
        await desk.apply(echo("b", 9))
        await desk.gone(MAPS, "common")


OWN = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
"""


async def test_a_write_of_a_shared_object_that_takes_long_holds_up_no_other_parent(
    desk: Desk, operate: Operate, templates: Path, tmp_path: Path
) -> None:
    only(templates, common=COMMON, own=OWN)
    other_is_there, writes = asyncio.Event(), list[str]()

    async def answer(request: Body) -> Body:
        if request["name"] == "common":
            writes.append(request["operation"])
            await other_is_there.wait()
        return ALLOWED

    await desk.apply(config_map("web"))
    async with webhook(desk, tmp_path, [MAPS], answer, "Validating"), operate(workers=2):
        await asyncio.gather(*(desk.apply(echo(name)) for name in NAMES))
        await desk.until(MAPS, "a", bool)
        await desk.apply(echo("other", 9))
        await desk.until(MAPS, "other", bool)
        assert writes == ["CREATE"]
        other_is_there.set()
        owned = await asyncio.gather(*(desk.ready(ECHOES, name) for name in NAMES))
        await desk.until(MAPS, "common", shared_by(*owned))


async def test_the_owners_converge_after_a_restart_even_if_all_changed_meanwhile_and_they_are_in_two_shards(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, common=COMMON)
    async with operate():
        a, b = await parents(desk, *NAMES[:2])
        await desk.until(MAPS, "common", shared_by(a, b, replicas="1"))
    # No process remembers anything, each shard has one of the parents, and both render another form.
    only(templates, common=COMMON.replace("replicas: {{", "count: {{"))
    first, second = (Shard(index=index, count=2) for index in range(2))
    installation = Installation(namespace=desk.namespace)
    async with operate(shard=first, installation=installation), operate(shard=second, installation=installation):
        c, d = await parents(desk, *NAMES[2:])
        common = await desk.until(MAPS, "common", shared_by(a, b, c, d, count="1"))
        for name in NAMES:
            await desk.ready(ECHOES, name)
        assert "ssa-operator.dev/bucket" not in common["metadata"]["labels"]


@pytest.mark.slow  # the garbage collector discovers the kind of the parents within half a minute
async def test_kubernetes_deletes_the_object_with_its_last_owner(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        only(running.templates, common=COMMON)
        _, b = await parents(desk, "a", "b")
        await desk.apply(echo("b", 2))
        await desk.until(ECHOES, "b", not_ready_because("Conflict"))
        # The parent that still rendered the earlier form is gone, and nothing keeps that form any more.
        await desk.delete("echo", "a")
        await desk.until(MAPS, "common", shared_by(b, replicas="2"))
        await desk.ready(ECHOES, "b")
    await desk.delete("echo", "b")
    await desk.gone(MAPS, "common")


async def test_what_kubernetes_cannot_own_goes_with_the_last_parent_that_shares_it(
    desk: Desk, operate: Operate
) -> None:
    role = f"{desk.namespace}-common"
    async with operate() as running:
        only(running.templates, role=SHARED_ROLE)
        running.write(f"{ECHOES}/_settings.yaml", "clusterScope: true\n")
        _, _, c = await parents(desk, "a", "b", "c")
        assert c["metadata"]["finalizers"] == ["ssa-operator.dev/cleanup"]
        await desk.apply(echo("c", 9))
        await desk.until(ECHOES, "c", lambda body: not body["metadata"].get("finalizers"))
        await desk.delete("echo", "a")
        found = await desk.read(ROLES, role)
        assert found["metadata"].get("ownerReferences") is None
        assert list(json.loads(found["metadata"]["annotations"][OWNERS])["owners"]) == [
            uid(await desk.read(ECHOES, "b"))
        ]
        await desk.delete("echo", "b")
        await desk.gone(ROLES, role)


async def test_no_parent_takes_a_shared_object_for_itself_and_none_shares_that_of_another(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        only(running.templates, common=COMMON.replace("    ssa-operator.dev/apply: Shared", OWN_FROM_7))
        a, _ = await parents(desk, "a", "b")
        await desk.apply(echo("c", 7))
        await desk.until(ECHOES, "c", not_ready_because("InvalidManifest", "belongs to Echo", "and 1 more"))
        for name in ("a", "b"):
            await desk.apply(echo(name, 9))
        # What is free belongs to one parent alone, and others are refused it then.
        c = await desk.ready(ECHOES, "c")
        common = await desk.until(MAPS, "common", holds(replicas="7"))
        assert [each["uid"] for each in common["metadata"]["ownerReferences"] if each["controller"]] == [uid(c)]
        await desk.apply(echo("a", 1))
        await desk.until(ECHOES, "a", not_ready_because("InvalidManifest", "belongs to Echo", "/c"))
        # Its parent shares it from now on.
        await desk.apply(echo("c", 1))
        await desk.until(MAPS, "common", shared_by(c, a, replicas="1"))
        await desk.ready(ECHOES, "a")
        # If another client removes the label, no owner is lost.
        await desk.patch("configmap", "common", metadata={"labels": {LABEL: None}})
        await desk.until(MAPS, "common", lambda body: LABEL in body["metadata"]["labels"])
        assert shared_by(c, a)(await desk.read(MAPS, "common"))
        await desk.apply(echo("a", 9), echo("c", 7))
        await desk.until(MAPS, "common", lambda body: body["metadata"]["labels"][LABEL] == uid(c))
        common = await desk.until(MAPS, "common", holds(replicas="7"))
        assert [each["uid"] for each in common["metadata"]["ownerReferences"] if each["controller"]] == [uid(c)]


async def test_parents_of_two_kinds_adopt_an_object_that_exists_and_share_it(desk: Desk, operate: Operate) -> None:
    await desk.kubectl_apply(config_map("common", replicas="0", old="x"))
    async with operate() as running:
        only(running.templates, common=COMMON)
        running.write("services/common.yaml.j2", COMMON.replace("spec.replicas", "(metadata.labels.n | int)"))
        (a,) = await parents(desk, "a")
        await desk.until(MAPS, "common", shared_by(a, replicas="1"))
        await desk.apply(service("s", "1"))
        s = await desk.read("services", "s")
        await desk.until(MAPS, "common", shared_by(a, s, replicas="1"))
        # The Service still wants the earlier form, until it gives the object up.
        await desk.apply(echo("a", 2))
        await desk.until(ECHOES, "a", not_ready_because("Conflict", "/a ", "Service"))
        await desk.apply(service("s", "9"))
        await desk.until(MAPS, "common", shared_by(a, replicas="2"))
        await desk.ready(ECHOES, "a")


@pytest.mark.slow  # commands
async def test_plan_shows_that_the_object_changes_if_all_its_owners_do(
    cluster: Cluster, desk: Desk, operate: Operate, templates: Path, tmp_path: Path
) -> None:
    only(templates, common=COMMON)
    async with operate():
        await parents(desk, "a", "b")
    only(templates, common=COMMON.replace("replicas: {{", "count: {{"))
    options = (f"--templates={templates}", f"--kubeconfig={cluster.kubeconfig}", f"--namespace={desk.namespace}")
    saved = tmp_path / "saved.json"
    code, printed, _ = await run("plan", *options, f"--save={saved}")
    assert (code, "2 changed" in printed, "failed" in printed) == (0, True, False), printed
    code, printed, _ = await run("plan", f"--templates={templates}", f"--against={saved}")
    assert (code, "2 changed" in printed, "failed" in printed) == (0, True, False), printed
    # The owner that differs alone would wait for the other one.
    code, printed, _ = await run("diff", "echo/a", *options)
    assert (code, "rendered differently" in printed) == (2, True), printed
    code, printed, _ = await run("tree", "echo/b", *options)
    assert "ConfigMap" in printed


async def test_an_immutable_field_of_a_shared_object_needs_another_name(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, common=COMMON.replace("\ndata:", "\nimmutable: true\ndata:"))
    async with operate():
        await desk.apply_until_ready(echo("web", replicas=1))
        await desk.apply(echo("web", replicas=2))
        found = await desk.until(ECHOES, "web", not_ready_because("Conflict", "is immutable"))
        (ready,) = [each for each in found["status"]["conditions"] if each["type"] == "Ready"]
        assert "give the object another name" in ready["message"]
        await desk.apply_until_ready(echo("web", replicas=1))
