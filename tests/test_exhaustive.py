"""Tests of tests/exhaustive.py: what a run leaves out, on a file of tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
