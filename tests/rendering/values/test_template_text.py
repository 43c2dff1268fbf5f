"""Template text with values in it, used as a value and as text."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.rendering.jinja.templates import LoadError
from tests.rendering.hostile_values import HOSTILE_VALUES
from tests.rendering.template_files import HEAD, document, field, problem

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
MACRO = "{% macro m(x) %}a{{ x }}z{% endmacro %}\n"
BLOCK = "{% set b %}a{{ spec.x }}z{% endset %}\n"
CALLED = "{% macro c() %}{{ caller() }}{% endmacro %}\n"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


USES: dict[str, tuple[str, Any]] = {
    "printed": ("T", lambda text: text),
    "encoded": ("T | b64encode", lambda text: base64.b64encode(text.encode()).decode()),
    "hashed": ("T | sha256", sha256),
    "measured": ("T | length", len),
    "compared": ("T == ('a' ~ spec.x ~ 'z')", lambda _: True),
    "compared from the right": ("('a' ~ spec.x ~ 'z') == T", lambda _: True),
    "differing": ("T != ('a' ~ spec.x ~ 'z')", lambda _: False),
    "ordered": ("T < 'b'", lambda text: text < "b"),
    "searched": ("spec.x in T", lambda _: True),
    "found": ("T in [T, 'b']", lambda _: True),
    "upper case": ("T | upper", str.upper),
    "replaced": ("T | replace('a', 'b')", lambda text: text.replace("a", "b")),
    "replacing": ("'-' | replace('-', T)", lambda text: text),
    "joined": ("[T, T] | join(T)", lambda text: text * 3),
    "split": ("T.split('z')", lambda text: text.split("z")),
    "joining by method": ("T.join(['1', T])", lambda text: f"1{text}{text}"),
    "sliced": ("T[:2]", lambda text: text[:2]),
    "indexed": ("T[0]", lambda _: "a"),
    "concatenated": ("T ~ T", lambda text: text * 2),
    "added": ("T + 'b'", lambda text: text + "b"),
    "added to": ("'b' + T", lambda text: "b" + text),
    "multiplied": ("T * 2", lambda text: text * 2),
    "formatted by percent": ("'<%s>' % T", lambda text: f"<{text}>"),
    "formatted by format": ("'<{}>'.format(T)", lambda text: f"<{text}>"),
    "formatted by the filter": ("'<%s>' | format(T)", lambda text: f"<{text}>"),
    "in a list": ("[T]", lambda text: [text]),
    "in a mapping": ("{'k': T}", lambda text: {"k": text}),
    "as a key": ("{T: 1}", lambda text: {text: 1}),
    "as json": ("T | tojson", lambda text: text),
    "as an argument": ("m(T)", lambda text: f"a{text}z"),
    "as a default": ("spec.missing | default(T)", lambda text: text),
    "chosen": ("T if T else 'b'", lambda text: text),
    "or": ("T or 'b'", lambda text: text),
    "and": ("'b' and T", lambda text: text),
    "string": ("T | string", lambda text: text),
    "safe": ("T | safe", lambda text: text),
    "escaped": ("T | escape | replace('&#39;', '') | length > 0", lambda _: True),
    "listed": ("T | list", list),
    "first": ("T | first", lambda _: "a"),
    "iterated": ("T | map('upper') | list", lambda text: [character.upper() for character in text]),
    "is a string": ("T is string", lambda _: True),
    "looked up": ("{('a' ~ spec.x ~ 'z'): 1}[T]", lambda _: 1),
    "in a dict call": ("dict(k=T)", lambda text: {"k": text}),
    "in a namespace": ("namespace(k=T).k", lambda text: text),
    "unique": ("[T, T] | unique | list", lambda text: [text]),
    "sorted": ("[T, 'A'] | sort(case_sensitive=true)", lambda text: ["A", text]),
    "text of a number": ("(T | length | string) ~ ''", lambda text: str(len(text))),
}

AS_VALUES = ["a: b", "", "'\"", "x\ny", "{{ x }}", "\ue0000\ue001", "emoji \U0001f600"]


@pytest.mark.more_cases
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("made", ["m(spec.x)", "b"])
@pytest.mark.parametrize("text", AS_VALUES)
def test_template_text_as_a_value_is_the_text_of_the_manifest(use: str, made: str, text: str) -> None:
    expression, expected = USES[use]
    template = f"{MACRO}{BLOCK}{HEAD}v: {{{{ {expression.replace('T', made)} }}}}\n"
    assert document(template, {"x": text}).body["v"] == expected(f"a{text}z")


@given(TEXTS)
def test_text_printed_and_text_read_say_the_same(text: str) -> None:
    template = f'{MACRO}{HEAD}v: "{{{{ m(spec.x) }}}}"\nw: "{{{{ m(spec.x) ~ \'\' }}}}"\n'
    body = document(template, {"x": text}).body
    assert body["v"] == body["w"] == f"a{text}z"


@pytest.mark.parametrize("text", AS_VALUES)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{% filter upper %}a{{ spec.x }}z{% endfilter %}", lambda text: f"a{text}z".upper()),
        ("{% filter sha256 %}a{{ spec.x }}z{% endfilter %}", lambda text: sha256(f"a{text}z")),
        ("{% filter b64encode | b64decode %}a{{ spec.x }}z{% endfilter %}", lambda text: f"a{text}z"),
        ("{% set s | b64encode %}a{{ spec.x }}z{% endset %}{{ s | b64decode }}", lambda text: f"a{text}z"),
        ("{% set s | upper %}a{{ spec.x }}z{% endset %}{{ s }}", lambda text: f"a{text}z".upper()),
        ("{% set s | trim %}  a{{ spec.x }}z  {% endset %}{{ s }}", lambda text: f"a{text}z"),
        ("{% call c() %}a{{ spec.x }}z{% endcall %}", lambda text: f"a{text}z"),
        ("{{ m(m(spec.x)) }}", lambda text: f"aa{text}zz"),
        ("{% include '_i.yaml.j2' %}", lambda text: f"i{text}i"),
    ],
)  # fmt: skip
def test_a_value_stays_a_value_through_blocks(body: str, expected: Any, text: str) -> None:
    template = f"{MACRO}{CALLED}{HEAD}v: {body}\n"
    assert document(template, {"x": text}, i="i{{ spec.x }}i").body["v"] == expected(text)


@pytest.mark.parametrize(
    "layout", ["lines(spec.x) | indent(2)", "lines(spec.x) | trim | indent(2)", "lines(spec.x) | indent(width=2)"]
)
def test_a_hostile_value_stays_one_value_when_text_is_laid_out(layout: str) -> None:
    template = "{% macro lines(x) %}\na: {{ x }}\nb: '{{ x }}'\n{% endmacro %}\n" + HEAD
    for hostile in HOSTILE_VALUES.values():
        body = document(template + f"v:\n  {{{{ {layout} }}}}\n  c: 1\n", {"x": hostile}).body
        assert body["v"] == {"a": hostile, "b": hostile, "c": 1}


def test_empty_text_is_false_and_text_of_an_empty_value_too() -> None:
    template = "{% set x %}{{ spec.x }}{% endset %}\n" + HEAD + "v: {{ 'yes' if x else 'no' }}\n"
    assert document(template, {"x": ""}).body["v"] == "no"
    assert document(template, {"x": "a"}).body["v"] == "yes"


def test_a_macro_writes_structure() -> None:
    macro = "{% macro ports(names) %}\n{% for name in names %}\n- name: {{ name }}\n{% endfor %}\n{% endmacro %}\n"
    body = document(macro + HEAD + "v:\n  {{ ports(spec.x) | indent(2) }}\n", {"x": ["a: b", "c"]}).body
    assert body["v"] == [{"name": "a: b"}, {"name": "c"}]


def test_blocks_of_an_extended_template_are_text() -> None:
    base = HEAD + "v: {% block v %}a{{ spec.x }}{% endblock %}\nw: {{ self.v() | upper }}\n"
    template = "{% extends '_base.yaml.j2' %}{% block v %}{{ super() }}b{% endblock %}"
    assert document(template, {"x": ": "}, base=base).body["v"] == "a: b"
    assert document(template, {"x": ": "}, base=base).body["w"] == "A: B"


def test_a_recursive_loop_is_text() -> None:
    loop = (
        "v:{% for i in spec.tree recursive %} {{ i.n }}"
        "{% if i.below %} {{ loop(i.below) | trim }}{% endif %}{% endfor %}\n"
    )
    assert field(loop, {"tree": [{"n": "a", "below": [{"n": "b", "below": []}]}]}) == "a b"


def test_only_a_macro_can_be_called_with_a_block() -> None:
    assert "{% call %} calls a macro" in problem(HEAD + "v: {% call range(3) %}x{% endcall %}\n")


def test_autoescape_is_refused() -> None:
    with pytest.raises(LoadError, match=r"a\.yaml\.j2:5: .*autoescape.* is for HTML"):
        problem(HEAD + "{% autoescape true %}v: {{ spec.x }}{% endautoescape %}\n")


def test_tags_alone_on_a_line_leave_nothing_and_tags_within_a_line_take_nothing() -> None:
    text = (
        "v: |\n  {% if true %}\n  a\n  {% endif %}\n  {# comment #}\n  b{% if true %} c{% endif %}\n"
        "    {% if true %}d{% endif %}\n  {% for x in [1, 2] %}{% if true %}\n  {{ x }}\n  {% endif %}{% endfor %}\n"
        "  {{ 'e' }}\n  {% raw %}\n  {{ f }}\n  {% endraw %}\n  g\n"
    )
    assert field(text) == "a\nb c\n  d\n1\n2\ne\n{{ f }}\ng\n"


def test_white_space_control_works_as_jinja_documents_it() -> None:
    text = "v: [\n  {%- for x in [1, 2] -%}\n    {{ x }},\n  {%- endfor -%}\n  ]\nw: 1\n"
    assert field(text) == [1, 2]
    assert field("v: a\n  {{- ' b' }}\n") == "a b"


@pytest.mark.parametrize("filters", ["string", "string | trim", "indent(2) | string", "trim | string", "upper | lower"])
@pytest.mark.parametrize("text", ["{% macro t() %}a: 1\n{% endmacro %}", "{% set b %}a: 1\n{% endset %}"])
def test_template_text_that_a_filter_reads_is_one_scalar(text: str, filters: str) -> None:
    call = "t()" if "macro" in text else "b"
    found = field(f"{text}v: {{{{ {call} | {filters} }}}}\n")
    assert isinstance(found, str)
    assert found.strip() == "a: 1"


def test_yaml_text_that_becomes_a_string_is_one_scalar() -> None:
    assert field("v: {{ spec.x | to_yaml | string }}\n", {"x": {"a": 1}}).strip() == "a: 1"
