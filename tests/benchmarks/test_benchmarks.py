"""The benchmarks run and measure what they say; how fast anything is, no test judges."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import rendering, workload
from benchmarks.machine import Spread
from benchmarks.server import CONCURRENCY, in_parallel
from ssa_operator.devcluster.cluster import STATE_DIRECTORY_VARIABLE

ECHOS = 20
CONTENDERS = {"raw", "client", "cold", "warm", "start"}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What `python -m benchmarks` writes down, of a small run."""
    folder = tmp_path_factory.mktemp("benchmarks")
    output = folder / "results" / "small.json"
    environment = os.environ | {STATE_DIRECTORY_VARIABLE: str(folder)}
    sizes = [f"--parents={ECHOS}", "--rounds=1", "--shared"]
    command = [sys.executable, "-m", "benchmarks", *sizes, f"--output={output}"]
    ended = subprocess.run(command, cwd=workload.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "share of raw" in ended.stdout
    return json.loads(output.read_text())


def is_spread(value: Any) -> bool:
    return set(value) == {"min", "median", "max"} and value["min"] <= value["median"] <= value["max"]


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_a_result_says_what_it_was_measured_with(result: Any) -> None:
    assert result["machine"]["cores"] >= 1
    assert result["machine"]["python"]
    assert result["convergence"]["kubernetes"].startswith("v1.")
    assert {"aiohttp", "msgspec"} <= set(result["machine"]["packages"])


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_every_contender_is_measured_and_compared_with_the_raw_client(result: Any) -> None:
    convergence = result["convergence"]
    assert convergence["parents"] == ECHOS
    assert convergence["children"] == 2
    assert {each["contender"] for each in convergence["rounds"][0]} == CONTENDERS
    assert set(convergence["seconds"]) == CONTENDERS
    assert set(convergence["share"]) == {"client", "cold", "warm"}
    assert all(is_spread(spread) and spread["min"] > 0 for spread in convergence["share"].values())
    assert all(is_spread(spread) for spread in convergence["cpu_per_parent"].values())


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_a_converging_echo_costs_one_apply_a_child_and_at_most_two_status_writes(result: Any) -> None:
    convergence = result["convergence"]
    assert convergence["applies_per_child"] == {"cold": 1.0, "warm": 1.0}
    assert all(1 <= writes <= 2 for writes in convergence["status_writes_per_parent"].values())


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_the_raw_client_sends_the_writes_of_an_operator_and_no_others(result: Any) -> None:
    raw = next(each for each in result["convergence"]["rounds"][0] if each["contender"] == "raw")
    assert raw["writes"] == {
        "APPLY deployments.apps": ECHOS,
        "APPLY echoes.example.com/status": ECHOS,
        "APPLY services": ECHOS,
    }


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_the_memory_of_a_parent_is_that_of_the_objects_in_the_operators_heap(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.memory", "5", "20"]
    environment = os.environ | {STATE_DIRECTORY_VARIABLE: str(tmp_path)}
    ended = subprocess.run(command, cwd=workload.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "One more Echo:" in ended.stdout
    assert "ssa_operator." in ended.stdout


@pytest.mark.exhaustive  # compiles a program in Go
def test_rendering_is_measured_beside_jinja_text_and_libyaml(tmp_path: Path) -> None:
    templates = workload.write_templates(tmp_path / "templates")
    measured = rendering.measure(templates, parents=5, rounds=3)
    assert (measured.parents, measured.manifests) == (5, 2)
    assert measured.render.min > 0
    assert measured.ratio.min <= measured.ratio.max


def test_rendering_is_not_measured_where_the_two_ways_give_other_manifests(tmp_path: Path) -> None:
    templates = workload.write_templates(tmp_path / "templates")
    # A string to YAML 1.2, true to libyaml's YAML 1.1.
    (templates / workload.FOLDER / "service.yaml.j2").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  answer: yes\n"
    )
    with pytest.raises(ValueError, match="don't give the same manifests"):
        rendering.measure(templates, parents=5, rounds=3)


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
