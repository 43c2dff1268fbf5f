"""Whoever may create objects in one namespace, and nothing else, fills no memory of the operator: of objects that no
parent names, only metadata is kept.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    Desk,
    Operate,
    Running,
    config_map,
    echo,
    entries,
    holds,
    map_template,
    not_ready_because,
    only,
    requests_for,
    uid,
)

pytestmark = pytest.mark.cluster

LARGE = "x" * 100_000


def posing(name: str, parent: dict[str, Any], *, owned: bool = True, **data: str) -> dict[str, Any]:
    """A ConfigMap that says that it is a parent's child, as anyone may write one."""
    body = config_map(name, **data)
    owner = {"apiVersion": "example.com/v1", "kind": "Echo", "name": "web", "uid": uid(parent), "controller": True}
    body["metadata"] |= {"labels": {PARENT_UID_LABEL: uid(parent)}, "annotations": {"a": LARGE}}
    body["metadata"] |= {"ownerReferences": [owner]} if owned else {}
    return body


def kept(running: Running) -> dict[str, LiveObject]:
    """The objects in the caches of children, by name."""
    children = running.operator.controllers.children
    return {identity.name: children[identity] for identity in children}


def partial_objects(running: Running) -> float:
    running.operator.measure()
    metric = running.operator.metrics.partial_objects.labels("configmaps")
    return float(metric._value.get())


async def seen(desk: Desk, running: Running) -> None:
    """Return once the operator has seen everything that was written until now."""
    (reflector,) = running.operator.controllers.children.reflectors
    changed = asyncio.Event()
    reflector.cache.listen(lambda *_: changed.set())
    # The garbage collector deletes an object whose owner does not exist.
    await desk.apply(posing("mark", {"metadata": {"uid": "mark"}}, owned=False))
    async with asyncio.timeout(PATIENCE):
        while "mark" not in kept(running):
            changed.clear()
            await changed.wait()


@pytest.mark.exhaustive
async def test_of_an_object_that_no_parent_names_only_metadata_is_kept(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=map_template("a", v="'1'"))
    async with operate() as running:
        parent = await desk.apply_until_ready(echo("web"))
        unknown = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}}
        for number in range(5):
            await desk.apply(posing(f"label-{number}", parent, owned=number > 0, v=LARGE))
            await desk.apply(posing(f"stranger-{number}", unknown, owned=False, v=LARGE))
        await seen(desk, running)
        objects = kept(running)
        assert not objects.pop("web-a").partial
        assert len(objects) == 11
        assert all(live.partial and sys.getsizeof(live.raw) < 2000 for live in objects.values())
        assert partial_objects(running) == 11
    # A restart lists all of them.
    async with operate() as running:
        await desk.ready(ECHOES, "web")
        await running.reconciled(1)
        objects = kept(running)
        assert not objects.pop("web-a").partial
        assert all(live.partial for live in objects.values())


async def test_a_restart_reads_no_child_by_itself(
    desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: web-s}\nstringData:\n  word: '{{ generated() }}'\n"
    texts = {name: map_template(name, v="'1'") for name in "abc"}
    only(templates, s=secret, read=map_template("read", v="child('Secret', 'web-s').data.word"), **texts)
    async with operate():
        parent = await desk.apply_until_ready(echo("web"))
        word = (await desk.read("secrets", "web-s"))["data"]["word"]
    names = ["web-s", "web-read", *(f"web-{name}" for name in "abc")]
    before = {name: requests_for(cluster, desk.namespace, name) for name in names}
    async with operate() as running:
        await running.reconciled(1)
        await desk.ready(ECHOES, "web")
        assert not any(live.partial for live in kept(running).values())
    for name in names:
        new = requests_for(cluster, desk.namespace, name)[len(before[name]) :]
        assert not {"get", "list"} & {*new}
    assert (await desk.read("secrets", "web-s"))["data"]["word"] == word
    assert entries(parent)


async def test_an_object_that_a_parent_names_later_is_read_whole(
    desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    """Neither what it holds nor a generated value in it is taken for missing."""
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: web-s}\nstringData:\n  word: '{{ generated() }}'\n"
    only(templates, a=map_template("a", v="'1'"), s=secret)
    async with operate() as running:
        parent = await desk.apply_until_ready(echo("web"))
        word = (await desk.read("secrets", "web-s"))["data"]["word"]
        await desk.apply(posing("web-later", parent, v=LARGE))
        running.remove(f"{ECHOES}/s.yaml.j2")
    # Neither the status nor the templates name them from here on.
    await desk.patch("echo", "web", metadata={"annotations": {"ssa-operator.dev/applied": None}})
    resource = await desk.mapper.resource_by_name(ECHOES)
    body = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "web"}, "status": {"resources": []}}

    await desk.client.apply(resource, desk.namespace, "web", encode(body), ApplyOptions(subresource="status"))
    (templates / ECHOES / "s.yaml.j2").write_text(secret)
    (templates / ECHOES / "later.yaml.j2").write_text(map_template("later", v="'1'"))
    read = map_template("read", v="child('Secret', 'web-s').data.word ~ child('ConfigMap', 'web-later').data.v")
    (templates / ECHOES / "read.yaml.j2").write_text(read)
    async with operate() as running:
        await desk.until("configmaps", "web-read", holds(v=f"{word}1"))
        await desk.ready(ECHOES, "web")
        assert (await desk.read("secrets", "web-s"))["data"]["word"] == word
        later = await desk.until("configmaps", "web-later", holds(v="1"))
        assert "ssa-operator" in {each["manager"] for each in later["metadata"]["managedFields"]}
        assert not any(live.partial for live in kept(running).values())
    for name in ("web-s", "web-later"):
        assert requests_for(cluster, desk.namespace, name).count("list") == 1


async def test_objects_that_pose_as_children_are_still_refused_and_pruned_by_their_metadata(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=map_template("a", v="'1'"), b=map_template("b", v="'2'"))
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        await desk.apply_until_ready(echo("other"))
        running.write(f"{ECHOES}/b.yaml.j2", map_template("c", v="'2'"))
        await desk.gone("configmaps", "web-b")
        await desk.ready(ECHOES, "web")
        other = await desk.read(ECHOES, "other")
        await desk.apply(posing("web-d", other, owned=False, v="theirs"))
        await seen(desk, running)
        running.write(f"{ECHOES}/d.yaml.j2", "{% if name == 'web' %}\n" + map_template("d", v="'2'") + "{% endif %}\n")
        await desk.until(ECHOES, "web", not_ready_because("InvalidManifest", "web-d belongs to Echo", "other"))
