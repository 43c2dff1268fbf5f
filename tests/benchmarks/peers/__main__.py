"""`python -m tests.benchmarks peers`: the same job done by kube-rs, controller-runtime, kopf and a raw client."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks import machine
from tests.benchmarks.machine import Spread
from tests.benchmarks.peers import scenarios
from tests.benchmarks.peers.contenders import CONTENDERS, RAW, prepare
from tests.benchmarks.peers.measured_cluster import Phase, Sizes
from tests.benchmarks.peers.scenarios import COUNTED, Measurement
from tests.benchmarks.process import StuckError


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run; `machine` describes the machine at its start. missing: omitted contenders and reasons.
    stuck: contenders that failed in a round, which omits them.

    figures: of each contender, over all rounds; the rounds stand in `rounds`.
    """

    date: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    missing: Mapping[str, str]
    stuck: Mapping[str, str]
    sizes: Sizes
    others: Spread
    figures: Mapping[str, Mapping[str, Spread]]
    rounds: Sequence[Sequence[Measurement]]


def _latency(phase: str, figure: str, kind: str = "latency") -> Callable[[Measurement], float | None]:
    def read(made: Measurement) -> float | None:
        found = made.phases.get(phase)
        latency = getattr(found, kind) if found is not None else None
        return None if latency is None else float(getattr(latency, figure))

    return read


def _of(phase: str, read: Callable[[Phase], float | None]) -> Callable[[Measurement], float | None]:
    return lambda made: read(made.phases[phase]) if phase in made.phases else None


FIGURES: Mapping[str, Callable[[Measurement], float | None]] = {
    "cold: children, s": _of("cold", lambda phase: phase.seconds),
    "cold: statuses, s": _of("cold", lambda phase: phase.statuses),
    "cold: CPU operator, s": _of("cold", lambda phase: phase.cpu),
    "cold: CPU API server, s": _of("cold", lambda phase: phase.apiserver_cpu),
    "cold: requests": _of("cold", lambda phase: sum(phase.requests.values())),
    "reaction p50, ms": _latency("reaction", "p50"),
    "reaction p99, ms": _latency("reaction", "p99"),
    "drift p50, ms": _latency("drift", "p50"),
    "drift p99, ms": _latency("drift", "p99"),
    "burst: children, s": _of("burst", lambda phase: phase.seconds),
    "burst: statuses, s": _of("burst", lambda phase: phase.statuses),
    "burst: CPU operator, s": _of("burst", lambda phase: phase.cpu),
    "burst: CPU API server, s": _of("burst", lambda phase: phase.apiserver_cpu),
    "burst: a user's patch p50, ms": _latency("burst", "p50", "probes"),
    "burst: a user's patch max, ms": _latency("burst", "max", "probes"),
    "idle: requests a minute": _of("idle", lambda phase: sum(phase.requests.values()) * 60 / phase.seconds),
    "idle: CPU operator, s a minute": _of("idle", lambda phase: phase.cpu * 60 / phase.seconds),
    "idle: CPU API server, s a minute": _of("idle", lambda phase: phase.apiserver_cpu * 60 / phase.seconds),
    "cold: memory, MiB": _of("cold", lambda phase: phase.memory),
    "memory at the end, MiB": _of("idle", lambda phase: phase.memory),
    "memory at its peak, MiB": lambda made: made.peak or None,
    "restart: first reaction, s": _of("restart", lambda phase: phase.first),
    "restart: last of five, s": _of("restart", lambda phase: phase.seconds),
    "requests a patch": _of("patch", lambda phase: sum(phase.requests.values()) / COUNTED),
    "requests a drift": _of("repair", lambda phase: sum(phase.requests.values()) / COUNTED),
}


async def run(sizes: Sizes, names: Sequence[str], rounds: int, console: Console) -> Result:
    """Run all scenarios with each of these contenders in each round, in an order that changes with the round."""
    began, described = dt.datetime.now(dt.UTC), machine.description()
    done: list[list[Measurement]] = []
    stuck: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        scratch = Path(folder)
        contenders, missing = prepare(names, scratch)
        for name, why in missing.items():
            console.print(f"{name} is left out: {why}")
        by_name = {each.name: each for each in contenders}
        present = [name for name in names if name == RAW or name in by_name]
        for turn in range(rounds):
            measured = []
            for position in range(len(present)):
                name = present[(turn + position) % len(present)]
                console.print(f"round {turn + 1}: {name}", style="dim")
                try:
                    measured.append(await scenarios.measure(by_name.get(name), sizes, scratch))
                except StuckError as error:
                    # The results of the others are kept.
                    console.print(f"{name}: {error}")
                    stuck[name] = error.fault
            done.append(measured)
    if not any(done):
        raise RuntimeError(f"there is nothing to compare: {missing | stuck}")
    rounds_of = {name: [made for each in done for made in each if made.contender == name] for name in present}
    return Result(
        date=began.isoformat(timespec="seconds"),
        machine=described,
        versions={each.name: each.version for each in contenders},
        missing=missing,
        stuck=stuck,
        sizes=sizes,
        others=Spread.of(phase.others for each in done for made in each for phase in made.phases.values()),
        figures={name: _figures(measured) for name, measured in rounds_of.items()},
        rounds=done,
    )


def _figures(made: Sequence[Measurement]) -> dict[str, Spread]:
    found = {title: [value for each in made if (value := read(each)) is not None] for title, read in FIGURES.items()}
    return {title: Spread.of(values) for title, values in found.items() if values}


def show(result: Result, console: Console) -> None:
    """Print the medians, with the spread where there were several rounds."""
    table = Table(title=f"{result.sizes.parents} Echos, {len(result.rounds)} rounds: median (smallest to largest)")
    table.add_column("")
    for name in result.figures:
        table.add_column(name)
    for title in FIGURES:
        spreads = [figures.get(title) for figures in result.figures.values()]
        several = len(result.rounds) > 1
        table.add_row(
            title, *("" if each is None else str(each) if several else f"{each.median:g}" for each in spreads)
        )
    console.print(table)
    load = result.machine["load"]
    console.print(f"Cores that were busy with something else: {result.others}; load at the beginning: {load}")
    if result.others.median > 0.1:
        console.print("The machine was busy with something else: compare within a round, and trust no single figure.")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks peers", description=__doc__)
    parser.add_argument("--parents", type=int, default=1000, help="Echos")
    parser.add_argument("--samples", type=int, default=100, help="single patches, and drifts")
    parser.add_argument("--idle", type=float, default=60, help="seconds of the idle phase")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender runs")
    parser.add_argument("--only-cold", action="store_true", help="measure the cold start alone")
    parser.add_argument("--small", action="store_true", help="100 Echos, 20 patches, 10 idle seconds, one round")
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    known = (RAW, *CONTENDERS)
    parser.add_argument("contenders", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; default: all")
    options = parser.parse_args()
    unknown = [name for name in options.contenders if name not in known]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    sizes = Sizes(parents=options.parents, samples=options.samples, idle=options.idle, only_cold=options.only_cold)
    if options.small:
        sizes = Sizes(parents=100, samples=20, idle=10)
    names = options.contenders or list(known)
    result = asyncio.run(run(sizes, names, 1 if options.small else options.rounds, Console(stderr=True)))
    show(result, Console(width=None if sys.stdout.isatty() else 200))
    if options.output:
        machine.write_json(options.output, result)


if __name__ == "__main__":
    main()
