"""`{% return value %}`: a macro gives a value with its type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rendering.template_files import HEAD, FakeClusterView, live, problem, render_with, rendered


def data(text: str, spec: dict[str, Any] | None = None, **files: str) -> Any:
    """The `data` of the one manifest, whose text after the head this is."""
    named = {"a.yaml.j2": HEAD + text, **{f"_{name}.yaml.j2": other for name, other in files.items()}}
    found = rendered(named, spec or {})
    assert not found.problems
    return found.documents[0].body["data"]


@pytest.mark.parametrize("returned", ["7", "'7'", "none", "true", "[1, 'a']", "{'a': {'b': 1}}", "1.5", "''"])
def test_the_result_of_a_macro_is_the_returned_value_with_its_type(returned: str) -> None:
    text = f"{{% macro m() %}}text before\n{{% return {returned} %}}\nand after{{% endmacro %}}\n"
    assert data(f"{text}data: {{a: {{{{ m() }}}}}}\n") == data(f"data: {{a: {{{{ {returned} }}}}}}\n")


def test_expressions_go_on_with_the_value() -> None:
    text = (
        "{% macro ports(first) %}{% for n in range(9) %}{% if n == first %}{% return [n, n + 1] %}{% endif %}"
        "{% endfor %}{% endmacro %}{% set found = ports(3) %}\n"
        "data: {a: {{ ports(2)[1] + 1 }}, b: {{ found | sum }}, c: {{ ports(1) + found }}, d: '{{ ports(10) }}'}\n"
    )
    assert data(text) == {"a": 4, "b": 7, "c": [1, 2, 3, 4], "d": ""}


def test_a_macro_of_another_file_returns_from_within_its_tags_only() -> None:
    shared = (
        "{% macro inner(x) %}{% return x * 2 %}{% endmacro %}"
        "{% macro outer(x) %}{% set text %}{% if x %}{% return inner(x) + 1 %}{% endif %}none{% endset %}"
        "{{ text }}{% endmacro %}"
    )
    text = "{% from '_shared.yaml.j2' import outer %}data: {a: {{ outer(4) }}, b: {{ outer(0) }}}\n"
    assert data(text, shared=shared) == {"a": 9, "b": "none"}


def test_a_call_block_writes_the_returned_value() -> None:
    text = "{% macro m() %}{% return [caller(), 2] %}{% endmacro %}\ndata:\n  a: {% call m() %}x{% endcall %}\n"
    assert data(text) == {"a": ["x", 2]}


def test_a_missing_field_that_a_macro_returns_is_still_missing() -> None:
    text = (
        HEAD + "{% macro m() %}{% return spec.size %}{% endmacro %}\ndata: {a: {{ m() }}, b: {{ m() | default(1) }}}\n"
    )
    assert problem(text, {}).startswith("echoes.example.com/a.yaml.j2:6: spec.size is missing")
    assert data("{% macro m() %}{% return spec.size %}{% endmacro %}\ndata: {b: {{ m() | default(1) }}}\n") == {"b": 1}


def test_only_the_field_with_the_returned_value_waits_for_an_object() -> None:
    text = (
        HEAD + "{% macro m(key) %}{% return lookup('v1', 'ConfigMap', 'x').data[key] %}{% endmacro %}\n"
        "data: {a: {{ m('KEY') }}}\n---\n" + HEAD.replace("name: x", "name: other")
    )
    cluster = FakeClusterView(others=(live("ConfigMap", "x", data={"size": "1Gi"}),))
    assert render_with({"a.yaml.j2": text.replace("KEY", "size")}, cluster).documents[0].body["data"] == {"a": "1Gi"}
    found = render_with({"a.yaml.j2": text.replace("KEY", "absent")}, cluster)
    assert ".data.absent" in str(found.waits[0])


def test_a_returned_secret_stays_hidden_in_errors() -> None:
    text = (
        HEAD
        + "{% macro m() %}{% return lookup('v1', 'Secret', 's').data.p %}{% endmacro %}\ndata: {a: {{ fail(m()) }}}\n"
    )
    cluster = FakeClusterView(others=(live("Secret", "s", data={"p": "c2VjcmV0"}),))
    (found,) = render_with({"a.yaml.j2": text}, cluster).problems
    assert "c2VjcmV0" not in str(found)
    assert "an expression with a Secret's content fails" in str(found)
