"""Tags in a line of their own: what an include or a filter writes there has the indentation of the line."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rendering.template_files import rendered

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"


def bodies(template: str, **included: str) -> list[dict[str, Any]]:
    files = {f"_{name}.j2": text for name, text in included.items()}
    found = rendered({"a.yaml.j2": template, **files})
    assert not found.problems, found.problems
    return [dict(document.body) for document in found.documents]


@pytest.mark.parametrize(
    ("included", "expected"),
    [
        ("a: x\n", {"a": "x"}),
        ("a: x\nb: y\n", {"a": "x", "b": "y"}),
        ("a: {{ name }}\nb: |\n  one\n    two\n", {"a": "e", "b": "one\n  two\n"}),
        ("{# labels #}\n\na: x\n{% if true %}\nb: y\n{% endif %}\n", {"a": "x", "b": "y"}),
        ("    a: x\n    b: y\n", {"a": "x", "b": "y"}),
        ("{% for key in ['a', 'b'] %}\n{{ key }}: x\n{% endfor %}", {"a": "x", "b": "x"}),
        ("{{ {'a': 'x', 'b': 'y'} | to_yaml }}\n", {"a": "x", "b": "y"}),
    ],
)
def test_what_is_included_in_an_indented_line_has_its_indentation(included: str, expected: dict[str, Any]) -> None:
    template = HEAD + '  labels:\n    {% include "_more.j2" %}\n  annotations: {}\n'
    (body,) = bodies(template, more=included)
    assert body["metadata"]["labels"] == expected


def test_items_and_nested_includes_have_the_indentation_of_each_line() -> None:
    template = HEAD + 'spec:\n  ports:\n    {% include "_ports.j2" %}\n    {% include "_ports.j2" -%}\n'
    ports = "- name: a\n  more:\n    {% include '_deep.j2' %}\n"
    (body,) = bodies(template, ports=ports, deep="x: 1\ny: 2\n")
    assert body["spec"]["ports"] == [{"name": "a", "more": {"x": 1, "y": 2}}] * 2


def test_whole_manifests_may_be_included_in_an_indented_line() -> None:
    template = '{% if true %}\n  {% include "_two.j2" %}\n{% endif %}\n---\n' + HEAD
    two = HEAD.replace("name: a", "name: b") + "---\n" + HEAD.replace("name: a", "name: c")
    assert [body["metadata"]["name"] for body in bodies(template, two=two)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    "block",
    [
        "    {% filter indent(4) %}\na: x\nb: y\n    {% endfilter %}\n",
        "    {% filter indent(4) %}\na: x\nb: y\n{% endfilter %}\n",
        "    {% filter safe | indent(4) %}\n\na: x\nb: y\n{% endfilter %}\n",
        "    {% filter safe %}\n    a: x\n    b: y\n    {% endfilter %}\n",
        "    {% filter indent(4, first=true) %}\na: x\nb: y\n{% endfilter %}\n",
    ],
)
def test_a_filter_in_an_indented_line_begins_at_its_indentation(block: str) -> None:
    (body,) = bodies(HEAD + "  labels:\n" + block + "  annotations: {}\n")
    assert body["metadata"]["labels"] == {"a": "x", "b": "y"}


def test_a_problem_in_such_an_include_leads_to_its_own_line() -> None:
    template = HEAD + '  labels:\n    {% include "_more.j2" %}\n'
    (problem,) = rendered({"a.yaml.j2": template, "_more.j2": "a: x\nb: {{ spec.c.d }}\n"}).problems
    assert "_more.j2:2" in str(problem)
    assert "a.yaml.j2:6" in str(problem)
