"""Names that templates don't have, and the syntax of Go templates."""

from __future__ import annotations

import pytest

from ssa_operator.rendering.jinja.filters import FILTERS, TESTS
from ssa_operator.rendering.jinja.suggestions import suggest_filter, suggest_name, suggest_test
from ssa_operator.tools.checks.name_rules import check_names, parse_files
from ssa_operator.tools.findings import Edit, Finding

FOLDER = "echoes.example.com"


def findings(text: str, **others: str) -> list[Finding]:
    files = {f"{FOLDER}/a.yaml.j2": text} | {f"{FOLDER}/{name}.yaml.j2": other for name, other in others.items()}
    return check_names(parse_files(files))


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("{{ x | toYaml }}", "no filter toYaml", "to_yaml"),
        ("{{ name | toYaml }}", "no filter toYaml", "to_yaml"),
        ("{{ name | quote }}", "no filter quote", "not needed"),
        ("{{ name | defualt(1) }}", "no filter defualt", "default?"),
        ("{{ name | nindent(4) }}", "no filter nindent", "whole value"),
        ("{% filter uper %}{% endfilter %}", "no filter uper", "upper?"),
        ("{{ name is defned }}", "no test defned", "defined?"),
        ("{{ chlid('Pod', 'a') }}", "no function chlid", "child?"),
        ("{{ include('x') }}", "no function include", "macro"),
        ("{{ tpl(spec.x) }}", "no function tpl", "never rendered"),
        ("{{ sepc.x }}", "no variable sepc", "spec?"),
        ("{{ Values.x }}", "no variable Values", "spec"),
        ("{{ Values.x | default(1) }}", "no variable Values", "spec"),
        ("{% if false %}{{ sepc.x }}{% endif %}", "no variable sepc", "spec?"),
    ],
)
def test_a_name_that_does_not_exist_is_found_with_what_to_write(text: str, message: str, fix: str) -> None:
    found = next(each for each in findings(f"a: 1\n{text}\n") if message in each.message)
    assert (found.code, found.location and found.location.line) == ("unknown-name", 2)
    assert fix in found.fix


@pytest.mark.parametrize(
    "text",
    [
        "{{ spec.a.b | default(1) | to_yaml | indent(4) }}",
        "{% for x in spec.list %}{{ loop.index }}{{ x }}{% endfor %}",
        "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
        "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ caller() }}{{ varargs }}{% endmacro %}{{ m(1) }}",
        "{% import '_m.yaml.j2' as m %}{% from '_m.yaml.j2' import x as y, z %}{{ m.q() }}{{ y }}{{ z }}",
        "{{ anything | default(1) }}{% if other is defined %}{% endif %}{{ some.deep.thing | default('') }}",
        "{% set n = namespace(a=1) %}{% with q = 1 %}{{ q }}{{ n.a }}{% endwith %}{{ namespace }}",
        "{{ dict(a=1) }}{{ range(3) }}{{ child('Pod', 'a') }}{{ 1 is even }}",
    ],
)
def test_names_that_exist_are_no_findings(text: str) -> None:
    assert findings(text) == []


def test_an_included_file_sees_the_names_of_the_files_around_it() -> None:
    assert findings("{% set own = 1 %}{% include '_part.yaml.j2' %}", _part="{{ own }}") == []
    assert len(findings("", _part="{{ own }}")) == 1


def test_an_edit_replaces_the_code_alone() -> None:
    (found,) = findings("{# | toYaml #}toYaml: {{ 'toYaml' }}{{ name | toYaml }}{{ name|toYaml }}")
    text = "{# | toYaml #}toYaml: {{ 'toYaml' }}{{ name | "
    second = len(text) + len("toYaml }}{{ name|")
    assert found.edits == (
        Edit(column=len(text), old="toYaml", new="to_yaml"),
        Edit(column=second, old="toYaml", new="to_yaml"),
    )


@pytest.mark.parametrize(
    ("line", "edited"),
    [
        ("a: {{ x | default(1) | quote }}", True),
        ("  - {{ name | quote }}", True),
        ("a: --flag={{ name | quote }}", False),
        ("a: '{{ name | quote }}'", False),
        ("a: {{ name | quote | upper }}", False),
    ],
)
def test_quote_becomes_string_only_where_it_is_the_whole_value(line: str, edited: bool) -> None:
    found = next(each for each in findings(line) if "quote" in each.message)
    assert bool(found.edits) is edited


@pytest.mark.parametrize(
    "line",
    [
        "a: {{ .Values.x }}",
        "{{- if .Values.x }}",
        "{{ end }}",
        "{{- range $i, $e := .Values.list }}",
        '{{ include "x" . | nindent 4 }}',
        "{{/* a comment */}}",
        "{{ $name := .Release.Name }}",
        '{{ printf "%s" .Chart.Name }}',
        "{{ quote .Values.x }}",
        "{{ tpl .Values.x . }}",
    ],
)
def test_go_template_syntax_is_found_where_jinja_can_not_read_the_file(line: str) -> None:
    found = findings(f"a: 1\n{line}\n{{{{ .broken }}}}\n")
    assert [each.code for each in found] == ["go-template"] * 2
    assert found[0].location is not None
    assert found[0].location.line == 2
    assert found[0].fix


def test_a_syntax_error_that_is_not_go_s_is_left_to_jinja() -> None:
    assert findings("{% if %}") == []


def test_a_suggestion_renames_only_to_what_exists() -> None:
    for name in ("toYaml", "b64enc", "sha256sum", "toJson", "toString", "B64Encode"):
        assert suggest_filter(name, FILTERS).rename in FILTERS
    assert suggest_test("Defined", TESTS).rename == "defined"
    assert suggest_filter("to_yml", FILTERS).rename == ""
    assert suggest_filter("zzzzzz", FILTERS).text == ""
    assert "templates see a, b" in suggest_name("zzzzzz", ["b", "a"]).text
