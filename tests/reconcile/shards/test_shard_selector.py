"""Parents that the API server filters by `shardSelector`: Kubernetes 1.36 with the alpha gate ShardedListAndWatch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.shards import Shard
from ssa_operator.operator import crd_installation as crds
from ssa_operator.operator.operator_options import Options
from tests.devcluster.audit import audited
from tests.devcluster.waiting import until
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    ROOT,
    Desk,
    administrator,
    echo,
    holds,
    map_template,
    only,
    operating,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PARENTS = 60
MAPS = "configmaps"


@pytest.fixture
async def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """A control plane of the test's own, with the gate."""
    monkeypatch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path / "state"))
    spec = ClusterSpec(name="gated", audit=True, feature_gates=("ShardedListAndWatch",), nodes=0)
    running = await start(spec)
    try:
        yield running
    finally:
        await running.stop()


@pytest.fixture
async def gated_desk(gated: Cluster) -> AsyncIterator[Desk]:
    async with Client(await administrator(gated)) as client:
        await crds.install(client, crds.load_crds(ROOT / "crds"))
        desk = Desk(client, gated.kubeconfig, "default")
        try:
            yield desk
        finally:
            await desk.close()


async def test_the_api_server_and_the_operator_give_a_parent_to_the_same_shard(
    gated_desk: Desk, gated: Cluster, templates: Path
) -> None:
    desk = gated_desk
    await desk.create(*(echo(f"web-{number}") for number in range(PARENTS)))
    resource = await desk.mapper.resource_by_name(ECHOES)
    everything, _ = await desk.client.list(resource, "default")
    assert len(everything) == PARENTS
    for count in (1, 2, 3, 4, 7, 256):
        for index in range(count):
            shard = Shard(index, count)
            listed, _ = await desk.client.list_scope(Scope(resource, "default", shard_selector=shard.shard_selector))
            assert {live.uid for live in listed} == {live.uid for live in everything if shard.owns(live.uid)}

    only(templates, base=map_template("base", n="spec.replicas"))
    shards = (Shard(0, 2), Shard(1, 2))
    first, second = (Options(templates=(templates,), resync_rate=0.0, listen=None, shard=shard) for shard in shards)
    async with operating(desk.client, first) as one, operating(desk.client, second) as two:
        await until(lambda: one.operator.ready and two.operator.ready, PATIENCE)
        folders = [running.operator.folders[ECHOES] for running in (one, two)]
        await until(lambda: sum(folder.ready_count for folder in folders) == PARENTS, PATIENCE)
        for shard, folder in zip(shards, folders, strict=True):
            assert {live.uid for live in folder} == {live.uid for live in everything if shard.owns(live.uid)}
        # The watches go on: changes, new parents and deletions arrive.
        await desk.create(*(echo(f"late-{number}") for number in range(8)))
        await asyncio.gather(*(desk.patch("echo", f"web-{number}", spec={"replicas": 3}) for number in range(8)))
        for number in range(8):
            await desk.ready(ECHOES, f"late-{number}")
            await desk.until(MAPS, f"web-{number}-base", holds(n="3"))
        await desk.kubectl("delete", "echo", "--all", "--wait=false")
        await until(lambda: not any(len(folder) for folder in folders), PATIENCE)

    watched = [
        parse_qs(urlsplit(event["requestURI"]).query)
        for event in audited(gated)
        if event["verb"] == "watch" and event["objectRef"]["resource"] == "echoes"
    ]
    sent = {query["shardSelector"][0] for query in watched if "shardSelector" in query}
    assert sent == {shard.shard_selector for shard in shards}
