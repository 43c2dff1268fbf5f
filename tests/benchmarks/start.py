"""`python -m tests.benchmarks start`: from the start of a process of `ssa-operator run` to its first reaction.

Promises:
- All parents and children exist. One parent changed while no operator ran; the reaction is the change of its child.
- Each round starts every program once, in turn, so that all of them meet the same machine.
- The CPU is the process's own until the reaction. The import's is that of a `run` whose templates folder does not
  exist, which it finds after its imports, less that of bare Python, the least of IMPORTS each round.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from tests.benchmarks import machine, workload
from tests.benchmarks.bench import Bench, bench
from tests.benchmarks.machine import Spread
from tests.benchmarks.process import Process, environment, measured

NAMESPACE, CHANGED = "start", "echo-00000"
IMPORTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The figures of one program, in seconds."""

    reaction: Spread
    """From the start of the process to the change of the child."""
    cpu: Spread
    """Of the process, until then."""
    imported: Spread
    """CPU of importing the modules of `run`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run."""

    date: str
    machine: Mapping[str, Any]
    parents: int
    programs: Mapping[str, Start]


async def measure(programs: Sequence[Path], parents: int, rounds: int) -> dict[str, Start]:
    """Measure on an API server of its own. Raises what `bench` and the operator's process raise."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        async with bench(templates) as stage:
            await stage.server.create_namespace(NAMESPACE)
            await stage.create(NAMESPACE, [f"echo-{number:05}" for number in range(parents)])
            async with stage.watched(NAMESPACE) as progress, stage.operator(NAMESPACE) as operator:
                await operator.until(progress.reach(parents))
            for turn in range(rounds + 1):
                for number, program in enumerate(programs):
                    name = str(number)
                    process = _operator(stage, program, templates, Path(folder) / f"bytecode-{name}")
                    seconds, cpu = await _reaction(stage, process, replicas=20 + turn * len(programs) + number)
                    found[name, "reaction"].append(seconds)
                    found[name, "cpu"].append(cpu)
                    found[name, "imported"].append(await asyncio.to_thread(_imported, program))
    # The first round compiles modules.
    return {
        str(number): Start(
            **{figure: Spread.of(found[str(number), figure][1:]) for figure in ("reaction", "cpu", "imported")}
        )
        for number in range(len(programs))
    }


def _operator(stage: Bench, program: Path, templates: Path, bytecode: Path) -> Process:
    """`run` without resyncs, and with its HTTP server, as users run it."""
    options = [f"--templates={templates}", f"--kubeconfig={stage.server.kubeconfig}", f"--namespace={NAMESPACE}"]
    command = [str(program), "run", *options, "--resync-rate=0", "--listen=127.0.0.1:0"]
    log = templates.with_name(f"{bytecode.name}.log")
    return Process(command, environment() | {"PYTHONPYCACHEPREFIX": str(bytecode)}, log, stage.server.operators)


async def _reaction(stage: Bench, process: Process, replicas: int) -> tuple[float, float]:
    """Change a parent, then start the process: the seconds until its child changed, and those of the process's CPU."""
    client, resources = stage.server.client, stage.server.resources
    patch = encode({"spec": {"replicas": replicas}})
    await client.send(calls.merge_patch(resources[workload.ECHO], NAMESPACE, CHANGED, patch))
    async with _child(stage, replicas) as changed:
        began = time.perf_counter()
        async with process as running:
            await running.until(changed.wait())
            return time.perf_counter() - began, machine.used(running.pid)


@asynccontextmanager
async def _child(stage: Bench, replicas: int) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the Deployment of the changed parent has so many replicas."""
    changed, cache = asyncio.Event(), Cache()

    def see(_: LiveObject | None, live: LiveObject | None) -> None:
        if live is not None and live.body["spec"]["replicas"] == replicas:
            changed.set()

    cache.listen(see)
    scope = calls.Scope(stage.server.resources[GroupKind("apps", "Deployment")], NAMESPACE, name=CHANGED)
    reflector = Reflector(stage.server.client, scope, cache)
    task = asyncio.create_task(reflector.run())
    try:
        await reflector.synced_or_unavailable()
        yield changed
    finally:
        task.cancel()
        await asyncio.wait([task])


def _imported(program: Path) -> float:
    def least(*command: str | Path, code: int) -> float:
        return min(measured(list(map(str, command)), code)[1] for _ in range(IMPORTS))

    bare = least(program.with_name("python"), "-c", "pass", code=0)
    return least(program, "run", "--templates=/absent", code=2) - bare


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks start", description=__doc__)
    parser.add_argument("--parents", type=int, default=1000, help="Echos, of two children each")
    parser.add_argument("--rounds", type=int, default=7, help="how often each program starts")
    parser.add_argument(
        "--beside",
        type=Path,
        action="append",
        default=[],
        help="another ssa-operator program, for example of a former commit",
    )
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    programs = [Path(sys.executable).with_name("ssa-operator"), *options.beside]
    began, described = dt.datetime.now(dt.UTC), machine.description()
    figures = asyncio.run(measure(programs, options.parents, options.rounds))
    result = Result(
        date=began.isoformat(timespec="seconds"), machine=described, parents=options.parents, programs=figures
    )
    table = Table(title=f"{result.parents} Echos of 2 children, {options.rounds} rounds: seconds")
    for title in ("", "first reaction", "CPU until then", "CPU of the import"):
        table.add_column(title)
    for name, start in result.programs.items():
        table.add_row(
            "this one" if name == "0" else f"--beside {name}", *map(str, (start.reaction, start.cpu, start.imported))
        )
    Console(width=120).print(table)
    if options.output:
        machine.write_json(options.output, result)


if __name__ == "__main__":
    main()
