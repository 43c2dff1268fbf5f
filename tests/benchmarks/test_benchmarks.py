"""The benchmarks run and measure what they say; how fast anything is, no test judges."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import STATE_DIRECTORY_VARIABLE
from tests.benchmarks import workload
from tests.benchmarks.machine import Spread
from tests.benchmarks.server import CONCURRENCY, in_parallel

BENCHMARKS = (sys.executable, "-m", "tests.benchmarks")


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_the_memory_of_a_parent_is_that_of_the_objects_in_the_operators_heap(tmp_path: Path) -> None:
    command = [*BENCHMARKS, "memory", "5", "20"]
    environment = os.environ | {STATE_DIRECTORY_VARIABLE: str(tmp_path)}
    ended = subprocess.run(command, cwd=workload.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "One more Echo:" in ended.stdout
    assert "ssa_operator." in ended.stdout


def test_each_benchmark_is_listed_and_an_unknown_one_is_an_error() -> None:
    listed = subprocess.run(BENCHMARKS, cwd=workload.ROOT, capture_output=True, text=True, check=True).stdout
    programs = [path for path in Path(__file__).parent.rglob("*.py") if "\ndef main(" in path.read_text()]
    names = {path.stem if path.parent == Path(__file__).parent else path.parent.name for path in programs}
    assert {line.split()[0] for line in listed.splitlines()[2:]} == names - {"__main__"}
    unknown = subprocess.run([*BENCHMARKS, "pears"], cwd=workload.ROOT, capture_output=True, text=True, check=False)
    assert (unknown.returncode, unknown.stderr) == (1, "there is no benchmark pears\n")


async def test_no_more_than_the_agreed_number_of_requests_are_under_way() -> None:
    under_way = 0
    most = 0

    async def send(item: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return -item

    assert await in_parallel(range(200), send) == [-item for item in range(200)]
    assert most == CONCURRENCY


def test_a_spread_is_smallest_median_and_largest() -> None:
    assert Spread.of([3.00004, 1, 2]) == Spread(min=1, median=2, max=3)
