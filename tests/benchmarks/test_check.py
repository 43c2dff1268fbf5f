"""The benchmark of `check` measures what it says; how fast it is, no test judges."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import workload


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
