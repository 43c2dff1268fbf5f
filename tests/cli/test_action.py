"""The action in action.yaml and the workflow that `ssa-operator new --project` writes: their scripts, run here."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator import __version__
from tests.cli.process import run
from tests.controller.harness import ROOT, Desk

GROUP = "action.example.com"
MARK = "<!-- ssa-operator plan -->"
FAKE_GH = """\
#!/bin/sh
# Prints the comments that are there, and keeps what it is asked.
echo "$@" >>"$ASKED"
case "$*" in *--paginate*) printf '%s' "$THERE" ;; esac
"""


def steps_of(path: Path) -> dict[str, Any]:
    """The steps of an action, or of a workflow of one job, by name or script."""
    document = yaml.safe_load(path.read_text())
    if "runs" in document:
        steps = document["runs"]["steps"]
    else:
        (job,) = document["jobs"].values()
        steps = job["steps"]
    return {step.get("name") or step.get("run") or step["uses"]: step for step in steps}


class Runner:
    """What a GitHub runner gives a script, with a `gh` that keeps what it is asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.temporary = folder / "temp"
        fake = folder / "bin" / "gh"
        for parent in (self.temporary, fake.parent):
            parent.mkdir()
        fake.write_text(FAKE_GH)
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)

    def execute(self, step: Mapping[str, Any], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """What a step's script does in a folder, run as GitHub runs it."""
        path = os.pathsep.join([str(self._folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        given = {
            "PATH": path,
            "RUNNER_TEMP": str(self.temporary),
            **{
                name: str(self._folder / name)
                for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH", "ASKED")
            },
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env={**os.environ, **given, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def written(self, name: str) -> str:
        """What scripts wrote to the file of a variable since it was read last."""
        path = self._folder / name
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return text


def new_repository(folder: Path) -> Path:
    command = ["new", "WebSite", f"--group={GROUP}", "--field=replicas:int=2", f"--project={folder / 'sites'}"]
    subprocess.run([sys.executable, "-m", "ssa_operator", *command], capture_output=True, check=True)
    return folder / "sites"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def workflow(repository: Path) -> dict[str, Any]:
    return steps_of(repository / ".github" / "workflows" / "operator.yaml")


def test_the_action_and_the_workflow_plan_and_comment_alike(repository: Path) -> None:
    action = steps_of(ROOT / "action.yaml")
    for name in ("Plan", "Comment"):
        assert action[name]["run"] == workflow(repository)[name]["run"]
        assert action[name]["if"] == workflow(repository)[name]["if"]


def test_the_workflow_uses_the_pinned_actions_of_this_repository(repository: Path) -> None:
    used = re.findall(r"uses: (.*)", (repository / ".github" / "workflows" / "operator.yaml").read_text())
    ours = (ROOT / ".github" / "workflows" / "ci.yaml").read_text()
    assert used
    assert [each for each in used if f"uses: {each}\n" not in ours] == []


@pytest.mark.slow
def test_a_new_repository_passes_each_step(repository: Path, runner: Runner) -> None:
    for steps in (workflow(repository), steps_of(ROOT / "action.yaml")):
        for name, step in steps.items():
            if "run" in step and name not in ("Install", "Comment") and "pip install" not in name:
                done = runner.execute(step, repository, PERMISSIONS="deploy/permissions.yaml", CLUSTER="")
                assert done.returncode == 0, (name, done.stdout, done.stderr)
    assert runner.written("GITHUB_OUTPUT") == ""


def test_permissions_that_the_templates_do_not_need_fail(repository: Path, runner: Runner) -> None:
    (repository / "templates" / f"websites.{GROUP}" / "service.yaml.j2").unlink()
    step = steps_of(ROOT / "action.yaml")["The permissions are those that the templates need"]
    done = runner.execute(step, repository, PERMISSIONS="deploy/permissions.yaml")
    assert done.returncode == 1
    assert "-    resources: [services]" in done.stdout


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("source", ["file", "kubeconfig"])
async def test_a_change_of_a_template_is_planned_and_commented_once(
    desk: Desk, repository: Path, runner: Runner, source: str
) -> None:
    where = f"--kubeconfig={desk.kubeconfig}"
    folders = (f"--templates={repository / 'templates'}", where)
    assert (await run("crds", "apply", f"--crds={repository / 'crds'}", where))[0] == 0
    example = repository / "examples" / "website.yaml"
    example.write_text(example.read_text().replace("namespace: default", f"namespace: {desk.namespace}"))
    assert (await run("apply", str(example), *folders))[::2] == (0, "")
    cluster = ""
    if source == "file":
        assert (await run("plan", f"--save={repository / 'cluster.json'}", *folders))[0] == 0
    else:
        cluster = desk.kubeconfig.read_text()
    service = repository / "templates" / f"websites.{GROUP}" / "service.yaml.j2"
    service.write_text(service.read_text().replace("port: 80\n", "port: 8081\n"))

    steps = workflow(repository)
    planned = runner.execute(steps["Plan"], repository, CLUSTER=cluster)
    assert planned.returncode == 0, planned.stderr
    summary = runner.written("GITHUB_STEP_SUMMARY")
    assert summary.startswith(MARK)
    assert "8081" in summary
    assert runner.written("GITHUB_OUTPUT") == "made=true\n"

    text = f"body=@{runner.temporary}/plan.md"
    for there, asked in (("", "--method POST of-pull-request"), ("comment-7\ncomment-9\n", "--method PATCH comment-7")):
        done = runner.execute(steps["Comment"], repository, COMMENTS="of-pull-request", THERE=there)
        assert (done.returncode, done.stderr) == (0, "")
        assert runner.written("ASKED").splitlines()[1:] == [f"api {asked} --field {text}"]


@pytest.mark.slow
def test_the_action_installs_this_version(runner: Runner, tmp_path: Path) -> None:
    done = runner.execute(steps_of(ROOT / "action.yaml")["Install"], tmp_path, GITHUB_ACTION_PATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    program = Path(runner.written("GITHUB_PATH").strip()) / "ssa-operator"
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == __version__
