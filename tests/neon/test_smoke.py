"""The script tests/neon/smoke, with a kubectl that answers as a cluster would: does it see what it has to see?"""

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
  *"get pods"*) echo "pod/old" ;;
  *"jsonpath={.data.uri}"*) printf 'postgresql://u:p@h:55433/postgres' | base64 ;;
  *"jsonpath={.status.timelineId}"*) echo abc ;;
  *"wait --for=condition=Ready"*) [ ! -e "$HERE/never-ready" ] ;;
  *"wait --for=jsonpath={.status.readyReplicas}"*) [ ! -e "$HERE/two-safekeepers" ] ;;
  *"SELECT 1"*)
    # The first login fails: the password is set a moment after the pod is ready.
    if [ -e "$HERE/asked-before" ]; then echo 1; else touch "$HERE/asked-before"; exit 2; fi ;;
  *"SHOW neon.timeline_id"*) cat "$HERE/timeline" ;;
  *"SHOW server_version"*) echo "$(cat "$HERE/version").4" ;;
  *"current_user"*) echo app@shop ;;
  *"CREATE EXTENSION"*) [ ! -e "$HERE/no-extension" ] ;;
  *"FROM pg_extension"*) echo pg_trgm ;;
  *"SELECT value FROM kept"*) cat "$HERE/kept" ;;
  *"SELECT count(*) FROM kept"*) head -n 1 "$HERE/counts"; sed -i 1d "$HERE/counts" ;;
esac
"""


def smoke(folder: Path, *versions: str, **facts: str) -> subprocess.CompletedProcess[str]:
    """Run the script against a cluster with these facts; an empty one is a file that is there."""
    counts = "2\n2\n3\n4\n" * 4
    for name, text in {"timeline": "abc", "version": "17", "kept": "here", "counts": counts, **facts}.items():
        (folder / name.replace("_", "-")).write_text(text)
    for name, text in {"kubectl": KUBECTL, "sleep": "#!/bin/sh\n"}.items():
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)
    environment = {**os.environ, "KUBECTL": str(folder / "kubectl"), "HERE": str(folder)}
    environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    command = [str(ROOT / "tests" / "neon" / "smoke"), *versions]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_cluster_that_does_everything_right_passes(tmp_path: Path) -> None:
    done = smoke(tmp_path, "17")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("smoke-neon: passed\n")
    asked = (tmp_path / "asked").read_text().splitlines()
    # Written before a component is lost, read after; a branch after all that.
    words: tuple[str, ...] = (
        "INSERT INTO kept VALUES ('here')",
        "delete pod/old",
        "SELECT value FROM kept",
        "--replicas=2",
    )
    words += ("VALUES ('with two')", "suspend-", "on the branch", "after the branch", "delete neonbranch")
    order = [next(at for at, line in enumerate(asked) if word in line) for word in words]
    assert order == sorted(order)
    assert "delete namespace" in asked[-1]


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"no_crd": ""}, "the CRDs are missing: kubectl apply --server-side -f crds/"),
        ({"never_ready": ""}, "smoke-17 is not Ready"),
        ({"timeline": "other"}, "SHOW neon.timeline_id gave 'other' and not 'abc'"),
        ({"version": "16"}, "smoke-17 is of another version"),
        ({"kept": ""}, "SELECT value FROM kept gave '' and not 'here'"),
        ({"no_extension": ""}, "smoke-17: CREATE EXTENSION failed"),
        ({"two_safekeepers": ""}, "smoke-17: the third safekeeper does not come back"),
        # The branch lacks the rows of its database, sees those that came later, or its own are in the database.
        ({"counts": "2\n0\n"}, "SELECT count(*) FROM kept gave '0' and not '2'"),
        ({"counts": "2\n2\n5\n"}, "SELECT count(*) FROM kept gave '5' and not '3'"),
        ({"counts": "2\n2\n3\n5\n"}, "SELECT count(*) FROM kept gave '5' and not '4'"),
    ],
)
def test_a_cluster_that_does_something_wrong_fails(tmp_path: Path, facts: dict[str, str], message: str) -> None:
    done = smoke(tmp_path, "17", **facts)
    assert done.returncode == 1
    assert any(line.startswith("smoke-neon: ") and line.endswith(message) for line in done.stderr.splitlines())


def test_without_arguments_every_version_is_tried(tmp_path: Path) -> None:
    done = smoke(tmp_path, version="14")
    assert "smoke-14-compute: SELECT value FROM kept: here" in done.stdout
    assert "smoke-15 is of another version" in done.stderr
