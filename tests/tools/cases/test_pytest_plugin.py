"""Golden cases as items of pytest, in a session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.cases.test_golden_cases import PARENT, TEMPLATE, project, update


def run_pytest(root: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of pytest with the plugin, in a folder."""
    plugin = ("-p", "ssa_operator.tools.cases.pytest_plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugin, *arguments]
    # The entry point of an installation would load the plugin twice.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # Where CI is set, pytest repeats the failure in its summary.
    environment = {name: value for name, value in environment.items() if name not in ("CI", "BUILD_NUMBER")}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a case that passes."""
    update(project(tmp_path))
    (tmp_path / "pytest.ini").write_text("[pytest]\nssa_operator_cases = true\n")
    return tmp_path


@pytest.mark.exhaustive
def test_each_case_is_an_item_whose_failure_is_the_diff(root: Path) -> None:
    code, out = run_pytest(root, "-v")
    assert code == 0
    assert "tests/echoes.example.com/one/parent.yaml::one PASSED" in out
    other = root / "tests" / "echoes.example.com" / "two"
    other.mkdir()
    (other / "parent.yaml").write_text(PARENT)
    (root / "tests" / "echoes.example.com" / "one" / "unknown.yaml").write_text("")
    code, out = run_pytest(root)
    assert code == 1
    assert "golden case echoes.example.com/two" in out
    assert "\n+kind: ConfigMap\n" in out
    assert "unknown.yaml:1: is no file of a case" in out
    assert "Traceback" not in out
    assert "2 failed" in out
    (root / "templates" / "echoes.example.com" / "a.yaml.j2").write_text(TEMPLATE + "{% if %}\n")
    assert run_pytest(root, "-k", "two")[1].count("a.yaml.j2:5: ") == 1


def test_without_the_option_nothing_is_collected(root: Path) -> None:
    (root / "pytest.ini").write_text("[pytest]\n")
    code, out = run_pytest(root)
    assert (code, "no tests ran" in out) == (5, True)
