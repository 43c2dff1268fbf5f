"""One module writes for all commands, and what tenants and repositories write controls no terminal and no log."""

from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path

import pytest
import yaml
from rich.table import Table
from rich.text import Text

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import OutputFormat
from ssa_operator.rendering.yaml.to_yaml import yaml_document
from ssa_operator.tools import printing
from ssa_operator.tools.checks.codes import CODES
from ssa_operator.tools.checks.output import write_findings
from ssa_operator.tools.findings import Finding
from tests.cli.process import in_terminal, run
from tests.objects.test_messages import HOSTILE, is_harmless
from tests.operator.harness import ECHOES, ROOT, Desk, config_map, echo
from tests.tools.cases.test_golden_cases import PARENT, TEMPLATE, project

PACKAGE = ROOT / "ssa_operator"

OWN_STREAMS = {
    "operator/process/streams.py": "writes for the commands",
    "kube/auth/child_process.py": "passes on what the user's own credential plugin says",
    "kube/auth/credential_plugins.py": "is a process of its own, whose output is a pipe to the operator",
}

LOOKUP = 'lookup("v1", "ConfigMap", "tenant").data.text'

WRITES = {
    "print",
    "sys.stdout.write",
    "sys.stdout.buffer.write",
    "sys.stderr.write",
    "sys.stderr.buffer.write",
    "sys.__stdout__.write",
    "sys.__stderr__.write",
}

EVERYTHING = " ".join(HOSTILE.values()) + "\n" + "\n".join(HOSTILE.values())


def writes(path: Path) -> list[str]:
    """What of a module writes to a stream of the process, or makes a console of its own."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        given = any(ast.unparse(each) in ("sys.stdout", "sys.stderr") for each in node.args)
        if given or called in WRITES or name in ("echo", "secho", "echo_via_pager", "Console"):
            found.append(f"{path.name}:{node.lineno}: {called}")
    return found


def test_only_one_module_writes_to_the_streams_of_a_command() -> None:
    found = {str(path.relative_to(PACKAGE)): writes(path) for path in PACKAGE.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines and name not in OWN_STREAMS} == {}
    assert {name for name in OWN_STREAMS if found[name]} == OWN_STREAMS.keys()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_text_for_people_is_harmless_on_both_streams(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    streams.line(text)
    streams.lines(text)
    streams.error(text)
    printing.table(("NAME", text), [(text, "a"), ("b", text)])
    console = streams.console(soft_wrap=True)
    console.print(text)
    console.print(Text.assemble((text, "bold"), text))
    written = capsys.readouterr()
    assert is_harmless(written.out)
    assert is_harmless(written.err)
    if text == HOSTILE["markup"]:
        assert written.out.count("[red]a[/red]") == 8, "markup is shown, not interpreted"


def test_a_console_in_a_terminal_has_its_own_colours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    console = streams.console()
    table = Table("a")
    table.add_row(Text(HOSTILE["clear the screen"]))
    console.print(Text("a\x1b[31mb", "green"), table)
    assert isinstance(sys.stdout, io.StringIO)
    written = sys.stdout.getvalue()
    assert "\x1b[32ma\\x1b[31mb\x1b[0m" in written
    assert "\x1b[2J" not in written


@pytest.mark.parametrize("output", ["text", "json", "sarif", "github"])
def test_findings_are_harmless_in_each_format(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    location = SourceLocation(f"a\n::error::b{EVERYTHING}.yaml", 3)
    finding = Finding(code=next(iter(CODES.values())), message=EVERYTHING, location=location)
    write_findings([finding], output)
    out = capsys.readouterr().out
    if output == "github":
        first, *rest = out.splitlines()
        assert first.startswith("::")
        assert not rest
        assert is_harmless(out.replace("::", "", 1).replace("##", ""))
        return
    assert is_harmless(out)
    if output == "json":
        assert json.loads(out)[0]["message"] == EVERYTHING


def test_data_are_exact_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {**HOSTILE, EVERYTHING: "é 日本"},
    }
    printing.objects([body], OutputFormat.YAML, [EVERYTHING])
    streams.data("---\n")
    printing.objects([body, body], OutputFormat.YAML)
    out = capsys.readouterr().out
    assert is_harmless(out)
    assert list(yaml.safe_load_all(out)) == [body, body, body]
    printing.objects([body], OutputFormat.JSON)
    out = capsys.readouterr().out
    assert is_harmless(out)
    assert json.loads(out) == body
    printing.data(body, OutputFormat.YAML)
    assert yaml.safe_load(capsys.readouterr().out) == body
    assert "é 日本" in yaml_document(body), "text of other languages stays readable"


@pytest.mark.exhaustive
async def test_commands_without_a_cluster_show_no_control_character(tmp_path: Path) -> None:
    name = "a\n::error::b\x1b[2J.yaml.j2"
    case = project(tmp_path, TEMPLATE, **{"expected.yaml": yaml_document({"a": EVERYTHING})})
    templates = tmp_path / "templates"
    (templates / ECHOES / name).write_text("kind: [\n")
    (case / "parent.yaml").write_text(PARENT.replace("text: a", "text: " + yaml_document(EVERYTHING).strip()))
    parent = str(case / "parent.yaml")
    commands: list[tuple[str, ...]] = [("test", str(tmp_path)), ("check",), ("check", "--output=json")]
    commands += [("render", parent), ("rbac",), ("graph", parent)]
    for broken in (True, False):
        if not broken:
            (templates / ECHOES / name).write_text(TEMPLATE.replace("{{ name }}", "{{ name }}-b"))
        for words in commands:
            options = () if words[0] == "test" else (f"--templates={templates}",)
            _, out, err = await run(*words, *options)
            assert is_harmless(out + err), words
            if broken or words[0] not in ("test", "render"):
                continue
            _, shown = await in_terminal(*words, *options)
            assert not any(each in shown for each in ("\x1b[2J", "\x1b]", "\x9b", "\u202e", "\b")), words
    code, out, _ = await run("render", parent, f"--templates={templates}")
    assert code == 0
    assert [each["data"]["text"] for each in yaml.safe_load_all(out)] == [EVERYTHING, EVERYTHING]


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_tenants_texts_show_no_control_character(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "templates" / ECHOES).mkdir(parents=True)
    (tmp_path / "templates" / ECHOES / "a.yaml.j2").write_text(
        TEMPLATE.replace('"{{ spec.text }}"', "{{ " + LOOKUP + " }}")
    )
    await desk.create(config_map("tenant", text=EVERYTHING))
    await desk.apply(echo("web"))
    options = (f"--templates={tmp_path / 'templates'}", f"--kubeconfig={desk.kubeconfig}", "-n", desk.namespace)
    for words in (("diff", "echo/web"), ("plan",), ("plan", "--output=markdown"), ("tree", "echo/web"), ("status",)):
        _, out, err = await run(*words, *options)
        assert is_harmless(out + err), words
        if words not in (("diff", "echo/web"), ("plan",)):
            continue
        _, shown = await in_terminal(*words, *options)
        assert "\x1b[2J" not in shown, words
        assert "\x1b]" not in shown, words
        assert "\u202e" not in shown, words
    _, out, _ = await run("diff", "echo/web", "--output=json", *options)
    (change,) = json.loads(out)["parents"][0]["objects"]
    assert change["kind"] == "ConfigMap"
