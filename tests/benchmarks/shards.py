"""`python -m tests.benchmarks shards`: how many shards spread parents, and what each of them costs, beside one process.

Promises:
- The parents and children are those of `convergence`. The Echos exist before the operators start, and each way runs on
  an API server of its own.
- The parents of a shard are counted by the bucket labels of the children that it created.
- Memory is that of each process after everything has converged, and at its largest.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import BUCKET_LABEL, PARENT_UID_LABEL
from ssa_operator.objects.shards import Shard
from tests.benchmarks import machine, workload
from tests.benchmarks.bench import Bench, bench

NAMESPACE = "shards"
_DEPLOYMENT = GroupKind("apps", "Deployment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One operator. `shard` is '' for the one without shards; memory and peak are in MiB, cpu is in seconds."""

    shard: str
    parents: int
    memory: float
    peak: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """All parents, reconciled in one way. seconds: from the start of the processes until the last Echo had converged.
    others: how many cores anything else kept busy.
    """

    seconds: float
    others: float
    processes: tuple[Process, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run; `machine` describes the machine at its start."""

    date: str
    machine: Mapping[str, Any]
    parents: int
    ways: tuple[Way, ...]


async def measure(templates: Path, parents: int, count: int) -> Way:
    """Reconcile the parents by `count` shards, or by one process without shards if it is 0."""
    shards = tuple(Shard(index, count) for index in range(count))
    async with bench(templates) as stage, AsyncExitStack() as stack:
        await stage.server.create_namespace(NAMESPACE)
        await stage.create(NAMESPACE, [f"echo-{number:05}" for number in range(parents)])
        progress = await stack.enter_async_context(stage.watched(NAMESPACE))
        before, started = await stage.server.count(), time.perf_counter()
        operators = [
            await stack.enter_async_context(stage.operator(NAMESPACE, *options, log=f"shard-{number}"))
            for number, options in enumerate([[f"--shard={shard}"] for shard in shards] or [[]])
        ]
        await operators[0].until(progress.reach(parents))
        counted = (await stage.server.settled()).since(before)
        memory = [machine.memory(operator.pid) for operator in operators]
        shares = await _shares(stage, shards) if shards else [parents]
        await stack.aclose()
    return Way(
        seconds=round(max(progress.times.values()) - started, 2),
        others=round(counted.busy_others, 2),
        processes=tuple(
            Process(
                shard=str(shards[number]) if shards else "",
                parents=shares[number],
                memory=round(memory[number], 1),
                peak=round(operator.memory, 1),
                cpu=round(operator.cpu, 2),
            )
            for number, operator in enumerate(operators)
        ),
    )


async def _shares(stage: Bench, shards: tuple[Shard, ...]) -> list[int]:
    """How many parents each shard has, by the labels of their Deployments."""
    found, _ = await stage.server.client.list(stage.server.resources[_DEPLOYMENT], NAMESPACE, PARENT_UID_LABEL)
    counts = Counter(int(live.metadata.labels[BUCKET_LABEL], 16) for live in found)
    return [sum(counts[bucket] for bucket in shard.buckets) for shard in shards]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks shards", description=__doc__)
    parser.add_argument("--parents", type=int, default=5000, help="Echos, of two children each")
    parser.add_argument("--shards", type=int, default=4, help="how many operators share them")
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    began, described = dt.datetime.now(dt.UTC), machine.description()
    ways = []
    for count in (0, options.shards):
        with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
            templates = workload.write_templates(Path(folder) / "templates")
            ways.append(asyncio.run(measure(templates, options.parents, count)))
    result = Result(
        date=began.isoformat(timespec="seconds"), machine=described, parents=options.parents, ways=tuple(ways)
    )
    table = Table(title=f"{result.parents} Echos of 2 children")
    for title in ("shard", "parents", "memory, MiB", "at its largest, MiB", "CPU, s", "all converged, s"):
        table.add_column(title)
    for way in ways:
        for each in way.processes:
            seconds = f"{way.seconds:g}" if each is way.processes[0] else ""
            figures = (f"{each.memory:g}", f"{each.peak:g}", f"{each.cpu:g}")
            table.add_row(each.shard or "none", str(each.parents), *figures, seconds)
    console = Console(width=120)
    console.print(table)
    console.print(f"Cores that were busy with something else, at most: {max(way.others for way in ways):g}")
    if options.output:
        machine.write_json(options.output, result)


if __name__ == "__main__":
    main()
