"""The order of reconciles when many parents wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.controller.harness import ECHOES, Desk, Operate, echo, is_ready, map_template, only, version
from tests.devcluster.audit import own_requests
from tests.devcluster.waiting import until

pytestmark = pytest.mark.cluster


async def test_the_children_of_all_parents_come_before_the_first_status(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, map=map_template("map", word="name"))
    names = ("a", "b", "c")
    for name in names:
        await desk.apply(echo(name))
    async with operate(workers=1):
        parents = [await desk.until(ECHOES, name, is_ready) for name in names]
    children = [await desk.read("configmaps", f"{name}-map") for name in names]
    assert max(map(version, children)) < min(map(version, parents))


@pytest.mark.slow
async def test_changed_parents_go_before_parents_that_are_only_resynced(
    desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    only(
        templates,
        first=map_template("first", word="name"),
        second=map_template("second", number="spec.replicas"),
        third=map_template("third", word="name"),
    )
    async with operate():
        await desk.apply_until_ready(echo("web"))
        await desk.apply_until_ready(echo("web", 2))
        await until(lambda: len(applied(cluster, desk)) == 6)
    assert applied(cluster, desk)[3] == "web-second"


def applied(cluster: Cluster, desk: Desk) -> list[str]:
    """The names of the ConfigMaps that the operator applied, in the order in which the API server got them."""
    found = [
        (event["requestReceivedTimestamp"], event["objectRef"]["name"])
        for event in own_requests(cluster, desk.namespace)
        if (event["verb"], event["objectRef"]["resource"]) == ("patch", "configmaps")
    ]
    return [name for _, name in sorted(found)]
