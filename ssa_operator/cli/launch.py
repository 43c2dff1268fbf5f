"""Bringing the local control plane up with its progress shown: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ssa_operator.cli.failure import CommandError
from ssa_operator.devcluster.binaries import BinariesError
from ssa_operator.devcluster.cluster import Cluster, ClusterError, ClusterSpec, start, status, stop_attached
from ssa_operator.devcluster.processes import ProcessError
from ssa_operator.devcluster.progress import Progress as Step
