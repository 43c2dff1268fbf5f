"""`python -m tests.benchmarks memory`: what one more parent costs in memory, and which objects it consists of.

Promises:
- Each size runs in a namespace of its own, with an operator of its own that watches only that namespace.
- Resyncs are off. With --resyncs, each parent had some, so that the next one can be repeated without a render.
- Memory is that of the operator after everything has converged, without what the allocator holds free. The cost of a
  parent is the slope between the first size and the last one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from tests.benchmarks import heap, machine, workload
from tests.benchmarks.bench import Bench, bench
from tests.benchmarks.process import Process, environment

SIZES = (1000, 10000)
INTERVAL = 10
"""Seconds between two resyncs of a parent, where there are any."""

SHOWN = 20
"""Types of objects that are printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """An operator with so many parents. Memory and its peak are in MiB; cpu is in seconds."""

    parents: int
    peak: float
    cpu: float
    resident: float
    types: Mapping[str, tuple[int, int]]
    """The number of objects of each type, and their bytes."""


async def measure(sizes: Sequence[int], apply: str, *, resyncs: bool = False) -> list[Size]:
    """Measure every size; `apply` is the option of `run`."""
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        async with bench(templates) as stage:
            return [await _measure(stage, templates, parents, apply, resyncs=resyncs) for parents in sizes]


async def _measure(stage: Bench, templates: Path, parents: int, apply: str, *, resyncs: bool) -> Size:
    namespace, census = f"memory-{parents}", templates.with_name(f"{parents}.json")
    await stage.server.create_namespace(namespace)
    await stage.create(namespace, [f"echo-{number:05}" for number in range(parents)])
    command = [sys.executable, "-m", "tests.benchmarks.heap", "run", f"--templates={templates}", f"--apply={apply}"]
    command += [f"--kubeconfig={stage.server.kubeconfig}", "--listen=", f"--namespace={namespace}"]
    command += [f"--interval={INTERVAL}s", "--resync-rate=1000"] if resyncs else ["--resync-rate=0"]
    variables = environment() | {heap.CENSUS: str(census), "PYTHONPATH": str(workload.ROOT)}
    async with (
        stage.watched(namespace) as progress,
        Process(command, variables, templates.with_name(f"{namespace}.log"), stage.server.operators) as operator,
    ):
        await operator.until(progress.reach(parents), 3600)
        # Resyncs write without an end.
        await (asyncio.sleep(6 * INTERVAL) if resyncs else stage.server.settled())
        cpu, peak = machine.used(operator.pid), machine.peak_memory(operator.pid)
        os.kill(operator.pid, signal.SIGPROF)
        await operator.until(_written(census))
        found = msgspec.json.decode(await asyncio.to_thread(census.read_bytes))
    return Size(parents=parents, peak=peak, cpu=cpu, resident=found["resident"], types=found["types"])


async def _written(census: Path) -> None:
    while not await asyncio.to_thread(census.exists):  # noqa: ASYNC110 - the census is a file
        await asyncio.sleep(0.2)


def show(sizes: Sequence[Size], console: Console) -> None:
    """Print the figures, and the slope from the first size to the last one."""
    for size in sizes:
        console.print(
            f"{size.parents} Echos of 2 children: {size.resident:.1f} MiB, at most {size.peak:.1f} MiB, "
            f"{size.cpu:.1f} s of CPU"
        )
    first, last = sizes[0], sizes[-1]
    more = last.parents - first.parents
    if more <= 0:
        return
    resident, peak = (last.resident - first.resident) * 1024 / more, (last.peak - first.peak) * 1024 / more
    console.print(f"One more Echo: {resident:.1f} KiB, {peak:.1f} KiB of the peak, and of that")
    slopes = {
        name: [(now - before) / more for now, before in zip(figures, first.types.get(name, (0, 0)), strict=True)]
        for name, figures in last.types.items()
    }
    table = Table("objects", "bytes", "type")
    for name, (count, size_of) in sorted(slopes.items(), key=lambda entry: -entry[1][1])[:SHOWN]:
        table.add_row(f"{count:.1f}", f"{size_of:.0f}", name)
    console.print(table)
    console.print(f"together {sum(each for _, each in slopes.values()) / 1024:.1f} KiB")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks memory", description=__doc__)
    parser.add_argument("--apply", choices=("always", "changed"), default="always", help="the option of run")
    parser.add_argument("--resyncs", action="store_true", help="measure after some resyncs")
    parser.add_argument("sizes", nargs="*", type=int, help="numbers of Echos (default: 1000 10000)")
    options = parser.parse_args()
    show(asyncio.run(measure(options.sizes or SIZES, options.apply, resyncs=options.resyncs)), Console(width=100))


if __name__ == "__main__":
    main()
