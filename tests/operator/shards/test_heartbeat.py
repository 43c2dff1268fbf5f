"""The heartbeat of a shard: the Lease that it renews and releases, and another process that holds it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.api.leases import LeaseAccess
from ssa_operator.objects.lease import Lease
from ssa_operator.objects.shards import Shard
from ssa_operator.operator.leadership.requests import Leadership
from ssa_operator.operator.leadership.rules import LeaseTiming
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.shards.requests import ShardLeases
from tests.devcluster.waiting import until
from tests.operator.harness import PATIENCE, Desk, administrator

pytestmark = pytest.mark.cluster

LEASES = "leases.coordination.k8s.io"
LEASE = "ssa-operator-shard-0"
TIMING = LeaseTiming(lease_duration=1.0, renew_deadline=0.9, retry_period=0.2)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_second_process_of_a_shard_is_named_and_takes_over_what_the_first_releases(
    desk: Desk, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def shard() -> asyncio.Task[None]:
        leases = ShardLeases(credentials, desk.namespace, Shard(0, 2), Metrics(), timing=TIMING)
        return asyncio.create_task(leases.run())

    credentials = await administrator(cluster)
    first = shard()
    holder = (await desk.until(LEASES, LEASE, lambda lease: bool(lease["spec"]["holderIdentity"])))["spec"]
    second = shard()
    with caplog.at_level(logging.WARNING):
        await until(lambda: "another process is shard 0, too" in caplog.text, PATIENCE)
    assert f"{holder['holderIdentity']} renews Lease" in caplog.text
    await _ended(first)
    spec = (await desk.until(LEASES, LEASE, lambda lease: lease["spec"]["leaseTransitions"] == 1))["spec"]
    assert spec["holderIdentity"] != holder["holderIdentity"]
    # A process that ends before it has the answer to its write does not know that it holds the Lease.
    await desk.until(LEASES, LEASE, lambda lease: lease["spec"]["renewTime"] != spec["renewTime"])
    await _ended(second)
    assert (await desk.read(LEASES, LEASE))["spec"]["holderIdentity"] == ""


class UnansweredRenewals(LeaseAccess):
    """Stores each renewal, and does not return."""

    renewed = False

    async def write(self, lease: Lease) -> Lease:
        stored = await super().write(lease)
        if lease.resource_version and lease.holder:
            self.renewed = True
            await asyncio.Event().wait()
        return stored


async def test_a_lease_is_released_even_if_a_renewal_of_it_was_cancelled(desk: Desk, cluster: Cluster) -> None:
    async with Client(await administrator(cluster)) as client:
        access = UnansweredRenewals(client, desk.namespace, LEASE, timeout=PATIENCE)
        leadership = Leadership(access, WriteFence(), LeaseTiming(retry_period=0.1))
        running = asyncio.create_task(leadership.run())
        await until(lambda: access.renewed, PATIENCE)
        await _ended(running)
        await leadership.release()
    assert (await desk.read(LEASES, LEASE))["spec"]["holderIdentity"] == ""
