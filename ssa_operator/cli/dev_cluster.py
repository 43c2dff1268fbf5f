"""Starts the local cluster of `ssa-operator dev`, and stops it in the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ssa_operator.cli.cluster import command_errors, show_progress
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start


@asynccontextmanager
async def local_cluster(name: str) -> AsyncIterator[Cluster]:
    """A running cluster. It is stopped in the end if it was started here. Raises CommandError."""
    # The progress display ends before the live tree starts, because a terminal shows one live display at a time.
    with command_errors(), show_progress() as report:
        cluster = await start(ClusterSpec(name=name), report)
    try:
        yield cluster
    finally:
        if cluster.group is not None:
            await cluster.stop()
