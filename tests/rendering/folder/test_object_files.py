"""Static YAML files of objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.rendering.folder.object_files import FileError, load_objects
from tests.rendering.template_files import HEAD


def test_objects_have_their_source_location(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(f"# two\n{HEAD}---\n{HEAD}")
    (tmp_path / "a.yml").write_text(HEAD)
    found = load_objects([tmp_path])
    assert [(Path(each.location.file).name, each.location.line) for each in found] == [
        ("a.yml", 1),
        ("b.yaml", 2),
        ("b.yaml", 7),
    ]


def test_every_fault_of_every_file_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + "v: a: b\n")
    (tmp_path / "b.yaml").write_text("\nkind: A\n")
    (tmp_path / "c.yaml").write_bytes(b"\xff")
    with pytest.raises(FileError) as caught:
        load_objects([tmp_path, tmp_path / "d.yaml"])
    assert [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems] == [
        "a.yaml:5: mapping values are not allowed in this context; put a value with a colon into quotes",
        "b.yaml:2: apiVersion is missing",
        "c.yaml:1: the file is not UTF-8 text; save it as UTF-8",
        f"{tmp_path}/d.yaml can't be read: No such file or directory".removeprefix(f"{tmp_path}/"),
    ]
