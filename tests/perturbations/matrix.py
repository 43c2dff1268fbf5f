"""All perturbations of the stories, and many runs at the same time on one control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.operator import crd_installation
from tests.faults.matrix import until_collected
from tests.faults.story import CRD
from tests.operator.harness import Desk, administrator
from tests.perturbations.perturbation import Crash, Kind, Lag, Late, OldView, Perturbation, Unobserved
from tests.perturbations.play import Outcome, Reference, play, reference
from tests.perturbations.record import Record
from tests.perturbations.states import converting
from tests.perturbations.story import Story
from tests.perturbations.table import Row

PARALLEL = 10
"""Runs at the same time. Most of their time they wait."""


def perturbations(story: Story, known: Reference, kind: Kind) -> list[Perturbation]:
    """Every perturbation of a kind that a story can have."""
    match kind:
        case Kind.CRASH:
            return [Crash(point, after) for point in known.writes for after in (False, True)]
        case Kind.STALE:
            steps, resources = range(len(story.steps)), ("", *story.resources)
            return [each(step, resource) for each in (Lag, OldView) for step in steps for resource in resources]
        case Kind.UNOBSERVED:
            return [each(point) for each in (Late, Unobserved) for point in known.events]


@asynccontextmanager
async def prepared(cluster: Cluster, chosen: Sequence[Story]) -> AsyncIterator[Client]:
    """The administrator's client of a cluster that has all CRDs of the stories, and whose garbage collector knows
    them.
    """
    async with Client(await administrator(cluster)) as client, AsyncExitStack() as stack:
        for folder in sorted({story.crds for story in chosen if story.crds is not None}):
            await crd_installation.install(client, crd_installation.load_crds(folder))
        desk = Desk(client, cluster.kubeconfig, "default")
        try:
            await desk.define(CRD)
            await until_collected(desk)
        finally:
            await desk.close()
        for story in chosen:
            if story.converts:
                await stack.enter_async_context(converting(client, story.templates))
        yield client


async def play_story(
    story: Story,
    cluster: Cluster,
    client: Client,
    folder: Path,
    kinds: Sequence[Kind],
    limit: asyncio.Semaphore,
    record: Record,
    report: Callable[[Outcome], None] = lambda _: None,
    choose: Callable[[Sequence[Perturbation]], Sequence[Perturbation]] = lambda every: every,
) -> list[Row]:
    """The outcomes of a story's perturbations; `choose` picks some of a kind. `report` gets each outcome at its end.

    A point that the record has is not played again.
    """
    async with limit:
        known = await reference(story, cluster, client, folder)

    async def one(perturbation: Perturbation) -> Outcome:
        if (outcome := record.find(story.name, perturbation)) is None:
            async with limit:
                outcome = await play(story, cluster, client, folder, known, perturbation)
            record.add(outcome)
        report(outcome)
        return outcome

    rows = []
    for kind in kinds:
        outcomes = await asyncio.gather(*map(one, choose(perturbations(story, known, kind))))
        rows.append(Row(story=story.name, kind=kind, outcomes=outcomes))
    return rows
