"""Runs of tests: what they leave out, and a flaky test that does not fail one and is never overlooked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.checkout import ROOT

# Each of these fails the first time only, in a way of its own.
FLAKY = """\
import os
from pathlib import Path

import pytest


def first(name):
    ran = Path(name).exists()
    Path(name).touch()
    return not ran


@pytest.fixture
def opened():
    assert not first("opened"), "the port was taken"


@pytest.fixture
def closed():
    yield
    assert not first("closed"), "the port was open"


def test_call(): assert not first("call"), "the connection was lost"
def test_setup(opened): pass
def test_teardown(closed): pass
def test_process():
    if first("process"):
        os._exit(9)
def test_fine(): pass
"""


def run(folder: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").touch()
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "tests.rerun", "build/run", "-p", "xdist", "--numprocesses=1", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_tests_that_pass_the_second_time_are_listed_with_their_first_failures(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY)
    listed = (tmp_path / "build/run/flaky.txt").read_text()
    headlines = [line.split()[1] for line in listed.splitlines() if line.startswith("flaky: ")]
    failures = ("the connection was lost", "the port was taken", "the port was open", "crashed")
    assert done.returncode == 0
    assert done.stdout.endswith(listed)
    assert headlines == [f"test_it::test_{name}" for name in ("call", "setup", "teardown", "process")]
    assert [failure for failure in failures if listed.count(failure) == 0] == []
    assert "test_fine" not in (tmp_path / "build/run/second.xml").read_text()


@pytest.mark.exhaustive
def test_a_test_that_does_not_pass_the_second_time_fails_the_run_beside_flaky_ones(tmp_path: Path) -> None:
    done = run(tmp_path, f"{FLAKY}\n\ndef test_broken(): assert False\n")
    assert done.returncode == 1
    assert "test_call" in (tmp_path / "build/run/flaky.txt").read_text()
    assert "test_broken" not in (tmp_path / "build/run/flaky.txt").read_text()


@pytest.mark.exhaustive
def test_a_test_that_is_skipped_the_second_time_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, f'{FLAKY}\n\ndef test_skipped():\n    assert not first("broken")\n    pytest.skip()\n')
    assert done.returncode == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("tests", "arguments", "code"),
    [("import nowhere\n", (), 2), ("def test_it(): pass\n", ("-k", "other"), 5)],
)
def test_a_run_that_does_not_reach_its_end_fails(
    tmp_path: Path, tests: str, arguments: tuple[str, ...], code: int
) -> None:
    assert run(tmp_path, tests, *arguments).returncode == code


def test_reports_of_an_earlier_run_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "build/run").mkdir(parents=True)
    (tmp_path / "build/run/flaky.txt").touch()
    done = run(tmp_path, "def test_fine(): pass\n")
    assert done.returncode == 0
    assert not (tmp_path / "build/run/flaky.txt").exists()


FILE = """\
import pytest

def test_plain(): pass

@pytest.mark.exhaustive
def test_variant(): pass

@pytest.mark.more_cases
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", ["a", "b"])
def test_cases(size, name): pass
"""

MORE = ["test_cases[a-2]", "test_cases[b-1]", "test_cases[b-2]"]


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("marks", "selected"),
    [("not exhaustive", ["test_cases[a-1]", "test_plain"]), ("exhaustive", [*MORE, "test_variant"])],
)
def test_every_test_is_in_one_of_the_two_runs(tmp_path: Path, marks: str, selected: list[str]) -> None:
    assert collected(tmp_path, marks) == selected


def test_a_case_that_runs_alone_stays_in_its_run(tmp_path: Path) -> None:
    assert collected(tmp_path, "exhaustive", "::test_cases[b-2]") == ["test_cases[b-2]"]


def collected(folder: Path, marks: str, selection: str = "") -> list[str]:
    """The names of the tests that a run with these marks has, sorted."""
    (folder / "test_file.py").write_text(FILE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  exhaustive\n  more_cases\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.exhaustive", "--collect-only", "--quiet", "-m", marks]
    command += ["--rootdir", str(folder), f"{folder / 'test_file.py'}{selection}"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return sorted(line.partition("::")[2] for line in shown.splitlines() if "::" in line)
