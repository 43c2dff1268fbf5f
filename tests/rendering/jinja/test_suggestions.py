"""The syntax of Go templates is answered with Jinja's, in every message about the line."""

from __future__ import annotations

import pytest

from ssa_operator.rendering.jinja.suggestions import jinja_for
from ssa_operator.rendering.jinja.templates import LoadError
from tests.rendering.template_files import HEAD, problem, templates


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("{{ .Values.x }}", "use spec, which is the parent's"),
        ('{{ include "x" . }}', "call a macro"),
        ('{{ (lookup "v1" "Secret" "a" "b").data }}', "call lookup(apiVersion, kind, name, namespace='...')"),
        ("{{ name | nindent 4 }}", "write the arguments of a filter in parentheses"),
        ('{{ printf "%s" name }}', "write '%s-%s' | format(a, b)"),
        ('{{ toYaml "x" }}', "write value | to_yaml"),
    ],
)
def test_a_line_that_jinja_cannot_read_says_what_to_write(expression: str, hint: str) -> None:
    with pytest.raises(LoadError) as error:
        templates({"a.yaml.j2": f"{HEAD}v: {expression}\n"})
    assert "this is the syntax of a Go template: " in str(error.value)
    assert hint in str(error.value)
    assert hint in (jinja_for(expression) or "")


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("{{ if .Values.x }}", "write {% if ... %}"),
        ("{{ range .Values.x }}", "write {% for item in list %}"),
    ],
)
def test_a_keyword_that_jinja_reads_as_a_variable_says_what_to_write(expression: str, hint: str) -> None:
    found = problem(f"{HEAD}v: {expression}\n")
    assert f"this is the syntax of a Go template: {hint}" in found
    assert "default(...)" not in found


def test_jinja_has_no_hint() -> None:
    assert jinja_for("v: {{ spec.replicas | default(1) }}") is None
    assert jinja_for('v: {{ lookup("v1", "ConfigMap", name).data.x }}') is None
