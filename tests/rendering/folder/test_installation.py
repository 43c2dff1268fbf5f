"""Settings of the installation: `_values.yaml`, the files of `--values` over it, and the variable `operator`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssa_operator import __version__
from ssa_operator.objects.cluster_view import OFFLINE
from ssa_operator.objects.template_contents import TemplateContents
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources, load_all
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.rendering.render import render, render_traced
from ssa_operator.rendering.yaml.to_yaml import yaml_text
from tests.rendering.folder.test_loaded_folders import ECHOES, echoes, problems, write
from tests.rendering.hostile_values import HOSTILE_VALUES
from tests.rendering.template_files import HEAD, parent

TEMPLATE = HEAD + "v: {{ values.image | default(none) }}\nw: {{ values.log.level | default('info') }}\n"


def loaded(root: Path, *files: Path, previous: Sources | None = None) -> Sources:
    return load_all([root], previous, Installation(values=files))


def body(folder: Folder) -> Any:
    found = render(folder, parent({}))
    assert (found.problems, found.waits) == ((), ())
    return found.documents[0].body


def file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "templates", {f"{ECHOES}/a.yaml.j2": TEMPLATE})
    return tmp_path / "templates"


def test_later_files_override_earlier_ones_and_those_the_folder(root: Path, tmp_path: Path) -> None:
    assert body(echoes(loaded(root)))["v"] is None
    write(root, {f"{ECHOES}/_values.yaml": "image: a:1\nlog: {level: debug, format: json}\n"})
    assert body(echoes(loaded(root)))["v"] == "a:1"
    one = file(tmp_path / "one.yaml", f"{ECHOES}:\n  image: b:1\n")
    two = file(tmp_path / "two.yaml", f"{ECHOES}:\n  log: {{level: warn}}\n")
    three = file(tmp_path / "three.yaml", f"{ECHOES}:\n  image: null\n  log: {{level: null}}\n")
    assert body(echoes(loaded(root, one, two))) == body(echoes(loaded(root, two, one)))
    assert (body(echoes(loaded(root, one, two)))["v"], body(echoes(loaded(root, one, two)))["w"]) == ("b:1", "warn")
    removed = echoes(loaded(root, one, two, three))
    assert removed.templates is not None
    assert removed.templates.surroundings.values == {"log": {"format": "json"}}


def test_lists_are_replaced_whatever_their_name(root: Path, tmp_path: Path) -> None:
    write(root, {f"{ECHOES}/_values.yaml": "env: [{name: A}]\n"})
    found = echoes(loaded(root, file(tmp_path / "v.yaml", f"{ECHOES}: {{env: [{{name: B}}]}}\n")))
    assert found.templates is not None
    assert found.templates.surroundings.values == {"env": [{"name": "B"}]}


def test_a_hostile_setting_stays_data(root: Path, tmp_path: Path) -> None:
    for hostile in HOSTILE_VALUES.values():
        text = yaml_text({ECHOES: {"image": hostile}})
        assert body(echoes(loaded(root, file(tmp_path / "v.yaml", text))))["v"] == hostile


def test_a_missing_setting_is_an_error_with_file_and_line(root: Path) -> None:
    write(root, {f"{ECHOES}/_values.yaml": "image: {}\n", f"{ECHOES}/a.yaml.j2": HEAD + "v: {{ values.image.tag }}\n"})
    (found,) = render(echoes(loaded(root)), parent({})).problems
    assert str(found) == (
        f"{ECHOES}/a.yaml.j2:5: values.image.tag is missing; set it in _values.yaml, or write values.image.tag | "
        "default(...)"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x: 1\na: [\n", "2: did not find expected node content"),
        ("- a\n", "1: values must be a mapping"),
        ("a: 1\n---\nb: 1\n", "3: there may be only one document"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_the_last_good_one_stays(root: Path, text: str, problem: str) -> None:
    write(root, {f"{ECHOES}/_values.yaml": "image: a:1\n"})
    good = loaded(root)
    write(root, {f"{ECHOES}/_values.yaml": text})
    bad = echoes(loaded(root, previous=good))
    (found, *_) = bad.problems
    assert str(found).startswith(f"{ECHOES}/_values.yaml:{problem}")
    assert render(bad, parent({})).documents[0].body["v"] == "a:1"


def test_a_bad_override_keeps_the_last_good_one(root: Path, tmp_path: Path) -> None:
    override = file(tmp_path / "v.yaml", f"{ECHOES}: {{image: b:1}}\n")
    good = loaded(root, override)
    override.write_text(f"# broken\n{ECHOES}: {{image: b:2\n")
    bad = echoes(loaded(root, override, previous=good))
    assert str(bad.problems[0]).startswith(f"{override}:2: ")
    assert render(bad, parent({})).documents[0].body["v"] == "b:1"
    override.unlink()
    gone = echoes(loaded(root, override, previous=good))
    assert str(gone.problems[0]).startswith(f"{override}:1: the file can't be read: No such file")
    override.write_text(f"{ECHOES}: 7\n")
    assert str(echoes(loaded(root, override)).problems[0]) == f"{override}:1: the values of {ECHOES} must be a mapping"
    override.write_text(f"{ECHOES}: {{image: b:3}}\n")
    assert body(echoes(loaded(root, override, previous=loaded(root, override, previous=good))))["v"] == "b:3"


def test_a_bad_override_of_one_folder_leaves_the_others(root: Path, tmp_path: Path) -> None:
    write(root, {"others.example.com/a.yaml.j2": TEMPLATE})
    override = file(tmp_path / "v.yaml", f"{ECHOES}: 7\nothers.example.com: {{image: x}}\n")
    found = loaded(root, override)
    assert echoes(found).problems != ()
    assert body(found.folders["others.example.com"])["v"] == "x"


def test_the_values_of_a_folder_that_does_not_exist_are_a_problem_with_line(root: Path, tmp_path: Path) -> None:
    override = file(tmp_path / "v.yaml", "\nechos.example.com: {}\n")
    (found,) = problems(loaded(root, override))
    assert found.startswith(
        f"{override}:2: there is no template folder echos.example.com, so these values have no effect"
    )
    assert found.endswith(f"; did you mean {ECHOES}?")


def test_a_change_of_values_is_a_change_of_the_folder(root: Path, tmp_path: Path) -> None:
    override = file(tmp_path / "v.yaml", f"{ECHOES}: {{image: b:1}}\n")
    one = loaded(root, override)
    assert echoes(loaded(root, override, previous=one)) is echoes(one)
    override.write_text(f"{ECHOES}: {{image: b:2}}\n")
    assert echoes(loaded(root, override, previous=one)).digest != echoes(one).digest


def test_macros_of_other_files_see_the_settings(root: Path) -> None:
    write(
        root,
        {
            "_shared/m.yaml.j2": "{% macro image() %}{{ values.image }}-{{ operator.namespace }}{% endmacro %}\n",
            f"{ECHOES}/_values.yaml": "image: a\n",
            f"{ECHOES}/a.yaml.j2": "{% from '_shared/m.yaml.j2' import image %}\n" + HEAD + "v: {{ image() }}\n",
        },
    )
    assert body(echoes(loaded(root)))["v"] == "a-default"


def test_templates_see_the_operator(root: Path) -> None:
    write(root, {f"{ECHOES}/a.yaml.j2": HEAD + "v: {{ operator }}\n"})
    (document,) = render(echoes(load_all([root], None, Installation(namespace="ops"))), parent({})).documents
    assert document.body["v"] == {"namespace": "ops", "version": __version__}


def test_blame_names_the_setting_that_a_field_comes_from(root: Path) -> None:
    write(root, {f"{ECHOES}/_values.yaml": "image: a:1\n"})
    (document,) = render_traced(echoes(loaded(root)), parent({}), OFFLINE).documents
    assert document.origin_of is not None
    assert str(document.origin_of(("v",))) == "values.image"


def contents(root: Path) -> TemplateContents:
    options: dict[tuple[str, ...], frozenset[str]] = {}
    return template_contents(echoes(loaded(root)), options.get)


def test_permissions_follow_from_the_settings(root: Path) -> None:
    kind = "apiVersion: apps/v1\nkind: {{ values.kind }}\nmetadata: {name: x}\n"
    write(root, {f"{ECHOES}/_values.yaml": "kind: DaemonSet\n", f"{ECHOES}/a.yaml.j2": kind})
    found = contents(root)
    assert [str(each.group_kind) for each in found.manifests] == ["DaemonSet.apps"]
    assert found.unknown == ()
    assert found.fields == ()
