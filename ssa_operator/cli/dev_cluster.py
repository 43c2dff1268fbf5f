"""Bringing the local control plane up for `dev`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ssa_operator.cli.cluster import explained, reporting
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start


@asynccontextmanager
async def launched(name: str) -> AsyncIterator[Cluster]:
    """A running cluster; one that is started for this is stopped in the end. Raises CommandError."""
    # The progress ends when the cluster stands: the terminal has room for one live picture.
    with explained(), reporting() as report:
        cluster = await start(ClusterSpec(name=name), report)
    try:
        yield cluster
    finally:
        if cluster.group is not None:
            await cluster.stop()
