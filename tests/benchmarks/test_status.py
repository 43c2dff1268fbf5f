"""The benchmark of `status` measures what it says; how fast it is, no test judges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import workload
from ssa_operator.devcluster.cluster import STATE_DIRECTORY_VARIABLE


@pytest.mark.cluster
@pytest.mark.exhaustive
def test_status_is_compared_with_one_list_of_the_parents(tmp_path: Path) -> None:
    output = tmp_path / "results" / "status.json"
    command = [sys.executable, "-m", "benchmarks.status", "--parents=5", "--rounds=1", f"--output={output}"]
    environment = os.environ | {STATE_DIRECTORY_VARIABLE: str(tmp_path)}
    ended = subprocess.run(command, cwd=workload.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "5 Echos of 2 children" in ended.stdout
    result = json.loads(output.read_text())
    assert result["parents"] == 5
    assert all(result[name]["median"] > 0 for name in ("status", "json", "empty", "list"))
