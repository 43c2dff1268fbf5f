"""The workflows of the repository are valid, and run only actions that nobody can change."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.packaging.checkout import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
_PINNED = re.compile(r"uses: (?:\./\S+|[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_each_action_is_pinned_by_its_commit(workflow: Path) -> None:
    used = re.findall(r"uses: .*$", workflow.read_text(), re.MULTILINE)
    assert used
    assert [line for line in used if not _PINNED.fullmatch(line)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_may_only_read_unless_it_says_what_it_writes(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}


def test_a_release_states_where_its_files_come_from() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]
    for name in ("wheel", "image", "chart"):
        assert jobs[name]["permissions"]["attestations"] == "write"
        assert any(step.get("uses", "").startswith("actions/attest@") for step in jobs[name]["steps"])
    assert {"ci", "wheel"} <= set(jobs["pypi"]["needs"])
    assert jobs["image"]["needs"] == ["ci"]
    assert jobs["chart"]["needs"] == ["image"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    program = tmp_path / "actionlint"
    module = Path(__file__).parent / "actionlint"
    build = ["go", "build", "-o", str(program), "github.com/rhysd/actionlint/cmd/actionlint"]
    subprocess.run(build, cwd=module, env={**os.environ, "GOWORK": "off", "GOFLAGS": ""}, check=True)
    found = subprocess.run([program, *WORKFLOWS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == ""
    assert found.returncode == 0
