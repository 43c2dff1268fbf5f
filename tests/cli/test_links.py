"""Symbolic links, and names in answers of the API server, lead no command out of the project."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ssa_operator.cli.write import capture as capturing
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools.cases import captured_case
from tests.cli.process import run
from tests.tools.cases.test_golden_cases import PARENT, TEMPLATE, project

FOLDER = "echoes.example.com"
SECRET = "hunter2-of-somebody-else"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.yaml").write_text(PARENT.replace("text: a", f"text: {SECRET}"))
    (folder / "template.yaml.j2").write_text(TEMPLATE.replace("spec.text", "spec.txet"))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    project(tmp_path / "project")
    return tmp_path / "project"


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "name", ["parent.yaml", "children.yaml", "others.yaml", "now.txt", "expected.yaml", "waits.txt"]
)
async def test_a_link_of_a_golden_case_is_neither_read_nor_written_through(
    root: Path, outside: Path, name: str
) -> None:
    before = content(outside)
    link = root / "tests" / FOLDER / "one" / name
    link.unlink(missing_ok=True)
    link.symlink_to(outside / "secret.yaml")
    for words in ((), ("--update",), ("--output=json",)):
        code, out, err = await run("test", str(root), *words)
        assert code == 2
        assert SECRET not in out + err
        assert f"{outside}/secret.yaml, which is outside of {root}" in out
    assert content(outside) == before


@pytest.mark.more_cases
@pytest.mark.parametrize("place", ["tests", f"tests/{FOLDER}", f"tests/{FOLDER}/one"])
async def test_a_linked_folder_of_golden_cases_is_not_updated(root: Path, outside: Path, place: str) -> None:
    (root / place).rename(outside / "moved")
    (root / place).symlink_to(outside / "moved")
    before = content(outside)
    code, out, err = await run("test", str(root), "--update")
    assert code == 2
    assert f"{outside}/moved" in out + err
    assert content(outside) == before


async def test_an_expected_file_that_would_be_written_through_a_broken_link_is_not_made(
    root: Path, outside: Path
) -> None:
    (root / "tests" / FOLDER / "one" / "expected.yaml").symlink_to(outside / "new")
    code, out, _ = await run("test", str(root), "--update")
    assert code == 2
    assert f"{outside}/new" in out
    assert not (outside / "new").exists()


@pytest.mark.exhaustive
async def test_a_case_may_share_files_of_the_project(root: Path) -> None:
    (root / "examples").mkdir()
    parent = root / "tests" / FOLDER / "one" / "parent.yaml"
    parent.rename(root / "examples" / "hello.yaml")
    parent.symlink_to("../../../examples/hello.yaml")
    assert (await run("test", str(root), "--update"))[0] == 0
    assert (await run("test", str(root)))[1] == "1 case: 1 passed\n"


async def test_a_fix_is_not_written_through_a_link(root: Path, outside: Path) -> None:
    (root / "templates" / FOLDER / "a.yaml.j2").unlink()
    (root / "templates" / FOLDER / "a.yaml.j2").symlink_to(outside / "template.yaml.j2")
    before = content(outside)
    code, out, _ = await run("check", f"--templates={root / 'templates'}", "--fix")
    assert code == 1
    assert f"{FOLDER}/a.yaml.j2:1: error" in out
    assert f"a symbolic link leads to {outside}/template.yaml.j2" in out
    assert content(outside) == before


async def test_an_include_reads_nothing_outside(root: Path, outside: Path) -> None:
    (root / "templates" / FOLDER / "_part.j2").symlink_to(outside / "secret.yaml")
    (root / "templates" / FOLDER / "a.yaml.j2").write_text(
        TEMPLATE.replace("{{ spec.text }}", "{% include '_part.j2' %}")
    )
    parent = root / "tests" / FOLDER / "one" / "parent.yaml"
    code, out, err = await run("render", str(parent), f"--templates={root / 'templates'}")
    assert code == 1
    assert SECRET not in out + err
    assert f"a symbolic link leads to {outside}/secret.yaml" in err


@pytest.mark.more_cases
@pytest.mark.parametrize("words", [("render",), ("graph",)])
async def test_a_parent_behind_a_link_is_not_read(root: Path, outside: Path, words: tuple[str, ...]) -> None:
    (root / "parent.yaml").symlink_to(outside / "secret.yaml")
    (root / "parents").symlink_to(outside)
    for path in ("parent.yaml", "parents/secret.yaml"):
        code, out, err = await run(*words, str(root / path), f"--templates={root / 'templates'}")
        assert code == 1
        assert SECRET not in out + err
        assert f"{outside}/secret.yaml, which is outside of {root}" in err


@pytest.mark.parametrize("folder", ["crds", "examples"])
async def test_a_folder_beside_the_templates_is_no_link_that_leads_out(root: Path, outside: Path, folder: str) -> None:
    (root / folder).symlink_to(outside)
    code, _, err = await run("rbac", f"--templates={root / 'templates'}")
    assert code == 2
    assert f"{outside}, which is outside of {root}; copy what it names, or name it with --{folder}" in err


@pytest.mark.parametrize(("folder", "options"), [("crds", ("--crd",)), ("examples", ())])
async def test_new_writes_through_no_link(root: Path, outside: Path, folder: str, options: tuple[str, ...]) -> None:
    (root / folder).symlink_to(outside)
    before = content(outside)
    code, _, err = await run("new", "WebSite", "--group=example.com", f"--templates={root / 'templates'}", *options)
    assert code == 2
    assert str(outside) in err
    assert content(outside) == before


async def test_a_report_is_not_written_through_a_link(root: Path, outside: Path) -> None:
    (root / "junit.xml").symlink_to(outside / "secret.yaml")
    before = content(outside)
    code, _, err = await run("test", str(root), f"--junit={root / 'junit.xml'}")
    assert code == 2
    assert f"a symbolic link leads to {outside}/secret.yaml" in err
    assert content(outside) == before


@pytest.mark.parametrize("name", ["../../../victim/ssh", "..", "a/b", ".ssh", "_x", "a\nb", "\x1b[2J", ""])
def test_a_name_of_the_api_server_is_one_folder_or_an_error(
    root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = root.parent / "victim" / ".ssh"
    victim.mkdir(parents=True)
    (victim / "key").write_text(SECRET)

    async def read(*_: object) -> object:
        folder = SimpleNamespace(name=FOLDER, root=root / "templates")
        live = SimpleNamespace(identity=SimpleNamespace(name=name))
        return SimpleNamespace(planned=SimpleNamespace(parent=SimpleNamespace(folder=folder, live=live)))

    # The real API server refuses such names.
    monkeypatch.setattr(captured_case, "read_live_case", read)
    monkeypatch.setenv("KUBECONFIG", str(root / "kubeconfig"))
    before = content(root.parent)
    with pytest.raises(CommandError, match="name the case with --case"):
        capturing.capture(["echo/hello"], templates=[root / "templates"])
    assert content(root.parent) == before
