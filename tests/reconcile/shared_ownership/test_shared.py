"""Several parents share an object: each is an owner, and the last one takes it along."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ssa_operator.objects.shards import Shard
from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    echo,
    entries,
    holds,
    is_ready,
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


def owners(body: dict[str, Any]) -> set[str]:
    """The uids of the owners of an object, none of which is its controller."""
    references = body["metadata"].get("ownerReferences", [])
    return {each["uid"] for each in references if not each.get("controller")}


def shared_by(*parents: dict[str, Any], **data: str) -> Any:
    wanted = set(map(uid, parents))
    return lambda body: owners(body) == wanted and (not data or holds(**data)(body))


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
        assert common["metadata"]["labels"]["ssa-operator.dev/parent-uid"] == "shared"
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
        await desk.apply(echo("b", 3))
        await desk.until(MAPS, "common", shared_by(b, replicas="3"))
        await desk.apply(echo("b", 9))
        await desk.gone(MAPS, "common")
