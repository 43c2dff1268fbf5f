"""Comparisons of a Secret's content with what the parent decides."""

from __future__ import annotations

import pytest

from ssa_operator.tools.checks.name_rules import parse_files
from ssa_operator.tools.checks.parent_choices import check_secrets
from ssa_operator.tools.findings import Severity

S = "lookup('v1', 'Secret', 'db')"


def lines(text: str, **more: str) -> list[tuple[str, int | None]]:
    named = {f"a.example.com/_{name}.yaml.j2": each for name, each in more.items()}
    found = check_secrets(parse_files({"a.example.com/a.yaml.j2": text, **named}).trees)
    assert all((each.severity, each.code) == (Severity.WARNING, "secret-comparison") for each in found)
    return [(each.location.file, each.location.line) for each in found if each.location is not None]


@pytest.mark.parametrize(
    "text",
    [
        f"{{% if {S}.data.password == spec.guess %}}a: 1{{% endif %}}",
        f"{{% if spec.guess != {S}.data['password'] %}}a: 1{{% endif %}}",
        f"a: {{{{ 1 if {S}.data.password | b64decode == spec.guess else 2 }}}}",
        f"a: {{{{ {S}.data.password < annotations['guess'] }}}}",
        f"a: {{{{ spec.guess in {S}.data.password }}}}",
        f"a: {{{{ {S}.data.password in spec.guesses }}}}",
        f"a: {{{{ {S}.data[spec.key] is equalto(labels.guess) }}}}",
        f"a: {{{{ spec.guess is eq({S}.stringData.password) }}}}",
        f"a: {{{{ {S}.data.password.startswith(spec.guess) }}}}",
        f"a: {{{{ spec.guess.endswith({S}.data.password) }}}}",
        f"a: {{{{ {S}.data.password | regex_search(spec.pattern) }}}}",
        f"a: {{{{ {S}.data.get('password') == spec.guess }}}}",
        f"a: {{{{ ('x' ~ {S}.data.password) | sha256 == spec.hash }}}}",
        f"a: {{{{ ({S} or {{}}).data.password | default('') == spec.guess | b64encode }}}}",
        f"{{% set s = {S} %}}{{% set p = s.data.password %}}{{% if p == spec.guess %}}a: 1{{% endif %}}",
        f"{{% for g in spec.guesses %}}{{% if g == {S}.data.password %}}a: 1{{% endif %}}{{% endfor %}}",
        "{% for s in lookup_all('v1', 'Secret') %}a: {{ s.data.x == spec.guess }}{% endfor %}",
        "a: {{ (lookup_all('v1', 'Secret') | first).data.x == spec.guess }}",
        "a: {{ lookup_all('v1', 'Secret')[0].data.x == spec.guess }}",
        "a: {{ child('Secret', name).data.x == spec.guess }}",
        "a: {{ live('Secret', name).data.x == object.spec.guess }}",
        f"{{% macro m(p, g) %}}{{{{ p == g }}}}{{% endmacro %}}a: {{{{ m({S}.data.x, spec.guess) }}}}",
        f"{{% with s = {S} %}}a: {{{{ s.data.x == spec.guess }}}}{{% endwith %}}",
    ],
)
def test_a_comparison_of_content_with_a_value_of_the_parent_is_found(text: str) -> None:
    assert lines(text) == [("a.example.com/a.yaml.j2", 1)]


def test_a_comparison_in_an_imported_macro_is_found_with_its_line() -> None:
    macro = "{% macro same(p, g) %}\n{{ p == g }}{% endmacro %}"
    text = f"{{% from '_m.yaml.j2' import same %}}a: {{{{ same({S}.data.x, spec.guess) }}}}"
    assert lines(text, m=macro) == [("a.example.com/_m.yaml.j2", 2)]


@pytest.mark.parametrize(
    "text",
    [
        f"a: {{{{ {S}.data.password }}}}",
        f"a: {{{{ {S}.data.password == 'fixed' }}}}",
        f"a: {{{{ {S}.metadata.labels.tier == spec.tier }}}}",
        f"a: {{{{ spec.key in {S}.data }}}}",
        f"a: {{{{ {S}.data.password is defined and spec.a == 1 }}}}",
        f"a: {{{{ {S}.data.password | length > spec.length }}}}",
        f"a: {{{{ {S}.data[spec.key] == lookup('v1', 'Secret', 'other').data[spec.key] }}}}",
        f"a: {{{{ {S}.data.password == lookup('v1', 'ConfigMap', spec.name).data.x }}}}",
        f"a: {{{{ lookup('v1', 'ConfigMap', {S}.data.name).data.x == spec.guess }}}}",
        f"a: {{{{ {S}.data.password == name }}}}",
        "a: {{ lookup('v1', 'ConfigMap', 'db').data.password == spec.guess }}",
        f"{{% for key, value in {S}.data.items() %}}{{% if key == spec.key %}}a: 1{{% endif %}}{{% endfor %}}",
        f"{{% if spec.secret %}}a: {{{{ {S}.data.password }}}}{{% endif %}}",
        f"a: {{{{ {S}.data.password if spec.secret == 'x' else '' }}}}",
        f"a: {{{{ ({S}.data.password if spec.secret == 'x' else spec.password) | default('') }}}}",
    ],
)
def test_what_is_no_content_or_not_of_the_parent_is_none(text: str) -> None:
    assert lines(text) == []
