"""Tags in a line of their own: what an include or a filter writes there has the indentation of the line."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.rendering.template_files import field, problem, rendered

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


@pytest.mark.parametrize("included", ["a: x\nb: y\n", "a: x\nb: y", "{# labels #}\na: x\n\nb: y\n"])
@pytest.mark.parametrize(
    "line",
    [
        "    {% filter indent(4) %}{% include '_more.j2' %}{% endfilter %}\n",
        "{% filter indent(4, first=true) %}{% include '_more.j2' %}{% endfilter %}\n",
        "    {% filter indent(4) %}{% filter safe %}{% include '_more.j2' %}{% endfilter %}{% endfilter %}\n",
    ],
)
def test_a_filter_of_an_include_in_one_line_is_a_line(line: str, included: str) -> None:
    (body,) = bodies(HEAD + "  labels:\n" + line + "  annotations: {}\n", more=included)
    assert body["metadata"]["labels"] == {"a": "x", "b": "y"}


PIECES = (
    "a", "  ", "\n", "{{ x }}", "{% if x %}", "{% else %}", "{% endif %}", "{# c #}", "{% for i in [1, 2] %}",
    "{% endfor %}", "{% set y = 1 %}",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), st.booleans())
@example("{{ x }}{# c #}\n{% endfor %}", False)
@example("{% for i in [1, 2] %}{{ x }}{# c #}\n{% endfor %}", False)
@example("{{ x }}{# a\n #}{# b #}\n{{ x }}\n", True)
def test_the_text_of_a_macro_is_that_of_jinja_with_trimmed_blocks(inner: str, x: bool) -> None:
    macro = f"{{% macro m(x) %}}\n{inner}\n{{% endmacro %}}\n"
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    try:
        expected = environment.from_string(macro + "{{ m(x) }}").render(x=x)
    except jinja2.TemplateSyntaxError:
        return
    if any(line.endswith(" ") for line in macro.split("\n")):
        return  # a line of tags ends with its blanks, which Jinja keeps
    expected = expected.replace("True", "true").replace("False", "false")
    assert field(f"{macro}v: {{{{ m({str(x).lower()}) | string }}}}\n") == expected


def test_an_empty_macro_in_a_line_is_nothing() -> None:
    macro = "{% macro m(x) %}\n{% if x %}a{% endif %}\n{% endmacro %}\n"
    assert field(macro + "v: ['[{{ m(false) }}]', '[{{ m(true) }}]']\n") == ["[]", "[a]"]
    kept = macro.replace("{% endif %}", "{% endif +%}")
    assert field(kept + "v: ['[{{ m(false) }}]', '[{{ m(true) }}]']\n") == ["[ ]", "[a ]"]


@pytest.mark.parametrize(
    "text",
    [
        "v: |\n  {{ spec.y | to_yaml }}\n",
        "v:\n  w: >-\n    # of the team\n    {{ spec.y | to_yaml }}\n  z: 1\n",
        "v:\n  - |\n    x: {{ spec.y | to_yaml | indent(2) }}\n  - z\n",
    ],
)
def test_yaml_that_leaves_a_block_scalar_is_an_error_with_the_line(text: str) -> None:
    line = 4 + next(at for at, each in enumerate(text.split("\n"), 1) if "to_yaml" in each)
    width = text.split("\n")[line - 5].index(text.split("\n")[line - 5].lstrip())
    message = problem(HEAD + text, {"y": {"a": 1, "b": [2]}})
    begins = f"echoes.example.com/a.yaml.j2:{line}: the lines of to_yaml leave the block scalar"
    assert message.startswith(f"{begins}; write to_yaml | indent({width})")
    repaired = text.replace("to_yaml | indent(2)", "to_yaml").replace("to_yaml", f"to_yaml | indent({width})")
    assert rendered({"a.yaml.j2": HEAD + repaired}, {"y": {"a": 1, "b": [2]}}).problems == ()
    assert rendered({"a.yaml.j2": HEAD + text}, {"y": {"a": 1}}).problems == ()
