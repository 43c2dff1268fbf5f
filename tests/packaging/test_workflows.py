"""The workflows of the repository are valid, and run only actions that nobody can change."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks.pages import blocks
from tests.packaging.checkout import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
_PINNED = re.compile(r"uses: (?:\./\S*|[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$")


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
    for name in ("wheel", "image", "chart", "notes"):
        assert jobs[name]["permissions"]["attestations"] == "write"
        assert any(step.get("uses", "").startswith("actions/attest@") for step in jobs[name]["steps"])
    assert {"ci", "wheel"} <= set(jobs["pypi"]["needs"])
    assert jobs["image"]["needs"] == ["ci"]
    assert jobs["chart"]["needs"] == ["image"]
    stated = [step["with"].get("subject-path") for step in jobs["notes"]["steps"] if "attest@" in step.get("uses", "")]
    assert stated == ["dist/install.yaml"]


def test_kind_has_a_version_that_the_operator_supports_and_one_postgres_holds_up_a_release() -> None:
    (node,) = yaml.safe_load((ROOT / ".github" / "kind.yaml").read_text())["nodes"]
    supported = re.search(r"supports Kubernetes 1\.(\d+) to 1\.(\d+)", (ROOT / "docs" / "install.md").read_text())
    version = re.fullmatch(r"kindest/node:v1\.(\d+)\.\d+", node["image"])
    assert supported
    assert version
    assert int(supported[1]) <= int(version[1]) <= int(supported[2])
    texts = {path.stem: path.read_text() for path in WORKFLOWS}
    created = {name: re.findall(r"kind create cluster.*$", text, re.MULTILINE) for name, text in texts.items()}
    once = ["kind create cluster --config .github/kind.yaml --wait 2m"]
    assert created == {"ci": once, "neon": once, "release": []}
    assert re.findall(r"tests/neon/smoke.*$", texts["ci"], re.MULTILINE) == ["tests/neon/smoke 17"]
    versions = yaml.safe_load(texts["neon"])["jobs"]["smoke"]["strategy"]["matrix"]["postgres"]
    assert f"set -- {' '.join(versions)}\n" in (ROOT / "tests" / "neon" / "smoke").read_text()


def release_notes(version: str, changelog: Path) -> subprocess.CompletedProcess[str]:
    program = ROOT / ".github" / "release-notes"
    return subprocess.run([program, version, changelog], capture_output=True, text=True, check=False)


def test_the_notes_of_a_release_are_its_section_of_the_changelog(tmp_path: Path) -> None:
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        "# Changelog\n\n## [Unreleased]\n\n- c\n\n## [1.10.0] - 2026-02-01\n\n- b\n\n## [1.1.0] - 2026-01-01\n\n- a\n"
    )
    assert release_notes("1.10.0", changelog).stdout.strip() == "- b"
    assert release_notes("1.1.0", changelog).stdout.strip() == "- a"
    missing = release_notes("1.1", changelog)
    assert (missing.returncode, missing.stdout, missing.stderr) == (1, "", "CHANGELOG.md has no section [1.1]\n")


def test_the_changelog_has_a_section_for_each_release_below_that_of_unreleased_changes() -> None:
    changelog = ROOT / "CHANGELOG.md"
    first, *others = re.findall(r"^## .*$", changelog.read_text(), re.MULTILINE)
    assert first == "## [Unreleased]"
    assert [it for it in others if not re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", it)] == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    program = tmp_path / "actionlint"
    module = Path(__file__).parent / "actionlint"
    build = ["go", "build", "-o", str(program), "github.com/rhysd/actionlint/cmd/actionlint"]
    subprocess.run(build, cwd=module, env={**os.environ, "GOWORK": "off", "GOFLAGS": ""}, check=True)
    new = ["new", "WebSite", "--group=example.com", f"--project={tmp_path / 'sites'}"]
    subprocess.run([sys.executable, "-m", "ssa_operator", *new], capture_output=True, check=True)
    written = tmp_path / "sites" / ".github" / "workflows" / "operator.yaml"
    found = subprocess.run([program, *WORKFLOWS, written], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == ""
    assert found.returncode == 0
    # The example in a repository of its own, with the action beside it, so that actionlint reads the action's inputs.
    (tmp_path / "example" / ".git").mkdir(parents=True)
    shutil.copy(ROOT / "action.yaml", tmp_path / "example")
    folder = tmp_path / "example" / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / "theirs.yaml").write_text(example())
    (folder / "ours.yaml").write_text(example().replace("OWNER/ssa-operator@COMMIT", "./"))
    found = subprocess.run([program], cwd=folder, capture_output=True, text=True, check=False)
    assert (found.stdout, found.returncode) == ("", 0)
    (folder / "ours.yaml").write_text(example().replace("OWNER/ssa-operator@COMMIT", "./").replace("folder:", "dir:"))
    found = subprocess.run([program], cwd=folder, capture_output=True, text=True, check=False)
    assert 'input "dir" is not defined in action "ssa-operator"' in found.stdout


READ = [block for block in blocks("docs/tutorial.md") if block.text.startswith("# .github/workflows/")]
"""The blocks of pages that these tests read."""


def example() -> str:
    """The workflow that docs/tutorial.md shows for the action."""
    (block,) = READ
    return block.text


def test_the_example_of_the_action_runs_no_code_of_a_fork_with_the_rights_of_the_repository() -> None:
    workflow = yaml.safe_load(example())
    # YAML 1.1 reads `on` as true.
    assert workflow[True] == "pull_request"
    checkout, action = workflow["jobs"]["templates"]["steps"]
    assert checkout["with"] == {"persist-credentials": False}
    inputs = yaml.safe_load((ROOT / "action.yaml").read_text())["inputs"]
    assert action["with"].keys() <= inputs.keys()
    assert "pull_request_target" in (ROOT / "docs" / "tutorial.md").read_text()
