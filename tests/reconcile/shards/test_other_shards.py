"""What a shard knows of the parents of other shards, by lists of the real API server that are held up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import PAGE, Client
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.shards import Shard
from ssa_operator.reconcile.shards.other_shards import REMEMBERED_SECONDS, OtherShards
from tests.kube.fakes import StillClock
from tests.operator.harness import ECHOES, Desk, Operate, administrator, echo, uid

pytestmark = pytest.mark.cluster


class HeldClient(Client):
    """A client whose lists wait before they are sent."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.listing = asyncio.Event()
        self.released = asyncio.Event()

    async def list_scope(
        self,
        scope: Scope,
        limit: int = PAGE,
        keep: Callable[[LiveObject], bool] | None = None,
        reduce: Callable[[LiveObject], LiveObject] | None = None,
        after_page: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[list[LiveObject], str]:
        self.listing.set()
        await self.released.wait()
        return await super().list_scope(scope, limit, keep, reduce, after_page)


@pytest.fixture
async def held(cluster: Cluster) -> AsyncIterator[HeldClient]:
    async with HeldClient(await administrator(cluster)) as client:
        yield client


async def test_a_parent_that_exists_is_not_forgotten_while_another_one_is_asked_for(
    desk: Desk, held: HeldClient, operate: Operate
) -> None:
    await desk.create(echo("web"))
    parent = uid(await desk.read(ECHOES, "web"))
    clock = StillClock()
    async with operate() as running:
        await desk.ready(ECHOES, "web")
        others = OtherShards(held, running.operator.folders, Shard(0, 1), clock.monotonic)
        held.released.set()
        assert (await others.existing({parent})).keys() == {parent}
        held.released.clear()
        held.listing.clear()
        clock.time += REMEMBERED_SECONDS - 1
        first = asyncio.create_task(others.existing({parent, "gone"}))
        await held.listing.wait()
        clock.time += 2
        second = asyncio.create_task(others.existing({"gone, too"}))
        await asyncio.sleep(0)
        held.released.set()
        assert (await first).keys() == {parent}
        assert not await second
