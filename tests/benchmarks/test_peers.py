"""The comparison with other operators runs and measures what it says; how fast anybody is, no test judges."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import STATE_DIRECTORY_VARIABLE
from ssa_operator.objects.live_object import LiveObject
from tests.benchmarks import workload
from tests.benchmarks.peers import contenders, job
from tests.benchmarks.peers.measured_cluster import Latency
from tests.benchmarks.peers.observations import Observations
from tests.benchmarks.process import Process, StuckError
from tests.devcluster.waiting import until


def deployment(generation: int) -> LiveObject:
    metadata = {"name": "echo", "namespace": job.NAMESPACE, "generation": generation}
    return LiveObject.of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})


def test_a_reaction_is_seen_when_the_child_has_a_newer_generation_and_not_before() -> None:
    async def watch() -> None:
        observations = Observations()
        observations.see(None, deployment(1))
        seen = asyncio.ensure_future(observations.newer((job.DEPLOYMENT, "echo"), 1))
        observations.see(deployment(1), deployment(1))
        await asyncio.sleep(0)
        assert not seen.done()
        observations.see(deployment(1), deployment(2))
        assert await seen == observations.times[job.DEPLOYMENT, "echo"]
        assert await observations.newer((job.DEPLOYMENT, "echo"), 1) == observations.times[job.DEPLOYMENT, "echo"]

    asyncio.run(watch())


def test_a_latency_is_told_in_milliseconds() -> None:
    assert Latency.of([0.001 * number for number in range(1, 102)]) == Latency(p50=51.0, p99=100.0, max=101.0)
    assert Latency.of([0.5]) == Latency(p50=500.0, p99=500.0, max=500.0)


def test_every_peer_says_its_version(tmp_path: Path) -> None:
    (own,), missing = contenders.prepare(["raw", "ssa-operator-changed"], tmp_path)
    assert not missing
    assert own.version
    command, environment = own.start(tmp_path / "kubeconfig", resyncs=False)
    assert "--apply=changed" in command
    assert "--resync-rate=0" in command
    assert environment["KUBECONFIG"] == str(tmp_path / "kubeconfig")


def test_a_peer_whose_tools_are_missing_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    present, missing = contenders.prepare(["kube-rs", "controller-runtime-x1"], tmp_path)
    assert present == []
    assert missing == {"kube-rs": "cargo is not installed", "controller-runtime-x1": "go is not installed"}


def test_an_operator_that_does_not_do_its_job_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    async def wait() -> None:
        command = [sys.executable, "-c", "import signal; print('thinking', flush=True); signal.pause()"]
        log = tmp_path / "log"
        async with Process(command, {}, log, set()) as running:
            await until(lambda: log.exists() and log.read_text() != "")
            await running.until(asyncio.Event().wait(), patience=0.0)

    with pytest.raises(StuckError, match=r"(?s)has not got there in 0 s, and has \d+ MiB.*thinking"):
        asyncio.run(wait())


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What `python -m tests.benchmarks peers` writes down, of a run with next to nothing to do."""
    folder = tmp_path_factory.mktemp("peers")
    output = folder / "small.json"
    environment = os.environ | {STATE_DIRECTORY_VARIABLE: str(folder)}
    sizes = ["--parents=30", "--samples=5", "--idle=1", "--rounds=1"]
    sizes += [f"--output={output}", "raw", "ssa-operator-changed"]
    command = [sys.executable, "-m", "tests.benchmarks", "peers", *sizes]
    ended = subprocess.run(command, cwd=workload.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(output.read_text())


def writes(result: Any, phase: str) -> dict[str, int]:
    """What the operator sent in a phase, without the Events, which are told now and then."""
    (made,) = (each for each in result["rounds"][0] if each["contender"] == "ssa-operator-changed")
    return {what: count for what, count in made["phases"][phase]["requests"].items() if " events" not in what}


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_a_users_patch_costs_one_apply_and_one_status_write_and_a_drift_one_apply(result: Any) -> None:
    assert writes(result, "patch") == {
        "APPLY deployments.apps": 20,
        "APPLY echoes.bench.example.com/status": 20,
    }
    assert writes(result, "repair") == {"APPLY deployments.apps": 20}


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_an_operator_that_applies_what_changed_sends_nothing_while_nothing_happens(result: Any) -> None:
    assert writes(result, "idle") == {}
    assert set(result["figures"]) == {"raw", "ssa-operator-changed"}
