"""`ssa-operator test` as a process: which cases it runs, what it writes, and with which exit code it ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.process import in_terminal, run, started
from tests.tools.cases.test_golden_cases import PARENT, TEMPLATE, project, update


async def test_the_life_of_a_case(tmp_path: Path) -> None:
    case, junit = project(tmp_path), tmp_path / "junit.xml"
    # A new case differs.
    code, out, err = await run("test", str(tmp_path), f"--junit={junit}")
    assert (code, err.count("\n")) == (1, 1)
    assert f"differs {case}\n" in out
    assert "\n  +kind: ConfigMap\n" in out
    assert out.endswith("\n1 case: 1 differs\n")
    (failed,) = ET.parse(junit).getroot().iter("testcase")
    assert (failed.attrib["classname"], failed.attrib["name"]) == ("echoes.example.com", "one")
    assert "+kind: ConfigMap" in (failed.findtext("failure") or "")
    # An update writes it, and then it passes, also by the name of its template folder.
    written = f"wrote {case / 'expected.yaml'}\n1 case: 1 updated\n"
    assert await run("test", str(tmp_path), "--update") == (0, written, "")
    folder = f"--templates={tmp_path / 'templates'}"
    assert await run("test", "echoes.example.com", folder, f"--junit={junit}") == (0, "1 case: 1 passed\n", "")
    suites = ET.parse(junit).getroot()
    assert [(each.attrib["tests"], each.attrib["failures"]) for each in suites] == [("1", "0")]
    # An invalid case hides no other one.
    (case.parent / "two").mkdir()
    (case.parent / "two" / "parent.yaml").write_text("a: [\n")
    code, out, err = await run("test", str(tmp_path), "--output=json")
    found = json.loads(out)
    assert (code, [each["result"] for each in found["cases"]]) == (2, ["passed", "invalid"])
    assert found["summary"] == {"passed": 1, "updated": 0, "differs": 0, "invalid": 1}
    assert found["cases"][1]["problems"] == [
        f"{case.parent}/two/parent.yaml:1: did not find expected node content (while parsing a flow node)"
    ]
    # It can be left out.
    assert await run("test", str(tmp_path), "--case=o*") == (0, "1 case: 1 passed\n", "")


@pytest.mark.exhaustive
async def test_colours_appear_only_in_a_terminal(tmp_path: Path) -> None:
    case = project(tmp_path)
    code, shown = await in_terminal("test", str(case))
    assert code == 1
    assert "\x1b[32m  +kind: ConfigMap\x1b[0m" in shown
    code, plain, _ = await run("test", str(case))
    assert code == 1
    assert "\x1b" not in plain


async def test_what_does_not_exist_is_an_error(tmp_path: Path) -> None:
    project(tmp_path)
    code, out, err = await run("test", str(tmp_path), "--case=on")
    assert (code, out, err) == (2, "", "ssa-operator: there is no case on; did you mean one?\n")
    code, out, err = await run("test", str(tmp_path / "nowhere"))
    assert (code, out) == (2, "")
    assert err.startswith(f"ssa-operator: {tmp_path}/nowhere is no folder of golden cases")
    (tmp_path / "tests").rename(tmp_path / "none")
    code, out, err = await run("test", str(tmp_path))
    assert (code, out) == (2, "")
    assert f"write parent.yaml into a folder {tmp_path}/tests/<plural>.<group>/<case>" in err


async def test_waits_and_problems_are_expected_lines(tmp_path: Path) -> None:
    wait = TEMPLATE.replace("spec.text", "lookup('v1', 'ConfigMap', 's').data.a")
    case = project(tmp_path, f"{wait}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: 1}}\n")
    written = f"wrote {case / 'waits.txt'}\nwrote {case / 'problems.txt'}\n1 case: 1 updated\n"
    assert await run("test", str(tmp_path), "--update") == (0, written, "")
    waits, problems = ((case / name).read_text() for name in ("waits.txt", "problems.txt"))
    awaited = "ConfigMap default/hello is waiting for ConfigMap default/s .data.a (there is no such ConfigMap)"
    assert waits == f"echoes.example.com/a.yaml.j2:4: {awaited}\n"
    assert problems == "echoes.example.com/a.yaml.j2:8: metadata.name must be a string, and this is a number\n"
    assert await run("test", str(tmp_path)) == (0, "1 case: 1 passed\n", "")


async def test_coverage_names_what_no_case_reaches(tmp_path: Path) -> None:
    branch = "{% if spec.text == 'b' %}\n  more: b\n  most: c\n{% endif %}\n"
    case = project(tmp_path)
    template = tmp_path / "templates" / "echoes.example.com" / "a.yaml.j2"
    template.write_text(f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  a: "1"\n{branch}')
    code, out, _ = await run("test", str(tmp_path), "--update", "--coverage")
    never, not_rendered, total = out.partition("updated\n")[2].replace(f"{tmp_path}/", "").splitlines()
    assert (code, total) == (0, "coverage: 70 %, 7 of 10 lines and branches")
    assert never == "templates/echoes.example.com/a.yaml.j2:6 if is never true"
    assert not_rendered == "templates/echoes.example.com/a.yaml.j2:7-8 is not rendered"
    code, out, err = await run("test", str(tmp_path), "--coverage-min=80", "--output=json")
    assert (code, err) == (1, "ssa-operator: the coverage is 70 %, and --coverage-min is 80\n")
    (covered,) = json.loads(out)["coverage"]["files"]
    assert covered["missedLines"] == [7, 8]
    assert covered["missedBranches"] == [{"line": 6, "message": "if is never true"}]
    other = case.parent / "two"
    other.mkdir()
    (other / "parent.yaml").write_text(PARENT.replace("text: a", "text: b"))
    code, out, _ = await run("test", str(tmp_path), "--update", "--coverage-min=100")
    assert (code, out.splitlines()[-1]) == (0, "coverage: 100 %, 10 of 10 lines and branches")


@pytest.mark.exhaustive
async def test_watch_runs_again_after_each_change_until_interrupted(tmp_path: Path) -> None:
    case = project(tmp_path)
    template = tmp_path / "templates" / "echoes.example.com" / "a.yaml.j2"
    async with started("test", str(tmp_path), "--watch") as watched:
        await watched.prints("1 case: 1 differs")
        update(case)
        await watched.prints("1 case: 1 passed")
        watched.printed.clear()
        template.write_text(TEMPLATE + "{% if %}\n")
        await watched.prints("1 case: 1 invalid")
        template.write_text(TEMPLATE)
        await watched.prints("1 case: 1 passed")
        watched.printed.clear()
        (case / "waits.txt").write_text("nothing\n")
        await watched.prints("1 case: 1 differs")
        watched.process.send_signal(signal.SIGINT)
        assert await watched.ended() == 130
