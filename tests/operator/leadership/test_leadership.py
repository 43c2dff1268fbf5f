"""How an operator with leader election ends: when its Lease is released, and when it has to expire."""

from __future__ import annotations

import asyncio

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.api.leases import LeaseAccess
from ssa_operator.kube.api.transport import Transport
from ssa_operator.operator.leadership.requests import Leadership
from ssa_operator.operator.leadership.rules import LeaseTiming
from ssa_operator.operator.operator import Operator
from tests.operator.harness import PATIENCE, Desk, MakeOptions, administrator

pytestmark = pytest.mark.cluster

LEASES = "leases.coordination.k8s.io"


@pytest.mark.parametrize("cancelled", [False, True], ids=["prepared", "preparing"])
async def test_a_leader_releases_its_lease_unless_a_write_was_cancelled(
    desk: Desk, cluster: Cluster, options: MakeOptions, *, cancelled: bool
) -> None:
    fence, stop = WriteFence(), asyncio.Event()

    async def prepare() -> None:
        """Installs the CRDs, for example, when a signal stops the operator."""
        stop.set()
        if cancelled:
            await asyncio.Event().wait()

    async with (
        Client(await administrator(cluster), fence=fence) as client,
        Transport(client.credentials) as transport,
        asyncio.timeout(PATIENCE),
    ):
        access = LeaseAccess(transport, desk.namespace, "ssa-operator", timeout=5.0)
        leadership = Leadership(access, fence, LeaseTiming())
        operator = Operator(client, RESTMapper(client), options(), leadership=leadership, prepare=prepare)
        await operator.run(stop)
        assert not leadership.leads
        assert leadership.leader == ""
    lease = await desk.read(LEASES, "ssa-operator")
    assert lease["spec"]["holderIdentity"] == (leadership.identity if cancelled else "")
