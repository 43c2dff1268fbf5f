"""Bringing the local control plane up for `dev`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ssa_operator.cli.cluster import explained, reporting
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start, status, stop_attached


@asynccontextmanager
async def launched(name: str) -> AsyncIterator[Cluster]:
    """A running cluster; one that is started for this is stopped in the end. Raises CommandError."""
    with explained():
        found = await status(name)
        with reporting() as report:
            cluster = await start(ClusterSpec(name=name), report)
    try:
        yield cluster
    finally:
        if found.state != "running":
            await stop_attached(cluster)
