"""Files that templates read as text: they are never templates, and nothing outside of `files/` is one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssa_operator.rendering.folder.loaded_folders import load
from ssa_operator.rendering.render import render
from tests.rendering.folder.test_loaded_folders import ECHOES, config_map_mount, echoes, write
from tests.rendering.hostile_values import HOSTILE_VALUES
from tests.rendering.template_files import HEAD, parent

FILES = f"{ECHOES}/files"


def read(root: Path, expression: str) -> Any:
    """The value of an expression, or the text of its problem."""
    write(root, {f"{ECHOES}/a.yaml.j2": HEAD + f"v: {{{{ {expression} }}}}\n"})
    found = render(echoes(load(root)), parent({"file": "x.conf"}))
    return found.documents[0].body["v"] if found.documents else str(found.problems[0])


def problem(root: Path, expression: str) -> str:
    found = read(root, expression)
    assert isinstance(found, str)
    assert found.startswith(f"{ECHOES}/a.yaml.j2:5: ")
    return found.removeprefix(f"{ECHOES}/a.yaml.j2:5: ")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(
        tmp_path / "templates",
        {
            f"{FILES}/x.conf": "server { listen {{ port }}; }\n",
            f"{FILES}/a.yaml.j2": "{{ this is no template\n",
            f"{FILES}/b.yaml": "this: is no manifest\n",
            f"{FILES}/dash/one.json": "{}",
            f"{FILES}/dash/two.json": "[]",
            f"{FILES}/dash/notes.txt": "x",
            f"{FILES}/dash/more/three.json": "3",
            "_shared/files/ca.pem": "CA",
        },
    )
    return tmp_path / "templates"


def test_a_file_is_text_and_neither_template_nor_manifest(root: Path) -> None:
    assert read(root, "read_file('x.conf')") == "server { listen {{ port }}; }\n"
    assert read(root, "read_file(spec.file) | length") == 30
    assert read(root, "read_file('a.yaml.j2')") == "{{ this is no template\n"
    assert read(root, "read_file('b.yaml')") == "this: is no manifest\n"
    assert read(root, "read_file('_shared/ca.pem')") == "CA"


def test_several_files_are_a_mapping_by_base_name(root: Path) -> None:
    assert read(root, "read_files('dash/*.json')") == {"one.json": "{}", "two.json": "[]"}
    assert list(read(root, "read_files('**/*.json')")) == ["three.json", "one.json", "two.json"]
    assert read(root, "read_files('dash/???.json') | length") == 2
    assert read(root, "read_files('_shared/*')") == {"ca.pem": "CA"}
    assert read(root, "read_files('*.none')") == {}


def test_two_files_of_one_name_are_an_error(root: Path) -> None:
    write(root, {f"{FILES}/other/one.json": "x"})
    assert problem(root, "read_files('**/*.json')") == (
        "read_files: two files of **/*.json have the name one.json; rename one of them"
    )


def test_the_text_of_a_file_stays_data(root: Path) -> None:
    for hostile in HOSTILE_VALUES.values():
        (root / FILES / "x.conf").write_bytes(hostile.encode())
        assert read(root, "read_file('x.conf')") == hostile.removeprefix("\ufeff")


@pytest.mark.parametrize("name", ["../a.yaml.j2", "dash/../../a.yaml.j2", "/etc/passwd", ".."])
def test_no_name_leads_out_of_the_folder(root: Path, name: str) -> None:
    assert problem(root, f"read_file('{name}')") == f"read_file: {name} is outside of files/; name a file below it"
    assert problem(root, f"read_files('{name}')") == f"read_files: {name} is outside of files/; name a file below it"


def test_no_symbolic_link_leads_out_of_the_folder(root: Path, tmp_path: Path) -> None:
    write(tmp_path, {"secret/key.txt": "hunter2"})
    (root / FILES / "key.txt").symlink_to(tmp_path / "secret/key.txt")
    (root / FILES / "keys").symlink_to(tmp_path / "secret")
    (root / FILES / "up").symlink_to("..")
    (root / FILES / "lost.txt").symlink_to("nowhere")
    out = "is a symbolic link that leads out of files/"
    copy = "; copy the file"
    assert (
        problem(root, "read_file('key.txt')") == f"read_file: files/key.txt {out}, to {tmp_path}/secret/key.txt{copy}"
    )
    assert problem(root, "read_file('keys')") == f"read_file: files/keys {out}, to {tmp_path}/secret{copy}"
    assert problem(root, "read_file('keys/key.txt')").startswith("read_file: there is no file files/keys/key.txt")
    assert problem(root, "read_file('up')").startswith(f"read_file: files/up {out}, to ")
    assert problem(root, "read_file('lost.txt')").endswith("can't be read: its symbolic link leads nowhere")
    assert "hunter2" not in str(read(root, "read_files('dash/*')"))


def test_the_folder_itself_may_not_be_a_link_that_leads_out(root: Path, tmp_path: Path) -> None:
    write(tmp_path, {"elsewhere/x.conf": "hunter2"})
    for path in sorted((root / FILES).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / FILES).rmdir()
    (root / FILES).symlink_to(tmp_path / "elsewhere")
    found = read(root, "read_file('x.conf')")
    assert found == (
        f"{ECHOES}/files:1: the file can't be read: a symbolic link leads to {tmp_path}/elsewhere, which is outside of "
        f"{root}; copy what it names"
    )


def test_a_mounted_config_map_is_read_through_its_links(root: Path) -> None:
    config_map_mount(root / FILES / "mounted", "2026_1", {"y.conf": "one"})
    assert read(root, "read_file('mounted/y.conf')") == "one"
    config_map_mount(root / FILES / "mounted", "2026_2", {"y.conf": "two"})
    assert read(root, "read_file('mounted/y.conf')") == "two"


def test_a_link_within_the_folder_is_followed(root: Path) -> None:
    (root / FILES / "same.conf").symlink_to("x.conf")
    assert read(root, "read_file('same.conf') == read_file('x.conf')") is True


def test_a_file_that_is_no_text_is_an_error_unless_it_is_read_as_base64(root: Path) -> None:
    (root / FILES / "logo.png").write_bytes(b"\x89PNG\n\xff")
    assert problem(root, "read_file('logo.png')") == (
        "read_file: files/logo.png is not UTF-8 text in its line 1; write base64=true for a field that holds base64, "
        "such as binaryData"
    )
    assert read(root, "read_file('logo.png', base64=true)") == "iVBORwr/"
    assert read(root, "read_files('*.png', base64=true)") == {"logo.png": "iVBORwr/"}


def test_a_large_file_is_an_error_of_the_template_that_reads_it(root: Path) -> None:
    (root / FILES / "big").write_bytes(b"x" * (2**20 + 1))
    assert problem(root, "read_file('big')") == "read_file: files/big is larger than 1 MiB"
    assert read(root, "read_file('x.conf') | length") == 30


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("read_file('x.cnf')", "read_file: there is no file files/x.cnf; did you mean x.conf?"),
        ("read_file('zzz')", "read_file: there is no file files/zzz; it must be below files/ of the folder"),
        ("read_file(1)", "read_file: name must be a string, and this is a number"),
        ("read_file('')", "read_file: name must be a string, and this is a string"),
        ("read_files('x' * 2000)", "read_files: pattern is longer than 1024 characters"),
    ],
)
def test_what_is_no_file_is_an_error(root: Path, expression: str, message: str) -> None:
    assert problem(root, expression) == message


def test_many_asterisks_take_no_time(root: Path) -> None:
    write(root, {f"{FILES}/{'a' * 200}": "x"})
    assert read(root, "read_files('*a' * 100 ~ 'b')") == {}


def test_a_changed_file_is_a_change_of_the_folder(root: Path) -> None:
    write(root, {f"{ECHOES}/a.yaml.j2": HEAD})
    one = load(root)
    assert echoes(load(root, one)) is echoes(one)
    write(root, {f"{FILES}/x.conf": "changed"})
    two = load(root, one)
    assert echoes(two).digest != echoes(one).digest
    (root / "_shared/files/ca.pem").write_text("other")
    assert echoes(load(root, two)).digest != echoes(two).digest
