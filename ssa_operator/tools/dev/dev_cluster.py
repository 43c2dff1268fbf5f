"""Starts the local cluster of `ssa-operator dev`, and stops it in the end.

Promises:
- The cluster can be used as soon as its API server is ready. The rest of its start continues meanwhile.
- A cluster that this command started is stopped at the end, even if its start was not complete.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssa_operator.devcluster import cluster as clusters
from ssa_operator.devcluster import processes
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec
from ssa_operator.devcluster.processes import Progress, ProgressCallback, ignore_progress
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError

if TYPE_CHECKING:
    from ssa_operator.devcluster.processes import Progress, ProgressCallback


@contextmanager
def show_progress() -> Iterator[ProgressCallback]:
    """Show progress on standard error while the block runs: a bar on a terminal, else a line for each new step."""
    from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = streams.console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(console.print)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=console, transient=True) as bars:
        shown: dict[str, TaskID] = {}

        def report(step: Progress) -> None:
            if not step.total:
                console.print(step.message, soft_wrap=True)
                return
            if step.message not in shown:
                shown[step.message] = bars.add_task(step.message, total=step.total)
            bars.update(shown[step.message], completed=step.done)

        yield report


class ProgressLines:
    """Prints a step when it starts, and after each tenth."""

    def __init__(self, write: Any) -> None:
        self._write = write
        self._last: tuple[str, int] | None = None

    def __call__(self, step: Progress) -> None:
        tenths = step.done * 10 // step.total if step.total else 0
        if (step.message, tenths) == self._last:
            return
        self._last = (step.message, tenths)
        self._write(f"{step.message} ({tenths * 10} %)" if step.total else step.message, soft_wrap=True)


@contextmanager
def command_errors() -> Iterator[None]:
    """Raise the errors of a local cluster as CommandError."""
    from ssa_operator.devcluster.api import AdminRequestError
    from ssa_operator.devcluster.binaries import BinariesError
    from ssa_operator.devcluster.cluster import ClusterError
    from ssa_operator.devcluster.processes import ProcessError

    try:
        yield
    except (AdminRequestError, BinariesError, ClusterError, ProcessError) as error:
        raise CommandError(str(error)) from error


@dataclass(slots=True)
class LocalCluster:
    """A cluster whose API server is ready, and the rest of its start."""

    cluster: Cluster

    _start: asyncio.Task[Cluster]

    step: Progress | None = None
    """The current step of the start. None if it is complete."""

    @property
    def note(self) -> str:
        """One line about the rest of the start for the user. Empty if it is complete."""
        if self.step is None:
            return ""
        percent = f", {self.step.done * 100 // self.step.total} %" if self.step.total else ""
        return f"No pods yet: {self.step.message}{percent}"

    @property
    def kubeconfig_command(self) -> str:
        """The command that makes a shell use the cluster."""
        return f"export KUBECONFIG={shlex.quote(str(self.cluster.kubeconfig))}"

    @property
    def outage(self) -> str:
        """Why the control plane is gone, '' while its processes run. Nothing starts it again."""
        directory = self.cluster.directory
        if processes.is_alive(directory):
            return ""
        failure = processes.describe_failure(directory) or "its processes were ended"
        return failure.partition("; the end of ")[0]

    async def complete(self) -> None:
        """Waits for the rest of the start. Raises CommandError."""
        with command_errors():
            await asyncio.shield(self._start)
        self.step = None


@asynccontextmanager
async def local_cluster(
    name: str, report: ProgressCallback = ignore_progress, *, complete: bool = True
) -> AsyncIterator[LocalCluster]:
    """A running cluster. It is stopped in the end if it was started here. Raises CommandError.

    Unless it has to be complete, its API server is ready. A display shows the progress up to then; `report` gets the
    rest of it.
    """
    loop = asyncio.get_running_loop()
    usable: asyncio.Future[Cluster] = loop.create_future()
    local: LocalCluster | None = None

    def follow(progress: Progress) -> None:
        if local is None:
            show(progress)
        else:
            local.step = progress
            report(progress)

    # The progress display ends before the screen starts, because a terminal shows one live display at a time.
    with command_errors(), show_progress() as show:
        start = asyncio.create_task(clusters.start(ClusterSpec(name=name), follow, usable.set_result))
        try:
            await asyncio.wait([start] if complete else [start, usable], return_when=asyncio.FIRST_COMPLETED)
            cluster = await start if start.done() else usable.result()
        except BaseException:
            await _cancel(start)
            raise
    local = LocalCluster(cluster, start)
    if not start.done():
        local.step = Progress(message="Starting the other components")
    try:
        yield local
    finally:
        await _cancel(start)
        if cluster.group is not None:
            await cluster.stop()


async def _cancel(start: asyncio.Task[Cluster]) -> None:
    """Ends a start that goes on, with its processes."""
    start.cancel()
    await asyncio.wait([start])
    if not start.cancelled():
        start.exception()  # `complete` has raised it, or the caller's own error comes first
