"""Symbolic links and special files: none leads out of its folder, whoever reads, walks, watches or writes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.operator.crd_files import DefinitionError, load_crds
from ssa_operator.rendering.folder import contained_files
from ssa_operator.rendering.folder.contained_files import (
    RefusedFileError,
    is_file_name,
    project_folder,
    read_bytes,
    read_given,
    real_path,
    remove,
    write_bytes,
)
from ssa_operator.rendering.folder.folder_snapshot import folder_state, read_snapshot
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import load, load_all
from ssa_operator.rendering.folder.object_files import FileError, load_objects
from tests.rendering.template_files import HEAD

ECHOES = "echoes.example.com"
OTHERS = "others.example.com"
SECRET = "hunter2"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the project, with what nobody should read."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.yaml").write_text(HEAD + f"v: {SECRET}\n")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "templates" / ECHOES).mkdir(parents=True)
    (folder / "templates" / OTHERS).mkdir()
    for name in (ECHOES, OTHERS):
        (folder / "templates" / name / "a.yaml").write_text(HEAD)
    return folder


@pytest.mark.parametrize("place", [f"{ECHOES}/link.yaml", f"{ECHOES}/_settings.yaml", f"{ECHOES}/_values.yaml"])
def test_a_link_out_of_the_templates_is_a_problem_that_names_its_target(
    project: Path, outside: Path, place: str
) -> None:
    root = project / "templates"
    (root / place).symlink_to(os.path.relpath(outside / "secret.yaml", (root / place).parent))
    sources = load(root)
    (problem,) = sources.folders[ECHOES].problems
    assert str(problem) == (
        f"{place}:1: the file can't be read: a symbolic link leads to {outside}/secret.yaml, which is outside of "
        f"{root}; copy what it names"
    )
    assert not sources.folders[OTHERS].problems
    assert SECRET not in str(read_snapshot(root))


@pytest.mark.parametrize("target", ["/", "..", "../.."])
@pytest.mark.parametrize("place", [f"{ECHOES}/sub", "escapes.example.com", "_shared", f"{ECHOES}/files"])
def test_a_link_to_a_folder_outside_is_not_walked(project: Path, place: str, target: str) -> None:
    root = project / "templates"
    if target == ".." and "/" in place:
        pytest.skip("it leads to the templates folder itself")
    (root / place).symlink_to(target)
    assert [path for path in folder_state(root) if path.startswith(place)] == [place]
    sources = load(root)
    problems = [*sources.problems, *(each for folder in sources.folders.values() for each in folder.problems)]
    assert [str(each) for each in problems if "symbolic link leads to /" in str(each) and f"{place}:1:" in str(each)]
    assert not sources.folders[OTHERS].problems


def test_a_link_to_a_hidden_file_of_the_project_is_refused(project: Path) -> None:
    root = project / "templates"
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(SECRET)
    (root / ECHOES / "link.yaml").symlink_to("../.git/config")
    assert str(load(root).folders[ECHOES].problems[0]) == (
        f"{ECHOES}/link.yaml:1: the file can't be read: a symbolic link leads to {root}/.git/config, and .git is "
        "hidden; copy what it names"
    )


def test_a_link_within_the_templates_and_a_templates_folder_behind_links_count(project: Path, tmp_path: Path) -> None:
    root = project / "templates"
    (root / ECHOES / "b.yaml").symlink_to(f"../{OTHERS}/a.yaml")
    (root / "third.example.com").symlink_to(OTHERS)
    (tmp_path / "current").symlink_to("project")
    (tmp_path / "direct").symlink_to("current/templates")
    for given_root in (root, tmp_path / "current" / "templates", tmp_path / "direct"):
        sources = load(given_root)
        assert set(sources.folders) == {ECHOES, OTHERS, "third.example.com"}
        assert not [each for folder in sources.folders.values() for each in folder.problems]
        assert "b.yaml" in sources.folders[ECHOES].files


def test_links_among_each_other_make_no_more_paths_than_files(tmp_path: Path) -> None:
    depth = 30
    for number in range(depth):
        folder = tmp_path / f"f{number}"
        folder.mkdir()
        for name in ("one", "two"):
            (folder / name).symlink_to(f"../f{number + 1}")
    (tmp_path / f"f{depth}").mkdir()
    assert len(folder_state(tmp_path)) < 10 * depth


def test_the_number_of_files_is_bounded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssa_operator.rendering.folder.folder_snapshot.MAX_ENTRIES", 3)
    assert "has more than 3 files and folders" in str(load(project / "templates").problems[0])


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket has 108 characters at most
        try:
            opened.bind(path.name)
        finally:
            os.chdir(here)


@pytest.mark.parametrize("make", [_fifo, _device, _socket])
def test_what_is_no_regular_file_is_refused_and_never_opened(
    project: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, crds = project / "templates", project / "crds"
    crds.mkdir()
    for path in (root / ECHOES / "x.yaml", root / ECHOES / "files" / "x", crds / "x.yaml", project / "values.yaml"):
        path.parent.mkdir(exist_ok=True)
        make(path)
    opened = os.open

    def noted(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        assert Path(path).name not in ("x.yaml", "x", "values.yaml"), "it is opened"
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", noted)
    sources = load_all([root], installation=Installation(values=(project / "values.yaml",)))
    texts = [str(each) for each in sources.folders[ECHOES].problems]
    assert any(f"{ECHOES}/x.yaml:1: the file can't be read: " in each for each in texts)
    assert any(f"{project}/values.yaml:1: the file can't be read: " in each for each in texts)
    with pytest.raises(DefinitionError, match=r"x\.yaml"):
        load_crds(crds)


def test_a_file_over_the_limit_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "large.yaml"
    with path.open("wb") as file:
        file.truncate(2**40)

    def no_read(_file: int, _size: int) -> bytes:
        raise AssertionError("it is read")

    monkeypatch.setattr(os, "read", no_read)
    with pytest.raises(FileError, match="larger than 64 MiB"):
        load_objects([path])


@pytest.mark.parametrize("folder", ["crds", "examples"])
def test_a_link_among_crds_and_examples_may_lead_to_the_project_only(project: Path, outside: Path, folder: str) -> None:
    (project / folder).mkdir()
    (project / "common").mkdir()
    (project / "common" / "b.yaml").write_text(HEAD)
    (project / folder / "b.yaml").symlink_to("../common/b.yaml")
    assert len(load_objects([project / folder])) == 1
    (project / folder / "c.yaml").symlink_to(outside / "secret.yaml")
    for path in (project / folder, project / folder / "c.yaml"):
        with pytest.raises(FileError, match=f"{outside}/secret.yaml, which is outside of {project}"):
            load_objects([path])


def test_a_folder_that_a_user_names_may_be_a_link(project: Path, outside: Path) -> None:
    (project / "linked").symlink_to(outside)
    assert len(load_objects([project / "linked"])) == 1


def test_what_a_shell_makes_of_a_command_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, HEAD.encode())
    os.close(writing)
    assert read_given(Path(f"/dev/fd/{reading}")) == HEAD.encode()
    os.close(reading)


def test_a_write_goes_through_no_link_that_leads_out(project: Path, outside: Path) -> None:
    victim = outside / "victim"
    (project / "out").symlink_to(victim)
    (project / "folder").symlink_to(outside)
    for path in (project / "out", project / "folder" / "victim", project / "folder" / "new" / "victim"):
        with pytest.raises(RefusedFileError, match="a symbolic link leads to"):
            write_bytes(path, b"x")
    with pytest.raises(RefusedFileError):
        remove(project / "folder" / "secret.yaml", project)
    assert [each.name for each in outside.iterdir()] == ["secret.yaml"]
    _fifo(project / "fifo")
    with pytest.raises(RefusedFileError, match="it is a FIFO"):
        write_bytes(project / "fifo", b"x")


def test_a_write_keeps_the_mode_and_makes_folders(project: Path) -> None:
    path = project / "deep" / "er" / "a.txt"
    write_bytes(path, b"long text")
    path.chmod(0o640)
    write_bytes(path, b"text")
    assert path.read_bytes() == b"text"
    assert path.stat().st_mode & 0o777 == 0o640
    (project / "link.txt").symlink_to("deep/er/a.txt")
    write_bytes(project / "link.txt", b"linked")
    assert path.read_bytes() == b"linked"
    remove(project / "link.txt", project)
    assert path.exists()


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_link_that_takes_the_place_of_a_file_after_the_check_is_not_followed(
    project: Path, outside: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, path = project / "deep", project / "deep" / "secret.yaml"
    folder.mkdir()
    path.write_text(HEAD)

    def checked(found: Path, within: Path) -> Path:
        result = real_path(found, within)
        if swapped == "file":
            path.unlink()
            path.symlink_to(outside / "secret.yaml")
        else:
            folder.rename(project / "away")
            folder.symlink_to(outside)
        return result

    monkeypatch.setattr(contained_files, "real_path", checked)
    with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
        read_bytes(path, project, 2**20)


def test_the_project_is_the_nearest_folder_with_templates_or_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "clone" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "clone")
    assert project_folder(inner / "a.yaml") == tmp_path / "clone"
    monkeypatch.chdir("/")
    assert project_folder(inner / "a.yaml") == inner
    (tmp_path / ".git").mkdir()
    assert project_folder(inner / "a.yaml") == tmp_path
    (tmp_path / "clone" / "templates").mkdir()
    assert project_folder(inner / "a.yaml") == tmp_path / "clone"
    monkeypatch.setenv("HOME", str(tmp_path / "clone"))
    assert project_folder(tmp_path / "clone" / "a.yaml") == tmp_path
    assert project_folder(Path("/crds/a.yaml")) == Path("/crds")


@given(st.text(max_size=300))
def test_a_name_of_another_origin_is_one_segment_or_refused(name: str) -> None:
    if is_file_name(name):
        assert os.path.normpath(f"/folder/{name}") == f"/folder/{name}"
        assert Path("/folder", name).parent == Path("/folder")
        assert Path("/folder", name).name == name
    for bad in ("", ".", "..", f"{name}/", f"../{name}", f".{name}", f"{name}\n", f"\x1b{name}", "x" * 256):
        assert not is_file_name(bad)
