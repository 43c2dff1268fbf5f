"""`python -m benchmarks`: runs the benchmarks, prints the figures, and writes them as JSON."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks import convergence, machine, rendering, workload
from benchmarks.convergence import Convergence
from benchmarks.rendering import Rendering


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run; `machine` describes the machine at its start."""

    date: str
    machine: Mapping[str, Any]
    rendering: Rendering
    convergence: Convergence


def run(parents: int, rounds: int, *, shared: bool) -> Result:
    """Run all benchmarks. `shared` is that of `convergence.measure`. Raises what they raise."""
    began, described = dt.datetime.now(dt.UTC), machine.description()
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        rendered = rendering.measure(templates, parents=parents, rounds=max(rounds, 3))
        converged = asyncio.run(convergence.measure(templates, parents=parents, rounds=rounds, shared=shared))
    return Result(
        date=began.isoformat(timespec="seconds"), machine=described, rendering=rendered, convergence=converged
    )


def show(result: Result, console: Console) -> None:
    """Print the figures; three figures are the median and, in brackets, the smallest and the largest."""
    figures, costs = result.convergence, result.rendering
    table = Table(title=f"{figures.parents} Echos of {figures.children} children, {len(figures.rounds)} rounds")
    for title in (
        "",
        "seconds",
        "share of raw",
        "CPU, ms an Echo",
        "children/s",
        "applies a child",
        "statuses an Echo",
    ):
        table.add_column(title)
    for name, seconds in figures.seconds.items():
        spreads = (seconds, figures.share.get(name), figures.cpu_per_parent.get(name))
        speed = figures.children_per_second.get(name)
        counts = (figures.applies_per_child.get(name), figures.status_writes_per_parent.get(name))
        table.add_row(
            name,
            *("" if spread is None else str(spread) for spread in spreads),
            "" if speed is None else f"{speed.median:.0f}",
            *("" if count is None else f"{count:g}" for count in counts),
        )
    console.print(table)
    console.print(f"Cores that were busy with something else: {figures.others}")
    console.print(f"Rendering a manifest, µs of CPU: {costs.render}, ready to be sent {costs.prepared}")
    console.print(f"Jinja text through CSafeLoader: {costs.text}; ratio {costs.ratio}")
    go = "left out: go is not installed" if costs.go is None else f"{costs.go}; ratio {costs.ratio_to_go}"
    console.print(f"Go's text/template through sigs.k8s.io/yaml: {go}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--parents", type=int, default=1000, help="Echos of each contender")
    parser.add_argument("--rounds", type=int, default=5, help="how often each contender runs")
    parser.add_argument(
        "--shared", action="store_true", help="one API server for all contenders: sooner, and less fair"
    )
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    result = run(options.parents, options.rounds, shared=options.shared)
    show(result, Console(width=120))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


if __name__ == "__main__":
    main()
