"""The action in action.yaml: its scripts, run here; and the hooks for pre-commit."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
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
from tests.operator.harness import ROOT, Desk
from tests.packaging.wheels import offline_pip

GROUP = "action.example.com"
MARK = "<!-- ssa-operator plan of {} -->"
BOT = "github-actions[bot]"
FAKE_GH = """\
#!/bin/sh
# Answers with the comments that are there and with the login of the token, and keeps what it is asked.
echo "$@" >>"$ASKED"
case "$*" in
  *graphql*viewer*) answer='{"data": {"viewer": {"login": "github-actions[bot]"}}}' ;;
  *--paginate*) answer=$THERE ;;
  *) exit ;;
esac
while [ "$1" != --jq ]; do shift; done
printf '%s' "$answer" | jq --raw-output "$2"
"""
needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq, which filters as gh does")


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
        for each in (self.temporary, folder / "bin"):
            each.mkdir()
        self.fake("gh", FAKE_GH)

    def fake(self, name: str, script: str) -> None:
        """A program that scripts find first."""
        program = self._folder / "bin" / name
        program.write_text(script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def execute(self, step: Mapping[str, Any], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """What a step's script does in a folder, run as GitHub runs it."""
        path = os.pathsep.join([str(self._folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        given = {
            "PATH": path,
            "RUNNER_TEMP": str(self.temporary),
            "FOLDER": ".",
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
    """A resource with its tests, and the permissions that its templates need."""
    sites = folder / "sites"
    new = [
        "new",
        "WebSite",
        "--crd",
        f"--group={GROUP}",
        "--field=replicas:int=2",
        f"--templates={sites / 'templates'}",
    ]
    subprocess.run([sys.executable, "-m", "ssa_operator", *new], capture_output=True, check=True)
    values = [sys.executable, "-m", "ssa_operator", "rbac", "--helm-values"]
    (sites / "deploy").mkdir()
    written = subprocess.run(values, cwd=sites, capture_output=True, check=True)
    (sites / "deploy" / "permissions.yaml").write_bytes(written.stdout)
    return sites


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@pytest.mark.slow
def test_a_new_repository_passes_each_step(repository: Path, runner: Runner) -> None:
    for name, step in steps_of(ROOT / "action.yaml").items():
        if "run" in step and name not in ("Install", "Comment"):
            done = runner.execute(step, repository, PERMISSIONS="deploy/permissions.yaml", CLUSTER="")
            assert done.returncode == 0, (name, done.stdout, done.stderr)
    assert runner.written("GITHUB_OUTPUT") == ""


@pytest.mark.exhaustive
def test_permissions_that_the_templates_do_not_need_fail(repository: Path, runner: Runner) -> None:
    (repository / "templates" / f"websites.{GROUP}" / "service.yaml.j2").unlink()
    step = steps_of(ROOT / "action.yaml")["The permissions are those that the templates need"]
    done = runner.execute(step, repository, PERMISSIONS="deploy/permissions.yaml")
    assert done.returncode == 1
    assert "-    resources: [services]" in done.stdout


def test_no_script_has_an_expression_whose_value_would_become_code() -> None:
    steps = steps_of(ROOT / "action.yaml")
    assert [name for name, step in steps.items() if "${{" in step.get("run", "")] == []


def printing(text: str, code: int = 0) -> str:
    """A program that prints a text and ends with a code."""
    return f"#!/bin/sh\nprintf '%s' {shlex.quote(text)}\nexit {code}\n"


def plan_step() -> Mapping[str, Any]:
    step = steps_of(ROOT / "action.yaml")["Plan"]
    assert isinstance(step, Mapping)
    return step


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("saved", "kubeconfig", "words"),
    [
        ('{"broken', "", "--against: cluster.json"),
        (None, "apiVersion: v1\nkind: Config\n", "kubeconfig"),
        (None, "not: [a kubeconfig", "kubeconfig"),
    ],
    ids=["cluster.json", "no context", "no YAML"],
)
def test_a_plan_that_could_not_be_made_leaves_the_comment_of_the_last_one(
    repository: Path, runner: Runner, saved: str | None, kubeconfig: str, words: str
) -> None:
    if saved is not None:
        (repository / "cluster.json").write_text(saved)
    done = runner.execute(plan_step(), repository, CLUSTER=kubeconfig)
    assert done.returncode == 2
    assert words in done.stderr
    # The step that comments runs only after made=true.
    assert (runner.written("GITHUB_OUTPUT"), runner.written("GITHUB_STEP_SUMMARY")) == ("", "")


def test_a_plan_with_failures_is_shown_and_fails(repository: Path, runner: Runner) -> None:
    runner.fake("ssa-operator", printing("### a plan\n", code=1))
    done = runner.execute(plan_step(), repository, CLUSTER="a")
    assert done.returncode == 1
    assert runner.written("GITHUB_OUTPUT") == "made=true\n"
    assert "### a plan\n" in runner.written("GITHUB_STEP_SUMMARY")


def test_a_program_that_ends_without_a_plan_fails_and_shows_nothing(repository: Path, runner: Runner) -> None:
    runner.fake("ssa-operator", printing("", code=1))
    done = runner.execute(plan_step(), repository, CLUSTER="a")
    assert done.returncode == 1
    assert (runner.written("GITHUB_OUTPUT"), runner.written("GITHUB_STEP_SUMMARY")) == ("", "")


@pytest.mark.exhaustive
@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_kubeconfig_is_gone_after_the_plan(repository: Path, runner: Runner, code: int) -> None:
    kubeconfig = runner.temporary / "kubeconfig"
    runner.fake("ssa-operator", f'#!/bin/sh\nstat -c %a {kubeconfig} && cat "$3"\nexit {code}\n')
    assert runner.execute(plan_step(), repository, CLUSTER="the content").returncode == code
    assert (runner.temporary / "plan.txt").read_text() == "600\nthe content"
    assert not kubeconfig.exists()


@pytest.mark.exhaustive
def test_a_long_plan_says_that_it_is_cut(repository: Path, runner: Runner) -> None:
    # GitHub refuses comments of more than 65536 characters.
    for text, cut in (("a" * 59_000, False), ("a" * 61_000, True)):
        runner.fake("ssa-operator", f"#!/bin/sh\nhead -c {len(text)} /dev/zero | tr '\\0' a\n")
        assert runner.execute(plan_step(), repository, CLUSTER="a").returncode == 0
        comment = (runner.temporary / "plan.md").read_text()
        assert len(comment) < 61_000
        assert ("This comment is cut: it has 60000 of the 61000 bytes of the plan." in comment) is cut
        assert runner.written("GITHUB_STEP_SUMMARY").endswith(text)


def comments(*each: tuple[str, str, str]) -> str:
    """What GitHub answers for comments, each with its address, its author and its text."""
    return json.dumps([{"url": url, "user": {"login": login}, "body": body} for url, login, body in each])


@pytest.mark.exhaustive
@needs_jq
def test_each_folder_has_a_comment_of_its_own_which_the_next_push_renews(repository: Path, runner: Runner) -> None:
    steps = steps_of(ROOT / "action.yaml")
    runner.fake("ssa-operator", printing("### a plan\n"))
    there = comments(
        ("comment-1", BOT, "another text"),
        ("comment-2", BOT, MARK.format("deploy/a") + "\n\nold"),
        ("comment-3", BOT, MARK.format("deploy/a/b") + "\n\nold"),
    )
    for folder, asked in (
        ("deploy/a", "--method PATCH comment-2"),
        ("deploy/a/b", "--method PATCH comment-3"),
        ("deploy", "--method POST of-pull-request"),
    ):
        assert runner.execute(steps["Plan"], repository, CLUSTER="a", FOLDER=folder).returncode == 0
        text = (runner.temporary / "plan.md").read_text()
        assert text.startswith(MARK.format(folder) + "\n")
        for shown in (text, runner.written("GITHUB_STEP_SUMMARY")):
            assert f"**{folder}**\n" in shown
        done = runner.execute(steps["Comment"], repository, COMMENTS="of-pull-request", THERE=there)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"api {asked} --field body=@{runner.temporary}/plan.md" in runner.written("ASKED").splitlines()


@needs_jq
def test_a_comment_of_another_author_with_the_same_mark_is_left_alone(runner: Runner, tmp_path: Path) -> None:
    mark = MARK.format(".")
    (runner.temporary / "plan.md").write_text(f"{mark}\n### a plan\n")
    stranger = ("comment-1", "stranger", f"{mark}\n\nmine")
    other_bot = ("comment-2", "other[bot]", mark)
    for there, asked in (
        ((stranger, other_bot), "--method POST of-pull-request"),
        ((stranger, other_bot, ("comment-3", BOT, mark)), "--method PATCH comment-3"),
    ):
        step = steps_of(ROOT / "action.yaml")["Comment"]
        done = runner.execute(step, tmp_path, COMMENTS="of-pull-request", THERE=comments(*there))
        assert (done.returncode, done.stderr) == (0, "")
        assert runner.written("ASKED").splitlines()[2:] == [f"api {asked} --field body=@{runner.temporary}/plan.md"]


@pytest.mark.exhaustive
@needs_jq
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

    steps = steps_of(ROOT / "action.yaml")
    planned = runner.execute(steps["Plan"], repository, CLUSTER=cluster)
    assert planned.returncode == 0, planned.stderr
    assert "8081" in runner.written("GITHUB_STEP_SUMMARY")
    assert runner.written("GITHUB_OUTPUT") == "made=true\n"

    text = f"body=@{runner.temporary}/plan.md"
    mark = MARK.format(".")
    known = comments(("comment-7", BOT, f"{mark}\n\nold"), ("comment-9", BOT, mark))
    for there, asked in (("[]", "--method POST of-pull-request"), (known, "--method PATCH comment-7")):
        done = runner.execute(steps["Comment"], repository, COMMENTS="of-pull-request", THERE=there)
        assert (done.returncode, done.stderr) == (0, "")
        assert runner.written("ASKED").splitlines()[2:] == [f"api {asked} --field {text}"]


@pytest.mark.exhaustive
def test_the_action_installs_this_version(runner: Runner, tmp_path: Path) -> None:
    step, environment = steps_of(ROOT / "action.yaml")["Install"], offline_pip()
    done = runner.execute(step, tmp_path, GITHUB_ACTION_PATH=str(ROOT), **environment)
    assert done.returncode == 0, done.stderr
    program = Path(runner.written("GITHUB_PATH").strip()) / "ssa-operator"
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == __version__


def test_each_hook_runs_check_once_for_a_change_of_templates_crds_or_examples() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [hook["entry"] for hook in hooks] == ["ssa-operator check", "ssa-operator check --fix"]
    for hook in hooks:
        assert hook["language"] == "python"
        assert hook["pass_filenames"] is False
        changed = ["templates/echoes.example.com/a.yaml.j2", "crds/a.yaml", "deploy/operator/examples/b.yaml"]
        assert all(re.search(hook["files"], path) for path in changed)
        assert not re.search(hook["files"], "README.md")
