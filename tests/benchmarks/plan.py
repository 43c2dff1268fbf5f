"""`python -m tests.benchmarks plan`: the time of `ssa-operator plan` beside as many dry-run applies.

Promises:
- Both send the same dry-run applies to the same API server, one after the other in each round: the ratio does not
  depend on the machine's speed of the hour.
- The time of a plan is that of a new process, from its start to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ssa_operator.kube.api.request import Request
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.rendering.folder.loaded_folders import Folder
from tests.benchmarks import machine, workload
from tests.benchmarks.bench import Bench, bench
from tests.benchmarks.machine import Spread
from tests.benchmarks.process import environment
from tests.benchmarks.server import in_parallel

NAMESPACE = "plan"

_CHANGED_IMAGE = ("inanimate/echo-server:latest", "inanimate/echo-server:other")
"""What the planned templates change in every Deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One measurement; times in seconds.

    raw: of the dry-run applies, by a client that sends requests which are ready. plan: of the plan's process.
    others: how many cores anything else on the machine kept busy meanwhile.
    """

    raw: float
    plan: float
    others: float

    @property
    def ratio(self) -> float:
        return self.plan / self.raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run; `machine` describes the machine at its start."""

    date: str
    machine: Mapping[str, Any]
    parents: int
    applies: int
    """The dry-run applies of each contender."""
    ratio: Spread
    """The time of a plan, in times of the dry-run applies."""
    rounds: Sequence[Round]


async def measure(parents: int, rounds: int) -> tuple[int, list[Round]]:
    """The number of dry-run applies, and the rounds. Raises RuntimeError if a plan is not what it should be."""
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        changed = workload.write_templates(Path(folder) / "changed")
        deployment = changed / workload.FOLDER / "deployment.yaml.j2"
        deployment.write_text(deployment.read_text().replace(*_CHANGED_IMAGE))
        async with bench(templates) as stage:
            await stage.server.create_namespace(NAMESPACE)
            _, lives = await stage.create(NAMESPACE, [f"echo-{number:05d}" for number in range(parents)])
            await in_parallel(stage.server.prepared(_applies(stage, stage.folder, lives)), stage.server.send)
            dry_runs = [_as_dry_run(each) for each in _applies(stage, workload.load_folder(changed), lives)]
            found = [await _round(stage, changed, dry_runs, parents) for _ in range(rounds)]
    return len(dry_runs), found


def _applies(stage: Bench, folder: Folder, lives: Sequence[LiveObject]) -> list[Request]:
    """The applies of all children."""
    return [each for live in lives for each in workload.applies(folder, live, stage.server.resources)]


def _as_dry_run(request: Request) -> Request:
    return replace(request, query=(*request.query, ("dryRun", "All")), dry_run=True)


async def _round(stage: Bench, templates: Path, dry_runs: Sequence[Request], parents: int) -> Round:
    prepared = stage.server.prepared(dry_runs)
    before = await stage.server.count()
    started = time.perf_counter()
    await in_parallel(prepared, stage.server.send)
    raw = time.perf_counter() - started
    planned = await _plan(stage, templates, parents)
    others = (await stage.server.count()).since(before).busy_others
    return Round(raw=round(raw, 3), plan=round(planned, 3), others=round(others, 2))


async def _plan(stage: Bench, templates: Path, parents: int) -> float:
    options = [f"--templates={templates}", f"--kubeconfig={stage.server.kubeconfig}", f"--namespace={NAMESPACE}"]
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ssa_operator", "plan", "--output=json", *options),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.pid is not None
    stage.server.operators.add(process.pid)
    out, err = await process.communicate()
    seconds = time.perf_counter() - started
    stage.server.operators.discard(process.pid)
    if process.returncode != 0:
        raise RuntimeError(f"the plan failed: {err.decode()[-2000:]}")
    found = json.loads(out)
    if (found["changed"], found["unchanged"]) != (parents, parents):
        raise RuntimeError(f"the plan changes {found['changed']} of {parents} Deployments")
    return seconds


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks plan", description=__doc__)
    parser.add_argument("--parents", type=int, default=1000, help="Echos, of two children each")
    parser.add_argument("--rounds", type=int, default=3, help="how often both are measured")
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    began, described = dt.datetime.now(dt.UTC), machine.description()
    applies, rounds = asyncio.run(measure(options.parents, options.rounds))
    result = Result(
        date=began.isoformat(timespec="seconds"),
        machine=described,
        parents=options.parents,
        applies=applies,
        ratio=Spread.of(each.ratio for each in rounds),
        rounds=rounds,
    )
    console = Console(width=120, highlight=False)
    for each in rounds:
        console.print(f"{applies} dry-run applies: {each.raw:g} s; plan: {each.plan:g} s; ratio {each.ratio:.2f}")
    console.print(f"plan of {options.parents} parents, in times of as many dry-run applies: {result.ratio}")
    console.print(f"Cores that were busy with something else, at most: {max(each.others for each in rounds):g}")
    if options.output:
        machine.write_json(options.output, result)


if __name__ == "__main__":
    main()
