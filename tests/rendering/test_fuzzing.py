"""Random values and templates: a value is never structure, and a template is rendered or is a problem with a line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.objects.cluster_view import OFFLINE
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.rendering.jinja.templates import LoadError, Templates
from ssa_operator.rendering.render import render, render_status, render_traced
from tests.rendering.template_files import FOLDER, HEAD, parent

MANY = 1000
"""Examples of a slow test."""

UNICODE = st.text() | st.text(
    st.sampled_from("{}[]:,#&*!|>'\"%@`-?~<= \n\t\\\0\x1b\x85\u2028\ufeff\ue000\ue001\ue002a0")
)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | UNICODE
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(UNICODE, inner, max_size=3), max_leaves=8
)


def text(value: Any) -> str:
    """The value within other text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


PLACEMENTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "plain": ("{{ spec.v }}", lambda value: value),
    "behind an anchor": ("&here {{ spec.v }}", lambda value: value),
    "behind a tag": ("!!str {{ spec.v }}", text),
    "before a comment": ("{{ spec.v }} # {{ spec.v }}", lambda value: value),
    "in a comment": ("1 # {{ spec.v }}", lambda _: 1),
    "in single quotes": ("'{{ spec.v }}'", text),
    "in double quotes": ('"{{ spec.v }}"', text),
    "in text": ("a {{ spec.v }} z", lambda value: f"a {text(value)} z"),
    "in a literal block": ("|-\n    {{ spec.v }}", text),
    "in a folded block": (">-\n    {{ spec.v }}", text),
    "in a list": ("\n  - {{ spec.v }}\n  - 1", lambda value: [value, 1]),
    "in a flow list": ("[{{ spec.v }}, {{ spec.v }}]", lambda value: [value, value]),
    "in a flow mapping": ("{a: {{ spec.v }}, b: 2}", lambda value: {"a": value, "b": 2}),
    "as a key": ("\n    '{{ spec.v }}': 1", lambda value: {text(value): 1}),
    "as a flow key": ('{"{{ spec.v }}": 1}', lambda value: {text(value): 1}),
    "as an explicit key": ("\n    ? '{{ spec.v }}'\n    : 1", lambda value: {text(value): 1}),
    "through to_yaml": ("\n    {{ spec.v | to_yaml | indent(4) }}", lambda value: value),
    "through tojson": ("{{ spec.v | tojson }}", lambda value: value),
    "through a macro": ("{{ m(spec.v) }}", lambda value: value),
    "through a loop": ("[{% for a in [spec.v, 1] %}{{ a }}, {% endfor %}]", lambda value: [value, 1]),
    "through a set block": ("{% set a %}-{{ spec.v }}{% endset %}{{ a }}", lambda value: f"-{text(value)}"),
    "through an include": ("{% include '_v.yaml.j2' %}", lambda value: value),
}
"""Template text behind `name: `, and the field that it gives. A line adds another placement."""

MACRO = "{% macro m(a) %}{{ a }}{% endmacro %}"


def check_placements(value: Any, names: list[str]) -> None:
    fields = [f"  p{at}: {PLACEMENTS[name][0]}\n" for at, name in enumerate(names)]
    files = {f"{FOLDER}/a.yaml.j2": f"{MACRO}{HEAD}data:\n{''.join(fields)}  after: 1\n"}
    templates = Templates(FOLDER, files | {f"{FOLDER}/_v.yaml.j2": "{{ spec.v }}"}, "digest")
    for rendered in (render(templates, parent({"v": value})), render_traced(templates, parent({"v": value}))):
        assert rendered.problems == ()
        (document,) = rendered.documents
        wanted = {f"p{at}": PLACEMENTS[name][1](value) for at, name in enumerate(names)} | {"after": 1}
        assert json.dumps(document.body["data"]) == json.dumps(wanted)


DRAWN = st.lists(st.sampled_from(sorted(PLACEMENTS)), min_size=1, max_size=6)


@given(VALUES, DRAWN)
def test_any_value_stays_where_it_is_put(value: Any, names: list[str]) -> None:
    check_placements(value, names)


@pytest.mark.exhaustive
@settings(max_examples=MANY)
@given(VALUES, DRAWN)
def test_many_values_stay_where_they_are_put(value: Any, names: list[str]) -> None:
    check_placements(value, names)


@given(st.text(st.characters(categories=["Cs"]), min_size=1), st.sampled_from(sorted(PLACEMENTS)))
def test_half_of_a_character_is_a_problem_wherever_it_is_put(value: str, name: str) -> None:
    files = {f"{FOLDER}/a.yaml.j2": f"{MACRO}{HEAD}v: {PLACEMENTS[name][0]}\n", f"{FOLDER}/_v.yaml.j2": "{{ spec.v }}"}
    (problem,) = render(Templates(FOLDER, files, "digest"), parent({"v": value})).problems
    assert "half of a surrogate pair" in str(problem)
    assert_located(problem)


NAMES = st.sampled_from([
    "spec", "spec.v", "spec.l", "spec.m", "spec.missing", "spec.m.missing.x", "spec['v']", "object", "metadata",
    "name", "labels", "values", "operator", "loop", "self", "caller", "varargs", "kwargs", "m", "n", "a", "missing",
    "namespace", "range", "dict", "cycler", "joiner", "fail", "required", "super", "none", "true", "_", "__class__",
])  # fmt: skip
LITERALS = st.sampled_from([
    "1", "0", "-1", "1.5", "1e308", "1e999", "0x10", "1_0", "'a'", '"b"', "''", r"'\n'", r"'\ud800'", "'{0.x}'",
    "'%d'", "[]", "{}", "()", "[1, 'a']", "{'a': 1}", "(1,)", "9" * 30, "'x' * 1000", "'a' 'b'", "'2h'", "'1Gi'",
])  # fmt: skip
OPERATORS = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or", "|", "is", "is not"]
)
FILTERS = st.sampled_from([
    "upper", "default(1)", "length", "list", "join(',')", "sort", "map('upper')", "map(attribute='a')", "first",
    "sum", "int", "float", "string", "tojson", "to_yaml", "indent(2)", "from_yaml", "from_json", "b64encode",
    "b64decode", "items", "dictsort", "groupby('a')", "unique", "select", "rejectattr('a')",
    "merge({})", "regex_replace('a', 'b')", "regex_search('(a)')", "k8s_name", "bytes", "millis", "later('1h')",
    "format(1)", "round(1)", "attr('a')", "truncate(2)", "nosuch",
    "sha256",
])  # fmt: skip
CALLS = st.sampled_from([
    "()", "(1)", "(*spec.l)", "(**spec.m)", "(a=1)", ".items()", ".get('a')", ".format(1)", ".upper()", ".a", "[0]",
    "[1:]", "['a']", "[::0]", ".append(1)", ".__class__", ".mro()", ".join(spec.l)", ".index(1)", ".next()",
    ".gi_frame",
])  # fmt: skip
EXPRESSIONS = st.recursive(
    NAMES | LITERALS,
    lambda inner: (
        st.tuples(inner, OPERATORS, inner).map(" ".join)
        | st.tuples(inner, FILTERS).map(" | ".join)
        | st.tuples(inner, CALLS).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"({two[0]} if {two[1]} else {two[0]})")
        | st.tuples(inner, inner).map(lambda two: f"[{two[0]}, {two[1]}]")
        | st.tuples(inner, inner).map(lambda two: f"{{{two[0]}: {two[1]}}}")
    ),
    max_leaves=6,
)
YAML = st.sampled_from([
    "a: ", "b:\n", "  ", "- ", "\n", "'", '"', "|\n  ", ">-\n ", "&a ", "*a ", "{", "}", "[", "]", ", ", ": ", "# ",
    "---\n", "...\n", "<<: ", "!!str ", "!x ", "? ", "%YAML 1.1\n", "\t", "\r", "\0", "\x85", "\ue000", HEAD,
    f"---\n{HEAD}data:\n  k: ",
])  # fmt: skip
TAGS = st.sampled_from([
    "break", "continue", "include '_v.yaml.j2'", "include spec.v", "include 'a.yaml.j2'", "import '_v.yaml.j2' as n",
    "from '_v.yaml.j2' import m", "extends '_v.yaml.j2'", "set a = 1", "set n.a = 1", "set a, b = spec.l", "do 1",
    "include ['x', '_v.yaml.j2'] ignore missing", "set ns = namespace(a=1)", "else", "endif", "endfor", "elif 1",
    "return 1", "return spec.l", "return n", "macro m(a)", "endmacro", "call m(1)", "endcall",
])  # fmt: skip


def block(opening: str, body: str) -> str:
    """A tag that ends, with a body."""
    return f"{{% {opening} %}}{body}{{% end{re.split('[ (]', opening)[0]} %}}"


TEXTS = st.recursive(
    YAML | EXPRESSIONS.map(lambda each: f"{{{{ {each} }}}}") | TAGS.map(lambda each: f"{{% {each} %}}"),
    lambda inner: (
        st.lists(inner, max_size=4).map("".join)
        | st.tuples(EXPRESSIONS, inner).map(lambda two: block(f"if {two[0]}", two[1]))
        | st.tuples(EXPRESSIONS, inner).map(lambda two: block(f"for a in {two[0]}", two[1]))
        | st.tuples(EXPRESSIONS, inner).map(lambda two: block(f"for a, b in {two[0]} recursive", two[1]))
        | st.tuples(EXPRESSIONS, inner).map(lambda two: block(f"with a = {two[0]}", two[1]))
        | st.tuples(FILTERS, inner).map(lambda two: block(f"filter {two[0]}", two[1]))
        | inner.map(lambda each: block("macro m(a, b=1)", each) + "{{ m(1) }}")
        | inner.map(lambda each: block("call(a) m(1)", each))
        | inner.map(lambda each: block("set a", each))
        | inner.map(lambda each: block("block x", each))
        | inner.map(lambda each: block("raw", each))
    ),
    max_leaves=10,
)


def assert_located(problem: RenderProblem) -> None:
    assert problem.location is not None
    assert problem.location.file.startswith(FOLDER)
    assert problem.location.line >= 1
    assert "internal error" not in problem.message


def check_template(template: str, included: str, value: Any) -> None:
    files = {"a.yaml.j2": template, "_v.yaml.j2": included, "_status.yaml.j2": template}
    try:
        templates = Templates(FOLDER, {f"{FOLDER}/{name}": each for name, each in files.items()}, "digest")
    except LoadError as error:
        for problem in error.problems:
            assert_located(problem)
        return
    body = parent({"v": value, "l": [value, 1], "m": {"a": value}})
    for problem in (*render(templates, body).problems, *render_status(templates, body, OFFLINE).problems):
        assert_located(problem)


@given(TEXTS, TEXTS, VALUES)
def test_any_template_is_rendered_or_a_problem_with_its_line(template: str, included: str, value: Any) -> None:
    check_template(template, included, value)


@pytest.mark.exhaustive
@settings(max_examples=MANY)
@given(TEXTS, TEXTS, VALUES)
def test_many_templates_are_rendered_or_problems_with_their_lines(template: str, included: str, value: Any) -> None:
    check_template(template, included, value)
