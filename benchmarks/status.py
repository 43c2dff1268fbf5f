"""`python -m benchmarks.status`: the time of `ssa-operator status` over many parents.

Promises:
- The parents and children are those of `convergence`, made by the operator, which has ended before the measurement.
- The time is that of the whole process, its start included. It is compared with one list of the same parents by a
  client that is connected already, and with the same command in a namespace without parents.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks import machine, workload
from benchmarks.bench import Bench, bench
from benchmarks.machine import Spread
from benchmarks.process import measured
from ssa_operator.kube.api.request import Scope

NAMESPACE, EMPTY = "status", "empty"
_COMMANDS = (("status", NAMESPACE, ()), ("json", NAMESPACE, ("--output=json",)), ("empty", EMPTY, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run. The figures are seconds, of the clock and of CPU."""

    date: str
    machine: Mapping[str, Any]
    parents: int
    status: Spread
    status_cpu: Spread
    json: Spread
    """`status --output json`."""
    json_cpu: Spread
    empty: Spread
    """`status` in a namespace without parents."""
    empty_cpu: Spread
    list: Spread
    """One list of the parents."""

    @property
    def ratio(self) -> float:
        """How many lists of the parents a `status` takes."""
        return round(self.status.median / self.list.median, 2)


async def measure(parents: int, rounds: int) -> dict[str, Spread]:
    """Measure on an API server of its own. Raises what `bench` and the operator's process raise."""
    found: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        async with bench(templates) as stage:
            for namespace in (NAMESPACE, EMPTY):
                await stage.server.create_namespace(namespace)
            await stage.create(NAMESPACE, [f"echo-{number:05}" for number in range(parents)])
            async with stage.watched(NAMESPACE) as progress, stage.operator(NAMESPACE) as operator:
                await operator.until(progress.reach(parents))
            for _ in range(rounds + 1):
                for name, namespace, options in _COMMANDS:
                    seconds, cpu = await _status(stage, templates, namespace, *options)
                    found[name].append(seconds)
                    found[f"{name}_cpu"].append(cpu)
                started = time.perf_counter()
                await stage.server.client.list_scope(Scope(stage.server.resources[workload.ECHO], NAMESPACE))
                found["list"].append(time.perf_counter() - started)
    # The first round compiles modules and fills the API server's caches.
    return {name: Spread.of(seconds[1:]) for name, seconds in found.items()}


async def _status(stage: Bench, templates: Path, namespace: str, *options: str) -> tuple[float, float]:
    """The seconds of one process, and those of its CPU. Raises RuntimeError if it fails."""
    target = [f"--templates={templates}", f"--kubeconfig={stage.server.kubeconfig}", f"--namespace={namespace}"]
    return await asyncio.to_thread(measured, [sys.executable, "-m", "ssa_operator", "status", *target, *options])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.status", description=__doc__)
    parser.add_argument("--parents", type=int, default=1000, help="Echos, of two children each")
    parser.add_argument("--rounds", type=int, default=5, help="how often each command runs")
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    began, described = dt.datetime.now(dt.UTC), machine.description()
    figures = asyncio.run(measure(options.parents, options.rounds))
    result = Result(date=began.isoformat(timespec="seconds"), machine=described, parents=options.parents, **figures)
    table = Table(title=f"{result.parents} Echos of 2 children, {options.rounds} rounds: seconds")
    for title in ("", "seconds", "CPU"):
        table.add_column(title)
    table.add_row("status", str(result.status), str(result.status_cpu))
    table.add_row("status --output json", str(result.json), str(result.json_cpu))
    table.add_row("status without parents", str(result.empty), str(result.empty_cpu))
    table.add_row("one list of the parents", str(result.list), "")
    table.add_row("lists a status", str(result.ratio), "")
    Console(width=120).print(table)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


if __name__ == "__main__":
    main()
