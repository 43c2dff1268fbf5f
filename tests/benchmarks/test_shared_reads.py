"""The benchmark of shared reads measures what it says; how fast anything is, no test judges."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks import workload


def test_many_parents_are_compared_with_one(tmp_path: Path) -> None:
    output = tmp_path / "results" / "reads.json"
    small = ("--parents=5", "--size=2000", "--changes=2", "--objects=20")
    command = [sys.executable, "-m", "benchmarks.shared_reads", *small, f"--output={output}"]
    ended = subprocess.run(command, cwd=workload.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "times the memory of one" in ended.stdout
    result = json.loads(output.read_text())
    assert (result["one"]["parents"], result["many"]["parents"], result["objects"]["objects"]) == (1, 5, 20)
    assert all(result[name][figure] > 0 for name in ("one", "many") for figure in ("memory", "cpu"))
    assert all(result[name][figure] > 0 for name in ("few_objects", "objects") for figure in ("counted", "read"))
