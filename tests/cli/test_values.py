"""`--values` of every command that renders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.process import run
from tests.operator.harness import ECHOES, ROOT, map_template

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
