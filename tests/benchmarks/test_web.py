"""The benchmark of the web view measures what it says; how fast it is, no test judges."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import workload
from tests.docs.browser import BROWSER


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
