"""`python -m tests.faults`: plays the fault matrix and writes its table into docs/reliability.md."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import ssa_operator
from ssa_operator.devcluster.cluster import ClusterSpec, start
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from tests.faults.cell import Injection, Outcome
from tests.faults.injections import Restart, injections, restarts
from tests.faults.matrix import PARALLEL, play
from tests.faults.story import Phase
from tests.faults.table import replaced_table, table
from tests.operator.harness import ROOT

PAGE = ROOT / "docs" / "reliability.md"

Cells = list[tuple[Injection, Phase]]


def show(outcome: Outcome) -> None:
    """Print one cell."""
    failures = f" FAILED: {'; '.join(outcome.failures)}" if outcome.failures else ""
    figures = f"{outcome.seconds:6.1f} s, {outcome.requests:4} requests in {outcome.held:.0f} s"
    print(f"{outcome.fault:36} {outcome.phase.value:14} {figures}{failures}", flush=True)


async def run(faults: Iterable[str], parallel: int, loads: list[float]) -> list[Outcome]:
    """The outcomes of all cells, or of those of some faults. `loads` gets the machine's load at the end of each."""
    chosen = frozenset(faults)

    def report(outcome: Outcome) -> None:
        loads.append(os.getloadavg()[0])
        show(outcome)

    shared = [
        (injection, phase)
        for injection in injections()
        if not chosen or str(injection) in chosen
        for phase in Phase
        if injection.applies_to(phase)
    ]
    outcomes = []
    for cells, limit in _rounds(shared, chosen, parallel):
        with tempfile.TemporaryDirectory(prefix="ssa-operator-faults-") as folder:
            os.environ["SSA_OPERATOR_STATE_DIR"] = f"{folder}/state"
            cluster = await start(ClusterSpec(name="faults"))
            try:
                outcomes += await play(cluster, Path(folder), cells, report, limit)
            finally:
                await cluster.stop()
    return outcomes


def _rounds(shared: Cells, chosen: frozenset[str], parallel: int) -> Iterator[tuple[Cells, int]]:
    """The cells of each control plane, and how many are played at the same time. Each restart has one of its own."""
    if shared:
        yield shared, parallel
    for name, older in restarts():
        if not chosen or name in chosen:
            restart = Restart(name, len(Phase), older=older)
            yield [(restart, phase) for phase in Phase], len(Phase)


def main() -> None:
    """Play the matrix. Exits with 1 if the operator broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--fault", action="append", default=[], help="play only this fault, and write nothing")
    parser.add_argument("--parallel", type=int, default=PARALLEL, help="cells at the same time")
    arguments = parser.parse_args()
    names = [*map(str, injections()), *(name for name, _ in restarts())]
    if unknown := [fault for fault in arguments.fault if fault not in names]:
        parser.error(f"there is no fault {unknown[0]!r}; the faults are: {'; '.join(names)}")
    loads: list[float] = []
    outcomes = asyncio.run(run(arguments.fault, arguments.parallel, loads))
    broken = [outcome for outcome in outcomes if outcome.failures]
    print(f"{len(outcomes)} cells, {len(broken)} failed")
    if not arguments.fault:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        machine = f"{os.cpu_count()} CPUs with a load of {min(loads):.0f} to {max(loads):.0f}"
        head = f"ssa-operator {ssa_operator.__version__}, Kubernetes {KUBERNETES_VERSION}, {today}, {machine}"
        PAGE.write_text(replaced_table(PAGE.read_text(), table(outcomes, head)))
    if broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
