"""TemplateCoverage of templates: every line and branch that a render reaches, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ssa_operator.objects.cluster_view import OFFLINE
from ssa_operator.rendering.jinja.coverage import FileCoverage, TemplateCoverage
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render
from tests.rendering.template_files import FOLDER, HEAD, parent, rendered


def covered(text: str, *specs: Mapping[str, Any], **files: str) -> FileCoverage:
    """The coverage of a template after a render for each spec; marks change no document."""
    coverage = TemplateCoverage()
    named = {"a.yaml.j2": text, **{f"_{name}.yaml.j2": other for name, other in files.items()}}
    templates = Templates(FOLDER, {f"{FOLDER}/{name}": each for name, each in named.items()}, "", coverage=coverage)
    for spec in specs:
        found, plain = render(templates, parent(spec), OFFLINE), rendered(named, spec)
        assert [each.body for each in found.documents] == [each.body for each in plain.documents]
        assert found.problems == plain.problems
    return next(each for each in coverage.files() if each.file.endswith("a.yaml.j2"))


def missed(text: str, *specs: Mapping[str, Any], **files: str) -> list[str]:
    """The lines and branches that no render reached; the line after the head is 1."""
    found = covered(HEAD + text, *specs, **files)
    head = HEAD.count("\n")
    lines = [f"{line - head}" for line in found.missed_lines if line > head]
    return [*lines, *(f"{each.line - head} {each.missed}" for each in found.missed_branches)]


IF = """{% if spec.a %}
v: 1
{% elif spec.b %}
v: 2
{% else %}
v: 3
{% endif %}
"""


FOR_ELSE = "{% for x in spec.a %}\nv: 1\n{% else %}\nw: 1\n{% endfor %}\n"


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ([], ["1", "2", "3", "4", "6", "1 if is never true", "3 elif is never false", "3 elif is never true"]),
        ([{"a": 1}], ["3", "4", "6", "3 elif is never false", "3 elif is never true"]),
        ([{"a": 0, "b": 1}], ["2", "6", "1 if is never true", "3 elif is never false"]),
        ([{"a": 0, "b": 0}], ["2", "4", "1 if is never true", "3 elif is never true"]),
        ([{"a": 1}, {"a": 0, "b": 1}, {"a": 0, "b": 0}], []),
    ],
)
def test_each_arm_of_an_if_is_a_branch(specs: list[dict[str, Any]], expected: list[str]) -> None:
    assert missed(IF, *specs) == expected


@pytest.mark.parametrize(
    ("text", "specs", "expected"),
    [
        ("{% if spec.a %}\nv: 1\n{% endif %}\n", [{"a": 1}], ["1 if is never false"]),
        (FOR_ELSE, [{"a": [1]}], ["4", "1 else of for is never rendered"]),
        ("{% for x in spec.a %}\nv: 1\n{% endfor %}\n", [{"a": []}], ["2", "1 for never has an item"]),
        ("{% for x in spec.a if x %}\nv: 1\n{% break %}\n{% endfor %}\n", [{"a": [0, 1, 1]}], []),
        ("v: {{ 1 if spec.a else 2 }}\n", [{"a": 1}], ["1 the condition of ... if ... else ... is never false"]),
        ("v: {{ 1 if spec.a else 2 }}\n", [{"a": 1}, {"a": 0}], []),
        ("v: '{{ 1 if spec.a }}'\n", [{"a": 1}], []),
        ("{% macro m(x) %}{{ x }}{% endmacro %}\nv: 1\n", [{}], ["1 macro m is never called"]),
        ("{% macro m(x) %}{{ x }}{% endmacro %}\nv: {{ m(1) }}\n", [{}], []),
        ("{% set x %}\na\n{% endset %}\n{# a comment #}\n\nv: {{ x }}\n", [{}], []),
        ("{% filter upper %}\nv: 1\n{% endfilter %}\n", [{}], []),
        ("{% with x = 1 %}\nv: {{ x }}\n{% endwith %}\n", [{}], []),
    ],
)
def test_the_branches_of_other_statements(text: str, specs: list[dict[str, Any]], expected: list[str]) -> None:
    assert missed(text, *specs) == expected


def test_a_line_after_an_error_is_not_reached() -> None:
    assert missed("{% set x = spec.nothing + 1 %}\n{% set y = 1 %}\nv: 1\n", {}) == ["2", "3"]


def test_a_macro_of_another_file_is_reached_by_the_call() -> None:
    text = '{% import "_m.yaml.j2" as m %}\nv: {{ m.one() }}\n'
    coverage = TemplateCoverage()
    macros = "{% macro one() %}1{% endmacro %}\n{% macro two() %}2{% endmacro %}\n"
    files = {f"{FOLDER}/a.yaml.j2": HEAD + text, f"{FOLDER}/_m.yaml.j2": macros}
    assert render(Templates(FOLDER, files, "", coverage=coverage), parent(), OFFLINE).problems == ()
    (found,) = [each for each in coverage.files() if each.file.endswith("_m.yaml.j2")]
    assert [(each.line, each.missed) for each in found.missed_branches] == [(2, "macro two is never called")]
    assert (found.total, found.reached) == (4, 3)


def test_only_the_named_folder_is_recorded() -> None:
    coverage = TemplateCoverage("others.example.com")
    Templates(FOLDER, {f"{FOLDER}/a.yaml.j2": HEAD}, "", coverage=coverage)
    assert coverage.files() == []
