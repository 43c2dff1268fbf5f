"""`python -m benchmarks.growth`: the cost of more parents, and of more children of each.

Promises:
- Each size is that of `convergence`: the raw client and the operator's cold start, each on an API server of its own.
- A child's figure includes the parent's share: its status, its event, its render.
- Memory is the operator's after everything has converged. The cost of one parent is the slope between two sizes.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks import convergence, machine, plot, workload
from benchmarks.convergence import Contender, Measurement
from benchmarks.machine import Spread

SIZES = ((100, 2), (1000, 2), (10000, 2), (1000, 10), (200, 50))
"""Parents, and children of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A cold start. seconds: until the last Echo had converged, raw: those of the raw client. cpu: milliseconds of the
    operator for a child, without what a process costs before there is work. memory: MiB at its largest. applies: sent
    for a child. statuses: written for a parent. others: how many cores anything else kept busy.
    """

    parents: int
    children: int
    seconds: float
    raw: float
    cpu: float
    memory: float
    applies: float
    statuses: float
    others: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run; `machine` describes the machine at its start."""

    date: str
    machine: Mapping[str, Any]
    sizes: Sequence[Size]


async def measure(sizes: Sequence[tuple[int, int]] = SIZES) -> list[Size]:
    """Measure every size once. Raises what `convergence.measure` raises."""
    found = []
    for parents, children in sizes:
        with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
            templates = workload.write_templates(Path(folder) / "templates", children)
            rehearsed = await convergence.rehearse(templates)
            start, raw, cold = [
                await convergence.once(templates, contender, parents, rehearsed)
                for contender in (Contender.START, Contender.RAW, Contender.COLD)
            ]
        found.append(_size(parents, rehearsed.children, start, raw, cold))
    return found


def _size(parents: int, children: int, start: Measurement, raw: Measurement, cold: Measurement) -> Size:
    return Size(
        parents=parents,
        children=children,
        seconds=cold.seconds,
        raw=raw.seconds,
        cpu=round((cold.cpu - start.cpu) / (parents * children) * 1e3, 3),
        memory=cold.memory,
        applies=convergence.writes(cold, children=True) / (parents * children),
        statuses=convergence.writes(cold, children=False) / parents,
        others=max(raw.others, cold.others),
    )


_FIGURES: Mapping[str, Callable[[Size], float]] = {
    "a child, ms": lambda size: size.seconds / _objects(size) * 1e3,
    "a child, ms, raw client": lambda size: size.raw / _objects(size) * 1e3,
    "operator CPU for a child, ms": lambda size: size.cpu,
    "applies for a child": lambda size: size.applies,
    "memory, MiB": lambda size: size.memory,
    "memory for a child, KiB": lambda size: size.memory * 1024 / _objects(size),
}


def figures(sizes: Sequence[Size]) -> dict[str, dict[str, Spread]]:
    """The figures by the name of the size and of the figure."""
    return {
        f"{size.parents:,} x {size.children}": {title: Spread.of([read(size)]) for title, read in _FIGURES.items()}
        for size in sizes
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--output", type=Path, help="the JSON file to write; the plot stands beside it as SVG")
    parser.add_argument(
        "sizes", nargs="*", metavar="PARENTSxCHILDREN", help="such as 1000x2 (default: a series up to 10000x2)"
    )
    options = parser.parse_args()
    wanted = [tuple(int(number) for number in each.split("x")) for each in options.sizes]
    began, described = dt.datetime.now(dt.UTC), machine.description()
    sizes = asyncio.run(measure([(parents, children) for parents, children in wanted] or SIZES))
    result = Result(date=began.isoformat(timespec="seconds"), machine=described, sizes=sizes)
    found = figures(sizes)
    table = Table(title="Parents x children of each")
    for title in ("", *_FIGURES):
        table.add_column(title)
    for name, each in found.items():
        table.add_row(name, *(f"{spread.median:g}" for spread in each.values()))
    console = Console(width=140)
    console.print(table)
    console.print(f"Cores that were busy with something else, at most: {max(size.others for size in sizes):g}")
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
        title = f"A cold start by parents x children; {result.date[:10]}, commit {described['commit']}"
        options.output.with_suffix(".svg").write_text(plot.svg(found, tuple(_FIGURES), title))


def _objects(size: Size) -> int:
    return size.parents * size.children


if __name__ == "__main__":
    main()
