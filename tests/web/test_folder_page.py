"""The page of a template folder."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.rendering.folder.loaded_folders import Folder, Sources, load
from ssa_operator.web.folder_page import (
    MAX_LINES,
    STAND_IN,
    FolderGraph,
    differences,
    folder_graph,
    make_folder_page,
    shown_lines,
)

NAME = "echoes.example.com"
PARENT = {
    "apiVersion": "example.com/v1",
    "kind": "Echo",
    "metadata": {"name": "sample", "namespace": "default", "uid": "u", "generation": 1},
    "spec": {"replicas": 1},
}
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}-%s\ndata:\n  a: b\n"


def loaded(root: Path, before: Folder | None = None, **files: str) -> Folder:
    folder = root / NAME
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, text in files.items():
        (folder / f"{name}.yaml.j2").write_text(text)
    previous = None if before is None else Sources(folders={NAME: before})
    return load(root, previous).folders[NAME]


def test_a_folder_that_does_not_load_has_problems_by_line_and_what_changed(tmp_path: Path) -> None:
    good = loaded(tmp_path, one=CONFIG % "one", two=CONFIG % "two")
    page = make_folder_page(good, None, "", FolderGraph())
    assert page.loads
    assert not page.files[f"{NAME}/one.yaml.j2"].difference
    broken = loaded(tmp_path, good, one=CONFIG % "one" + "  {% if %}\n")
    page = make_folder_page(broken, None, "", FolderGraph())
    assert (page.loads, page.digest) == (False, good.digest[:12])
    one, two = page.files[f"{NAME}/one.yaml.j2"], page.files[f"{NAME}/two.yaml.j2"]
    assert [problem.line for problem in one.problems] == [7]
    assert one.lines[6] == "  {% if %}"
    assert [(line.mark, line.text) for line in one.difference if line.mark not in " @"] == [("+", "  {% if %}")]
    assert two.removed
    assert {line.mark for line in two.difference} == {"@", "-"}
    again = loaded(tmp_path, broken, one=CONFIG % "one")
    assert make_folder_page(again, None, "", FolderGraph()).loads


def test_settings_that_do_not_load_are_compared_with_the_last_good_ones(tmp_path: Path) -> None:
    good = loaded(tmp_path, one=CONFIG % "one")
    settings = tmp_path / NAME / "_settings.yaml"
    settings.write_text("interval: 5m\n")
    good = load(tmp_path, Sources(folders={NAME: good})).folders[NAME]
    assert not good.problems
    settings.write_text("interval: often\nunknown: 1\n")
    broken = load(tmp_path, Sources(folders={NAME: good})).folders[NAME]
    page = make_folder_page(broken, None, "", FolderGraph())
    shown = page.files[f"{NAME}/_settings.yaml"]
    assert not page.loads
    assert shown.problems
    marks = [(line.mark, line.text) for line in shown.difference if line.mark in "+-"]
    assert marks == [("-", "interval: 5m"), ("+", "interval: often"), ("+", "unknown: 1")]
    assert not page.files[f"{NAME}/one.yaml.j2"].difference


def test_a_shared_file_that_does_not_load_is_compared_with_the_last_good_one(tmp_path: Path) -> None:
    shared = tmp_path / "_shared"
    shared.mkdir()
    (shared / "unused.j2").write_text("a: b\n")
    (shared / "name.j2").write_text("app: web\n")
    good = loaded(tmp_path, one=CONFIG % "one" + "  {% include '_shared/name.j2' %}\n")
    page = make_folder_page(good, None, "", FolderGraph())
    assert list(page.files) == [f"{NAME}/one.yaml.j2", "_shared/name.j2"]
    (shared / "name.j2").write_text("app: web\nmore: {% if %}\n")
    broken = load(tmp_path, Sources(folders={NAME: good})).folders[NAME]
    page = make_folder_page(broken, None, "", FolderGraph())
    shown = page.files["_shared/name.j2"]
    assert not page.problems
    assert [problem.line for problem in shown.problems] == [2]
    assert [(line.mark, line.text) for line in shown.difference if line.mark in "+-"] == [("+", "more: {% if %}")]
    assert list(page.files) == [f"{NAME}/one.yaml.j2", "_shared/name.j2"]
    # Without any good load, it has its problem.
    never = load(tmp_path).folders[NAME]
    assert make_folder_page(never, None, "", FolderGraph()).files["_shared/name.j2"].problems


def test_the_graph_has_layers_of_what_waits_for_what(tmp_path: Path) -> None:
    reads = (CONFIG % "top").replace("a: b", "a: {{ child('ConfigMap', name ~ '-one').data.a }}")
    folder = loaded(tmp_path, one=CONFIG % "one", top=reads)
    graph = folder_graph(folder, PARENT, frozenset())
    assert [(node.label, node.layer) for node in graph.nodes] == [
        ("ConfigMap/sample-one", 0),
        ("ConfigMap/sample-top", 1),
    ]
    (edge,) = graph.edges
    assert (edge.source, edge.target, edge.label, edge.awaited) == (1, 0, ".data.a", True)
    assert (edge.file, edge.line) == (f"{NAME}/top.yaml.j2", 6)


def test_what_a_file_writes_into_a_secret_is_not_shown() -> None:
    text = """\
apiVersion: v1
kind: Secret
metadata:
  name: x
{% set pin = "hunter2-a" %}
{% set pin = 123456789 %}
stringData:
  password: hunter2-b
  more: |
    hunter2-c
data: {a: hunter2-d}
{# hunter2-e #}
{{ "hunter2-f" }}
"""
    lines = shown_lines("a.yaml.j2", text)
    assert "hunter2" not in "\n".join(lines)
    assert "123456789" not in "\n".join(lines)
    assert lines[:3] == ["apiVersion: v1", "kind: Secret", "metadata:"]
    assert lines[7] == f"  password: {STAND_IN}"
    assert len(lines) == 13
    # The values of an installation may be a Secret's.
    assert shown_lines(f"{NAME}/_values.yaml", "token: hunter2\n") == [f"token: {STAND_IN}"]
    assert shown_lines("a.yaml.j2", "kind: SecretStore\nkey: shown\n") == ["kind: SecretStore", "key: shown"]


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12))
def test_a_difference_has_what_went_and_what_came(before: list[str], after: list[str]) -> None:
    found = differences(before, after)
    kept = len(before) - sum(line.mark == "-" for line in found)
    assert kept == len(after) - sum(line.mark == "+" for line in found)
    assert (found == []) == (before == after)


def test_a_long_file_has_its_beginning() -> None:
    assert len(shown_lines("a", "x\n" * (MAX_LINES + 9))) == MAX_LINES
