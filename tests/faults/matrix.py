"""Plays cells at the same time on one control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from tests.faults.cell import Injection, Outcome, run_cell
from tests.faults.story import CRD, STACKS, Phase, Spec, stack, write_templates
from tests.operator.harness import Desk, administrator

PARALLEL = 8
"""Cells that are played at the same time. Most of their time they wait."""


async def play(
    cluster: Cluster,
    folder: Path,
    cells: Iterable[tuple[Injection, Phase]],
    report: Callable[[Outcome], None],
    parallel: int = PARALLEL,
) -> list[Outcome]:
    """The outcomes of these cells, in their order. `report` gets each one at its end."""
    limit = asyncio.Semaphore(parallel)
    write_templates(folder / "templates")

    async def one(client: Client, injection: Injection, phase: Phase) -> Outcome:
        async with limit:
            outcome = await run_cell(cluster, client, folder, injection, phase)
        report(outcome)
        return outcome

    async with _prepared(cluster) as client, asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(client, injection, phase)) for injection, phase in cells]
    return [task.result() for task in tasks]


@asynccontextmanager
async def _prepared(cluster: Cluster) -> AsyncIterator[Client]:
    """The administrator's client of a cluster that has the story's CRD, and whose garbage collector knows it."""
    async with Client(await administrator(cluster)) as client:
        desk = Desk(client, cluster.kubeconfig, "default")
        try:
            await desk.define(CRD)
            await until_collected(desk)
        finally:
            await desk.close()
        yield client


async def until_collected(desk: Desk) -> None:
    """The garbage collector discovers a new CRD within half a minute. No cell is about that."""
    owner = stack("collected", Spec())
    await desk.apply(owner)
    live = await desk.read(STACKS, "collected")
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": "Stack",
        "name": "collected",
        "uid": live["metadata"]["uid"],
    }
    metadata = {"name": "collected", "ownerReferences": [reference]}
    await desk.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await desk.delete(STACKS, "collected")
    await desk.gone("configmaps", "collected")
