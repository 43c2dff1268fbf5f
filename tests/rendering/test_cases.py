"""Golden cases: each folder of tests/cases is a parent, its templates, and what they render.

A case without templates of its own has those of the project. The live children are in `children.yaml`, problems in
`problems.txt` and waits in `waits.txt`, one a line; a case with a `status.yaml` has the fields of its `_status.yaml.j2`
there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssa_operator.rendering.documents import parse
from ssa_operator.rendering.nodes import Filling
from ssa_operator.rendering.places import Lines
from ssa_operator.rendering.render import render, render_status
from ssa_operator.rendering.sources import load
from tests.rendering.author import FakeWorld

CASES = Path(__file__).parent.parent / "cases"


def read(path: Path) -> list[Any]:
    return [node.build(Filling()) for node in parse(Lines(path.read_text(encoding="utf-8"), path.name))]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir()))
def test_a_case_renders_what_it_expects(name: str) -> None:
    case = CASES / name
    own = case / "templates"
    sources = load(own if own.exists() else CASES.parent.parent / "templates")
    assert sources.problems == ()
    (owner,) = read(case / "resource.yaml")
    assert isinstance(owner, dict)
    group = owner["apiVersion"].partition("/")[0]
    (folder,) = (folder for folder in sources.folders.values() if own.exists() or folder.group == group)
    assert folder.problems == ()
    world = FakeWorld(children=tuple(read(case / "children.yaml")) if (case / "children.yaml").exists() else ())
    result = render(folder, owner, world)
    assert [str(problem) for problem in result.problems] == lines(case / "problems.txt")
    assert [f"{wait.place}: {wait}" for wait in result.waits] == lines(case / "waits.txt")
    assert [document.body for document in result.documents] == read(case / "expected.yaml")
    if (case / "status.yaml").exists():
        status = render_status(folder, owner, world)
        assert status.problems == ()
        assert [status.fields] == read(case / "status.yaml")
