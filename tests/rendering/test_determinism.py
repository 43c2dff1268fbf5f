"""Templates render the same manifests each time: the render refuses expressions and documents that would differ."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Rendered
from ssa_operator.rendering.determinism import CHECKED_EDITS, CHECKED_PARENTS, TrustedTemplates, verified
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.render import render
from tests.rendering.template_files import FakeClusterView, fault, manifest, parent, templates, value

SPEC = {"n": "name", "l": ["a", "b"], "m": {"x": 1, "y": 2, "z": 3, "w": 4, "v": 5}}

SECRET = manifest("Secret", "s", "stringData:\n  password: {{ generated() }}\n")


@pytest.mark.parametrize(
    "expression",
    [
        "{'a': spec.n.upper} | urlencode",
        "range | urlencode",
        "'x' | replace('x', range)",
        "cycler('a') | urlencode",
        "joiner() | urlencode",
        "lookup | urlencode",
        "'%s' | format(range)",
        "range ~ ''",
        "{range: 1}",
        "{range: 1} | tojson",
    ],
)
def test_what_python_writes_with_an_address_is_refused(expression: str) -> None:
    """An address stays the same within a process, so that two renders would not differ."""
    message = fault(expression, SPEC)
    assert " at 0x" not in message
    assert any(words in message for words in ("is a function; call it", "can't be put into a manifest", "as a key"))


def test_what_is_read_one_after_the_other_is_a_list_wherever_it_is_written() -> None:
    assert value("spec.l | map('upper') | string", SPEC) == '["A","B"]'
    assert value("spec.m.items() | urlencode", SPEC) == "x=1&y=2&z=3&w=4&v=5"
    assert value("spec.m.keys() | string", SPEC) == '["x","y","z","w","v"]'


def test_a_difference_of_keys_keeps_their_order() -> None:
    assert value("spec.m.keys() - ['y']", SPEC) == ["x", "z", "w", "v"]
    assert value("spec.m.items() - [('x', 1)] | list", SPEC) == [["y", 2], ["z", 3], ["w", 4], ["v", 5]]
    assert value("(['q', 'x', 'r', 's', 'q'] - spec.m.keys()) | join", SPEC) == "qrs"


def test_the_order_is_the_same_in_every_process() -> None:
    code = "from tests.rendering.test_determinism import *; print(value(\"spec.m.keys() - ['y']\", SPEC))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert outputs == {"['x', 'z', 'w', 'v']\n"}


def checked(files: Mapping[str, str], cluster: FakeClusterView) -> tuple[Rendered, Rendered]:
    """A render, and the same render after the check."""
    rendered = render(templates(files), parent(), cluster)
    return rendered, verified(templates(files), parent(), cluster, rendered)


def test_a_render_that_is_the_same_again_is_left_as_it_is() -> None:
    for files in (
        {"a.yaml.j2": manifest("ConfigMap", "c")},
        {"a.yaml.j2": ""},
        {"a.yaml.j2": manifest("ConfigMap", "c", "v: {{ spec.x }}\n")},
    ):
        rendered, checked_render = checked(files, FakeClusterView())
        assert checked_render is rendered


def test_generated_values_are_no_difference() -> None:
    rendered, checked_render = checked({"a.yaml.j2": SECRET}, FakeClusterView())
    assert checked_render is rendered
    assert rendered.documents


@dataclass(frozen=True, slots=True)
class VaryingClusterView(FakeClusterView):
    """A cluster view whose answers differ each time."""

    def lookup(self, _: Identity, /) -> Mapping[str, Any]:
        return {"data": {"n": next(self.random_numbers)}}


LOOKUP = "lookup('v1', 'ConfigMap', 'x').data.n"


def test_a_document_that_differs_is_a_problem_at_the_location_of_the_difference_and_the_others_stay() -> None:
    text = manifest("ConfigMap", "c", f"data:\n  a: b\n  n: {{{{ {LOOKUP} }}}}\n")
    rendered, checked_render = checked({"a.yaml.j2": text, "b.yaml": manifest("Secret", "s")}, VaryingClusterView())
    assert len(rendered.documents) == 2
    assert [document.body["kind"] for document in checked_render.documents] == ["Secret"]
    (found,) = checked_render.problems
    assert str(found).startswith("echoes.example.com/a.yaml.j2:7: data.n is another one in each render")
    assert found.of == (Identity("", "ConfigMap", "", "c"),)
    assert not checked_render.complete


def test_a_document_that_is_not_there_each_time_is_a_problem() -> None:
    text = f"{{% if {LOOKUP} % 2 == 0 %}}\n" + manifest("ConfigMap", "c") + "{% endif %}\n"
    rendered, checked_render = checked({"a.yaml.j2": text, "b.yaml": manifest("Secret", "s")}, VaryingClusterView())
    assert len(rendered.documents) == 2
    assert [document.body["kind"] for document in checked_render.documents] == ["Secret"]
    assert "the document is not there in each render of the same input" in str(checked_render.problems[0])


def test_a_document_that_differs_beside_generated_values_is_found_too() -> None:
    text = manifest("ConfigMap", "c", f"data:\n  n: {{{{ {LOOKUP} }}}}\n")
    _, checked_render = checked({"a.yaml.j2": text, "b.yaml.j2": SECRET}, VaryingClusterView())
    assert [document.body["kind"] for document in checked_render.documents] == ["Secret"]


def test_templates_are_trusted_after_enough_parents_in_a_row_without_a_difference() -> None:
    trusted = TrustedTemplates()
    first, second = (Folder(resource="echoes", group="example.com", files={}, digest=each) for each in "ab")
    for _ in range(CHECKED_PARENTS):
        assert not trusted.has(first, edited=False)
        trusted.learn(first, same=True)
    assert trusted.has(first, edited=False)
    assert not trusted.has(second, edited=False)
    trusted.learn(second, same=True)
    assert not trusted.has(second, edited=False)
    for _ in range(CHECKED_PARENTS):
        trusted.learn(second, same=True)
    assert trusted.has(first, edited=False), "a rollout has parents of both"
    trusted.learn(second, same=False)
    assert not trusted.has(second, edited=False)


def test_one_in_some_edited_parents_of_trusted_templates_is_checked() -> None:
    trusted = TrustedTemplates()
    folder = Folder(resource="echoes", group="example.com", files={}, digest="a")
    for _ in range(CHECKED_PARENTS):
        trusted.learn(folder, same=True)
    unchecked = [trusted.has(folder, edited=True) for _ in range(2 * CHECKED_EDITS)]
    assert unchecked.count(False) == 2
