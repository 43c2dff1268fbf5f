"""Shows the start of a local cluster, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
