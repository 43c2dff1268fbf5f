"""What holds for every command: help, environment, errors, completion, colours, exit codes, and `kubectl ssa`."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from ssa_operator.cli.main import application_of
from ssa_operator.cli.topics import TOPICS
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools import command_target as cluster_target
from tests.cli.process import run
from tests.cli.terminal import terminal
from tests.operator.harness import ECHOES, ROOT, Desk, definition, echo, map_template, operating

BIN = Path(sys.executable).parent
NO_VARIABLE = {"--help", "--version", "--install-completion", "--show-completion"}
"""Options that replace the command's work."""


def every_command(command: Any, *words: str) -> dict[tuple[str, ...], Any]:
    """A command and all its subcommands, by their words."""
    found = {words: command}
    for name, each in getattr(command, "commands", {}).items():
        found |= every_command(each, *words, name)
    return found


EVERY_COMMAND = every_command(get_command(application_of()))
COMMANDS = {words: each for words, each in EVERY_COMMAND.items() if not hasattr(each, "commands")}


async def test_the_help_groups_every_command_by_topic() -> None:
    _, out, _ = await run("--help")
    sections = dict(re.findall(r"^([A-Z][^\n]*):\n((?:  .*\n)+)", out, re.MULTILINE))
    sections.pop("Options")
    assert list(sections) == list(TOPICS)
    for topic, text in sections.items():
        shown = [line.split()[0] for line in text.splitlines() if re.match(r"  \S", line)]
        assert shown == list(TOPICS[topic])


@pytest.mark.more_cases
@pytest.mark.parametrize("words", EVERY_COMMAND, ids=" ".join)
async def test_every_command_has_help_with_an_example_and_every_option_is_also_an_environment_variable(
    words: tuple[str, ...],
) -> None:
    code, out, _ = await run(*words, "--help", COLUMNS="200")
    assert code == 0
    text = " ".join(out.split())
    if words:
        assert f"ssa-operator {' '.join(words)}" in text.partition("Example: ")[2]
    for option in EVERY_COMMAND[words].params:
        names = [each for each in option.opts if each.startswith("--")]
        if option.param_type_name != "option" or set(names) & NO_VARIABLE:
            continue
        (name,) = names
        variable = "SSA_OPERATOR_" + name.removeprefix("--").replace("-", "_").upper()
        assert option.envvar == variable, name
    if any(each.envvar for each in EVERY_COMMAND[words].params):
        assert "Each option is an environment variable, too: --" in text
    assert "env var" not in text


async def test_options_are_grouped_by_topic() -> None:
    _, out, _ = await run("tree", "--help")
    topics = re.findall(r"^([A-Z]\w+):$", out, re.MULTILINE)
    assert topics == ["Arguments", "Options", "Templates", "Cluster", "Output"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("treee",), "ssa-operator: no such command 'treee'; did you mean 'tree'? See ssa-operator --help.\n"),
        (
            ("tree", "a/b", "--outptu"),
            "ssa-operator tree: no such option --outptu; did you mean --output? See ssa-operator tree --help.\n",
        ),
        (("capture",), "ssa-operator capture: missing argument 'KIND/NAME'. See ssa-operator capture --help.\n"),
        (
            ("cluster", "stpo"),
            "ssa-operator cluster: no such command 'stpo'; did you mean 'stop'? See ssa-operator cluster --help.\n",
        ),
    ],
)
async def test_wrong_usage_is_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    assert await run(*arguments) == (2, "", message)


BUG = """
from ssa_operator.cli import application
app = application.Application()
@app.callback()
def root() -> None: ...
@app.command()
def work() -> None: raise KeyError("-".join(("hidden", "content")))
application.run(app)
"""


def test_a_bug_is_one_line_without_its_message_and_debug_adds_the_traceback() -> None:
    environment = {**os.environ, "SSA_OPERATOR_DEBUG": ""}
    command = [sys.executable, "-c", BUG, "work"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "ssa-operator: unexpected KeyError at <string>:7; --debug shows the traceback\n"
    environment["SSA_OPERATOR_DEBUG"] = "true"
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback (most recent call last):" in ended.stderr
    assert ", line 7, in work" in ended.stderr
    assert "hidden-content" not in ended.stderr


async def test_debug_shows_where_an_error_comes_from() -> None:
    code, _, err = await run("--debug", "tree", "echo/a", "--kubeconfig=nowhere")
    assert code == 1
    assert "Traceback (most recent call last):" in err
    last = err.splitlines()[-1]
    assert last.startswith("ssa-operator: there is no kubeconfig at nowhere")
    assert (await run("tree", "echo/a", "--kubeconfig=nowhere"))[2] == last + "\n"


OFFLINE = (
    ("--help",),
    ("--version",),
    ("--show-completion", "bash"),
    ("check", "--templates=examples/config-rollout/templates", "--output=json"),
    ("render", "examples/echo.yaml"),
    ("render", "examples/echo.yaml", "--output=json"),
    ("graph", "examples/echo.yaml"),
    ("graph", "examples/echo.yaml", "--output=dot"),
    ("test", "echoes.example.com"),
    ("test", "echoes.example.com", "--output=json"),
    ("rbac",),
    ("cluster", "status", "--name=nowhere"),
    ("crds", "--help"),
)
"""Commands that print something, and need no cluster."""


FULL = "ssa-operator: can't write standard output: No space left on device\n"


@pytest.mark.more_cases
@pytest.mark.parametrize("words", OFFLINE, ids=" ".join)
async def test_a_full_disk_at_standard_output_is_one_sentence_and_exit_code_2(words: tuple[str, ...]) -> None:
    environment = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert await run(*words, output="/dev/full", **environment) == (2, "", FULL)


def subprocess_of(words: Sequence[str], **settings: Any) -> subprocess.CompletedProcess[str]:
    """A command that writes to pipes, unless the settings of subprocess.run are others."""
    chosen: dict[str, Any] = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
    return subprocess.run([sys.executable, "-m", "ssa_operator", *words], text=True, check=False, **chosen)


@pytest.mark.more_cases
@pytest.mark.parametrize("words", [("--help",), ("render", "examples/echo.yaml")], ids=" ".join)
def test_a_closed_pipe_ends_a_command_without_a_word(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess_of(words, stdout=writer)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.exhaustive
def test_a_closed_standard_output_is_one_sentence() -> None:
    shell = ["sh", "-c", f"exec {sys.executable} -m ssa_operator render examples/echo.yaml >&-"]
    ended = subprocess.run(shell, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.stderr == "ssa-operator: can't write standard output: Bad file descriptor\n"
    assert ended.returncode == 2


def test_a_full_disk_at_standard_error_leaves_the_exit_code() -> None:
    with Path("/dev/full").open("w") as full:
        assert subprocess_of(("nothing",), stderr=full).returncode == 2


FIXABLE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: {{ spec.replicas | quote }}\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("test", "--update", "--case=begins"), "tests/echoes.example.com/begins/expected.yaml: File too large"),
        (("test", "--junit=report.xml"), "report.xml: File too large"),
        (("check", "--fix"), "templates/echoes.example.com/new.yaml.j2: File too large"),
        (("new", "Cup", "--group=example.com"), "a temporary folder: No usable temporary directory found in "),
    ],
)
def test_a_file_that_the_disk_has_no_place_for_is_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], error: str, tmp_path: Path
) -> None:
    for part in ("templates", "tests"):
        shutil.copytree(ROOT / part / ECHOES, tmp_path / part / ECHOES)
    shutil.copytree(ROOT / "crds", tmp_path / "crds")
    (tmp_path / "tests" / ECHOES / "begins" / "expected.yaml").unlink()
    if "--fix" in arguments:
        (tmp_path / "templates" / ECHOES / "new.yaml.j2").write_text(FIXABLE)
        (tmp_path / "examples").mkdir()
        shutil.copy(ROOT / "examples" / "echo.yaml", tmp_path / "examples")
    ended = subprocess_of(
        arguments,
        cwd=tmp_path,
        # The kernel refuses each byte that the process writes to a file, as if the disk was full.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    # The report of golden cases has the errors of each.
    said = ended.stdout if "--update" in arguments else ended.stderr
    assert f"can't write {error}" in said
    assert len(ended.stderr.splitlines()) == 1
    assert ended.returncode == 2


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_full_disk_is_one_sentence_from_each_command_of_a_cluster(desk: Desk) -> None:
    await desk.apply(echo("web"))
    of_cluster = (f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
    for words in (
        ("status",),
        ("status", "--watch"),
        ("status", "--output=json"),
        ("tree", "echo/web"),
        ("tree", "echo/web", "--watch"),
        ("blame", "echo/web"),
        ("graph", "echo/web"),
        ("diff", "echo/web"),
        ("plan",),
        ("plan", "--output=json"),
        ("plan", "--output=markdown"),
        ("crds", "wait", "echoes.example.com"),
    ):
        options = of_cluster[1:] if words[0] == "crds" else of_cluster
        assert await run(*words, *options, output="/dev/full") == (2, "", FULL), words
    code, _, err = await run("plan", "--save=/dev/full", *of_cluster)
    assert (code, err) == (2, "ssa-operator: can't write /dev/full: No space left on device\n")


def plugin(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real kubectl, with the programs of this environment on its PATH."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [BIN / "kubectl", *arguments],
        env={**os.environ, "PATH": path, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.exhaustive
def test_kubectl_finds_the_plugin_and_runs_it_under_its_own_name() -> None:
    assert f"{BIN / 'kubectl-ssa'}\n" in plugin("plugin", "list").stdout
    shown = plugin("ssa", "tree", "--help").stdout
    assert shown.startswith("Usage: kubectl ssa tree [OPTIONS]")
    assert "Example: kubectl ssa tree echo/hello --watch" in shown
    assert "--install-completion" not in plugin("ssa", "--help").stdout
    failed = plugin("ssa", "capture", "echo")
    assert (failed.returncode, failed.stderr) == (
        2,
        "kubectl ssa: 'echo' names no object; write echo/NAME or echo NAME\n",
    )


@pytest.mark.exhaustive
def test_kubectl_completes_the_plugin() -> None:
    assert plugin("__complete", "ssa", "tr").stdout.splitlines() == ["tree", ":4"]
    assert plugin("__complete", "ssa", "tree", "--output", "").stdout.splitlines() == [
        "table",
        "wide",
        "json",
        "yaml",
        ":4",
    ]


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_kinds_names_namespaces_and_contexts_are_completed(cluster: Cluster, desk: Desk) -> None:
    await desk.apply(echo("web"), echo("worker"), echo("other"))

    async def completed(line: str) -> list[str]:
        words = line.split(" ")
        environment = {
            "_SSA_OPERATOR_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "KUBECONFIG": str(cluster.kubeconfig),
        }
        code, out, err = await run(**environment)
        assert (code, err) == (0, "")
        return out.split()

    start = f"ssa-operator tree --namespace {desk.namespace}"
    assert await completed("ssa-operator sta") == ["status"]
    assert await completed("ssa-operator tree ec") == ["echoes.example.com"]
    assert await completed("ssa-operator tree deployment") == ["deployment", "deployments.apps"]
    assert await completed(f"{start} echo/w") == ["echo/web", "echo/worker"]
    assert await completed(f"{start} echo wo") == ["worker"]
    assert await completed(f"{start} nothing/") == []
    assert await completed(f"ssa-operator tree --namespace {desk.namespace[:-1]}") == [desk.namespace]
    assert await completed("ssa-operator tree --context ") != []
    assert await completed("ssa-operator tree --kubeconfig nowhere echo/") == []


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_colours_are_for_terminals_and_no_color_switches_them_off(cluster: Cluster, desk: Desk) -> None:
    await desk.apply(echo("web"))
    arguments = ("tree", "echo/web", f"--namespace={desk.namespace}", f"--kubeconfig={cluster.kubeconfig}")
    colour = re.compile(rb"\x1b\[[0-9;]*3[0-7]m")
    _, plain, _ = await run(*arguments)
    assert "\x1b" not in plain
    async with terminal(*arguments, NO_COLOR="") as shown:
        assert await shown.ended() == 0
        await shown.shows("Echo")
        assert colour.search(shown.raw)
    async with terminal(*arguments, NO_COLOR="1") as shown:
        assert await shown.ended() == 0
        await shown.shows("Echo")
        assert not colour.search(shown.raw)


@pytest.mark.exhaustive
def test_the_completion_script_completes_in_bash() -> None:
    script = (
        "source <(ssa-operator --show-completion); COMP_WORDS=(ssa-operator $1); COMP_CWORD=$2; "
        '_ssa_operator_completion ssa-operator; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    def completed(*words: str) -> list[str]:
        command = ["bash", "-c", script, "bash", " ".join(words), str(len(words))]
        return subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()

    assert completed("tr") == ["tree"]
    assert completed("tree", "ec") == ["echoes.example.com"]


async def test_an_option_can_be_set_in_the_environment() -> None:
    environment = {"SSA_OPERATOR_AS_APPLIED": "true", "SSA_OPERATOR_OUTPUT": "json"}
    code, out, _ = await run("render", "examples/echo.yaml", **environment)
    assert code == 0
    assert json.loads(out)["metadata"]["ownerReferences"]


PARENT = str(ROOT / "examples" / "echo.yaml")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "templates" / ECHOES
    (folder / "files").mkdir(parents=True)
    (folder / "a.yaml.j2").write_text(map_template("a", image="values.image"))
    (folder / "_values.yaml").write_text("image: a:1\n")
    (tmp_path / "one.yaml").write_text(f"{ECHOES}: {{image: b:1}}\n")
    (tmp_path / "two.yaml").write_text(f"{ECHOES}: {{image: c:1}}\n")
    return tmp_path


async def test_render_takes_values_from_files_and_from_the_environment(project: Path) -> None:
    templates, one, two = f"--templates={project / 'templates'}", project / "one.yaml", project / "two.yaml"
    assert "image: a:1" in (await run("render", PARENT, templates))[1]
    assert "image: c:1" in (await run("render", PARENT, templates, f"--values={one}", f"--values={two}"))[1]
    assert "image: b:1" in (await run("render", PARENT, templates, SSA_OPERATOR_VALUES=str(one)))[1]


@pytest.mark.more_cases
@pytest.mark.parametrize("command", [["check"], ["graph", PARENT], ["rbac"], ["render", PARENT], ["run"], ["dev"]])
async def test_a_file_that_does_not_exist_is_one_line(project: Path, command: list[str]) -> None:
    code, _, err = await run(*command, f"--templates={project / 'templates'}", "--values=absent.yaml")
    assert (code, err) == (2, "ssa-operator: there is no file absent.yaml; name a file of values with --values\n")


@pytest.mark.parametrize("command", [["check"], ["graph", PARENT], ["rbac"], ["render", PARENT]])
async def test_a_broken_file_is_named_with_its_line(project: Path, command: list[str]) -> None:
    (project / "one.yaml").write_text(f"{ECHOES}:\n  image: [\n")
    _, out, err = await run(*command, f"--templates={project / 'templates'}", f"--values={project / 'one.yaml'}")
    assert f"{project / 'one.yaml'}:2: " in out + err


async def test_golden_cases_are_rendered_with_the_values(project: Path) -> None:
    case = project / "tests" / "echoes.example.com" / "one"
    case.mkdir(parents=True)
    shutil.copy(PARENT, case / "parent.yaml")
    code, _, err = await run("test", str(project), "--update", f"--values={project / 'one.yaml'}")
    assert (code, err) == (0, "")
    assert "image: b:1\n" in (case / "expected.yaml").read_text()
    assert (await run("test", str(project)))[0] == 1


async def test_check_and_rbac_use_the_values(project: Path) -> None:
    (project / "templates" / ECHOES / "a.yaml.j2").write_text(
        "apiVersion: apps/v1\nkind: {{ values.kind }}\nmetadata: {name: a}\n"
    )
    templates = f"--templates={project / 'templates'}"
    (project / "one.yaml").write_text(f"{ECHOES}: {{kind: DaemonSet}}\n")
    values = f"--values={project / 'one.yaml'}"
    _, out, _ = await run("rbac", templates, values, f"--crds={ROOT / 'crds'}")
    assert "daemonsets" in out
    _, out, _ = await run("check", templates, f"--examples={PARENT}", f"--crds={ROOT / 'crds'}")
    assert "values.kind is missing; set it in _values.yaml" in out


GROUPS = ("a.example.com", "b.example.org")
FOLDERS = [f"backups.{group}" for group in GROUPS]


@pytest.mark.slow
@pytest.mark.cluster
async def test_every_command_asks_which_object_is_meant(desk: Desk, client: Client, tmp_path: Path) -> None:
    await desk.define(*(definition("backups", group, "Backup") for group in GROUPS))
    templates = tmp_path / "templates"
    for folder, group in zip(FOLDERS, GROUPS, strict=True):
        (templates / folder).mkdir(parents=True)
        (templates / folder / "map.yaml.j2").write_text(map_template(group[0]))
    target = (f"--kubeconfig={desk.kubeconfig}", f"--namespace={desk.namespace}", f"--templates={templates}")
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        for folder, group in zip(FOLDERS, GROUPS, strict=True):
            await desk.apply(
                {"apiVersion": f"{group}/v1", "kind": "Backup", "metadata": {"name": "x"}, "spec": {"n": 1}}
            )
            await desk.ready(folder, "x")
    both = f"ssa-operator: backup is a kind of several groups; write {' or '.join(FOLDERS)} instead\n"
    for command in ("tree", "diff", "blame", "capture", "graph"):
        code, out, err = await run(command, "backup/x", *target)
        assert (command, code, out, err) == (command, 2, "", both)
        code, out, err = await run(command, f"{FOLDERS[1]}/x", *target)
        assert (command, code, err) == (command, 0, "")
    code, out, err = await run("status", "backup/x", *target)
    assert (code, err) == (0, "")
    assert [out.count(f"x-{group[0]}") for group in GROUPS] == [1, 1]
    code, out, err = await run("blame", f"{FOLDERS[0]}/x", "configmap/x-a", *target)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("arguments", [("diff", "examples/echo.yaml"), ("plan",)])
def test_a_missing_kubeconfig_is_no_difference(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise CommandError("there is no kubeconfig")

    monkeypatch.setattr(cluster_target, "cluster_target", missing)
    result = CliRunner().invoke(application_of(), arguments)
    assert isinstance(result.exception, CommandError)
    assert (result.exception.code, str(result.exception)) == (2, "there is no kubeconfig")
