"""The script of `make smoke-neon`, with a kubectl that answers as a cluster would: does it see what it has to see?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.neon.fake_ready_cluster import ROOT

KUBECTL = """#!/bin/sh
echo "$*" >> "$HERE/asked"
case "$*" in
  *"get crd"*) [ ! -e "$HERE/no-crd" ] ;;
  *"jsonpath={.data.uri}"*) printf 'postgresql://u:p@h:55433/postgres' | base64 ;;
  *"jsonpath={.status.timelineId}"*) echo abc ;;
  *"wait --for=condition=Ready"*) [ ! -e "$HERE/never-ready" ] ;;
  *"SELECT 1"*) echo 1 ;;
  *"SHOW neon.timeline_id"*) echo "$(cat "$HERE/timeline")" ;;
  *"SHOW server_version"*) echo "$(cat "$HERE/version").4" ;;
  *"SELECT value FROM kept"*) cat "$HERE/kept" ;;
esac
"""


def smoke(folder: Path, *versions: str, **facts: str) -> subprocess.CompletedProcess[str]:
    """Run the script against a cluster with these facts; an empty one is a file that is there."""
    for name, text in {"timeline": "abc", "version": "17", "kept": "here", **facts}.items():
        (folder / name.replace("_", "-")).write_text(text)
    program = folder / "kubectl"
    program.write_text(KUBECTL)
    program.chmod(0o755)
    environment = {**os.environ, "KUBECTL": str(program), "HERE": str(folder)}
    command = [str(ROOT / "tests" / "neon" / "smoke"), *versions]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_cluster_that_does_everything_right_passes(tmp_path: Path) -> None:
    done = smoke(tmp_path, "17")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("smoke-neon: passed\n")
    asked = (tmp_path / "asked").read_text().splitlines()
    # Written before the compute goes, read after.
    order = [
        next(at for at, line in enumerate(asked) if word in line) for word in ("INSERT", "delete pod", "FROM kept")
    ]
    assert order == sorted(order)
    assert "delete namespace" in asked[-1]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"no_crd": ""}, "the CRD is missing"),
        ({"never_ready": ""}, "smoke-17 is not Ready"),
        ({"timeline": "other"}, "SHOW neon.timeline_id gave 'other' and not 'abc'"),
        ({"version": "16"}, "smoke-17 is of another version"),
        ({"kept": ""}, "SELECT value FROM kept gave '' and not 'here'"),
    ],
)
def test_a_cluster_that_does_something_wrong_fails(tmp_path: Path, facts: dict[str, str], message: str) -> None:
    done = smoke(tmp_path, "17", **facts)
    assert done.returncode == 1
    assert f"smoke-neon: {message}" in done.stderr.replace("smoke-17: SHOW", "SHOW").replace(
        "smoke-17: SELECT", "SELECT"
    )


def test_without_arguments_every_version_is_tried(tmp_path: Path) -> None:
    done = smoke(tmp_path, version="14")
    assert "smoke-14: SELECT value FROM kept: here" in done.stdout
    assert "smoke-15 is of another version" in done.stderr
