"""The benchmarks run and measure what they say, and the soak judges growth; how fast anything is, no test judges."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.devcluster.cluster import STATE_DIRECTORY_VARIABLE
from tests.benchmarks import workload
from tests.benchmarks.machine import Spread
from tests.benchmarks.server import CONCURRENCY, in_parallel
from tests.benchmarks.trend import growth, tenths
from tests.docs.browser import BROWSER

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


@pytest.mark.slow
def test_check_is_compared_with_plain_jinja(tmp_path: Path) -> None:
    output = tmp_path / "results" / "check.json"
    command = [sys.executable, "-m", "tests.benchmarks", "check", "--templates=10", "--rounds=1", f"--output={output}"]
    ended = subprocess.run(command, cwd=workload.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "10 templates" in ended.stdout
    result = json.loads(output.read_text())
    assert result["templates"] == 10
    assert all(result[name]["median"] > 0 for name in ("check", "check_cpu", "plain", "plain_cpu"))


@pytest.mark.exhaustive
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")
def test_many_children_and_pages_are_compared_with_few(tmp_path: Path) -> None:
    output = tmp_path / "results" / "web.json"
    options = ["--children=40", "--parents=40", "--pages=2", "--seconds=1", "--rounds=1", f"--output={output}"]
    command = [sys.executable, "-m", "tests.benchmarks", "web", *options]
    ended = subprocess.run(command, cwd=workload.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "40 children, 40 parents, 2 open pages" in ended.stdout
    result = json.loads(output.read_text())
    assert result["many"]["elements"] > result["few"]["elements"] > 0
    assert result["search"]["median"] > 0


def test_a_figure_that_stays_does_not_grow_however_much_it_varies() -> None:
    chance = random.Random(1)
    samples = [(float(number), 100.0 + chance.choice((-3.0, 0.0, 3.0))) for number in range(60)]
    assert abs(growth(samples)) < 1


def test_a_figure_that_grows_slowly_is_seen_through_its_noise() -> None:
    chance = random.Random(1)
    samples = [(float(number), 100.0 + number / 10 + chance.choice((-1.0, 0.0, 1.0))) for number in range(60)]
    assert 5 < growth(samples) < 7


def test_one_high_sample_is_no_growth() -> None:
    assert growth([(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 50.0)]) == 0


def test_a_step_that_stays_is_growth() -> None:
    assert growth([(float(number), 10.0 if number < 30 else 20.0) for number in range(60)]) > 5


def test_too_few_samples_show_no_growth() -> None:
    assert growth([]) == 0
    assert growth([(0.0, 1.0)]) == 0


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=95))
def test_the_tenths_are_medians_of_parts_that_have_every_value(values: list[float]) -> None:
    found = tenths(values)
    assert len(found) == min(10, len(values))
    assert min(values) <= min(found) <= max(found) <= max(values)


def test_the_tenths_follow_the_time() -> None:
    assert tenths([float(number) for number in range(30)]) == [1.0, 4.0, 7.0, 10.0, 13.0, 16.0, 19.0, 22.0, 25.0, 28.0]
    assert tenths([3.0, 1.0]) == [3.0, 1.0]
