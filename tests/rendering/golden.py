"""Golden cases: a folder with a parent, the objects of the cluster, and the expected render.

`resource.yaml` is the parent, `expected.yaml` the manifests. Where there are: `children.yaml` are its live children,
`others.yaml` other live objects, `now.txt` the moment; `problems.txt` and `waits.txt` have one sentence a line;
`status.yaml` has the fields of `_status.yaml.j2`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from ssa_operator.core.objects.manifest import group_kind
from ssa_operator.core.objects.render_result import Rendered
from ssa_operator.rendering.folder.sources import Folder
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.rendering.render import render, render_status, render_traced
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import SlotValues
from tests.rendering.template_files import FakeClusterView


def read(path: Path) -> list[Any]:
    """The documents of a file; none if there is no such file."""
    return [node.build(SlotValues()) for node in parse(StaticText(_text(path), path.name))]


def check(case: Path, folder: Folder) -> None:
    """Fail if the folder renders something else for the case's parent."""
    assert folder.problems == ()
    (owner,) = read(case / "resource.yaml")
    now = _text(case / "now.txt").strip()

    def view() -> FakeClusterView:
        return FakeClusterView(
            children=tuple(read(case / "children.yaml")),
            others=tuple(read(case / "others.yaml")),
            now=datetime.fromisoformat(now).timestamp() if now else 0.0,
        )

    cluster = view()
    result = render(folder, owner, cluster)
    assert {*_shown(result)} <= {*_shown(render_traced(folder, owner, view()))}
    assert [str(problem) for problem in result.problems] == _text(case / "problems.txt").splitlines()
    assert [f"{wait.location}: {wait}" for wait in result.waits] == _text(case / "waits.txt").splitlines()
    assert [document.body for document in result.documents] == read(case / "expected.yaml")
    possible = {manifest.group_kind for manifest in template_contents(folder).manifests}
    assert {group_kind(document) for document in result.documents} <= possible
    if (case / "status.yaml").exists():
        status = render_status(folder, owner, cluster)
        assert status.problems == ()
        assert [status.fields] == read(case / "status.yaml")


def _shown(result: Rendered) -> list[str]:
    """A render's documents and waits, each with its line and its dependencies."""
    documents = [(document.location, document.body, document.dependencies) for document in result.documents]
    waits = [(wait.location, wait, wait.dependencies) for wait in result.waits]
    return [
        f"{location}: {what} {[(each.query, each.awaited, each.after) for each in dependencies]}"
        for location, what, dependencies in (*documents, *waits)
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
