"""`ssa-operator cluster`, as its user types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ssa_operator.cli.run.cluster import app
from ssa_operator.devcluster import processes
from ssa_operator.devcluster.processes import Progress
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools.dev.dev_cluster import show_progress


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path))
    return tmp_path / "clusters"


def test_the_status_of_no_cluster_is_stopped_and_exit_code_1() -> None:
    result = CliRunner().invoke(app, ["status", "--output=json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["state"] == "stopped"
    assert "there is no such cluster" in CliRunner().invoke(app, ["status"]).stdout


def test_the_kubeconfig_of_no_cluster_is_an_error_that_says_how_to_start_one() -> None:
    error = CliRunner().invoke(app, ["kubeconfig", "--name=mine"]).exception
    assert isinstance(error, CommandError)
    assert "ssa-operator cluster start --name mine" in str(error)


def test_stopping_no_cluster_is_no_error() -> None:
    result = CliRunner().invoke(app, ["stop"])
    assert result.exit_code == 0
    assert "does not exist" in result.stderr


@pytest.mark.parametrize("command", ["start", "stop", "status", "kubeconfig"])
def test_an_impossible_name_is_one_line(command: str) -> None:
    error = CliRunner().invoke(app, [command, "--name=../x"]).exception
    assert isinstance(error, CommandError)
    assert "lower-case letters" in str(error)


@pytest.mark.parametrize("command", ["start", "stop", "status", "kubeconfig"])
def test_the_help_of_every_command_has_an_example(command: str) -> None:
    assert "Example: " in CliRunner().invoke(app, [command, "--help"]).stdout


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    error = CliRunner().invoke(app, ["status"]).exception
    assert isinstance(error, CommandError)
    assert "ssa-operator[dev]" in str(error)


def test_without_a_terminal_a_step_is_one_line_and_its_tenths(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as report:
        for done in range(100):
            report(Progress(message="Compiling", done=done, total=100))
        report(Progress(message="Starting"))
    assert capsys.readouterr().err.splitlines() == [
        *(f"Compiling ({done} %)" for done in range(0, 100, 10)),
        "Starting",
    ]


@pytest.mark.cluster
def test_a_cluster_is_started_found_and_stopped(state: Path) -> None:
    runner = CliRunner()
    started = runner.invoke(app, ["start", "--audit"])
    try:
        assert started.exit_code == 0
        kubeconfig = state / "default" / "kubeconfig"
        assert started.stdout == f"export KUBECONFIG={kubeconfig}\n"
        assert runner.invoke(app, ["kubeconfig"]).stdout == f"{kubeconfig}\n"
        status = json.loads(runner.invoke(app, ["status", "--output=json"]).stdout)
        assert status["state"] == "running"
        assert Path(status["auditLog"]).is_file()
        assert len(status["pids"]) == 5
    finally:
        stopped = runner.invoke(app, ["stop"])
    assert stopped.exit_code == 0
    assert not processes.is_alive(state / "default")
    assert not (state / "default").exists()
