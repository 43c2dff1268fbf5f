"""`try(expression)` is undefined where the expression fails."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.rendering.jinja.templates import LoadError
from tests.rendering.template_files import HEAD, FakeClusterView, live, problem, render_with, rendered, templates, value

CLUSTER = FakeClusterView(
    others=(live("ConfigMap", "x", data={"json": '{"a": 1}', "text": "{"}), live("Secret", "s", data={"p": "hunter2"}))
)


def with_data(expression: str) -> str:
    """A manifest whose `data.a` is the expression."""
    return f"{HEAD}data: {{a: {{{{ {expression} }}}}}}\n"


@pytest.mark.parametrize(
    ("expression", "spec", "expected"),
    [
        ("try(spec.t | from_json)", {"t": "[1]"}, [1]),
        ("try(spec.t | from_json) | default('none')", {"t": "["}, "none"),
        ("try(spec.t | from_json) is defined", {"t": "["}, False),
        ("try(spec.a.b.c) | default(7)", {}, 7),
        ("try(spec.n + 1) | default(0)", {"n": "x"}, 0),
        ("try(1 // spec.n) | default(0)", {"n": 0}, 0),
        ("try(fail('no')) | default('yes')", {}, "yes"),
        ("try(required(spec.a, 'set it')) | default('b')", {}, "b"),
        ("try(1 < spec.n < 'x') | default('no')", {"n": 2}, "no"),
        ("try(spec.t | b64decode) | default('bytes')", {"t": "/w=="}, "bytes"),
        ("try(spec.t | b64decode) | default('bytes')", {"t": "YQ=="}, "a"),
        ("try(spec.t | gzip) | b64encode | length > 9", {"t": "a"}, True),
        ("try(try(spec.t | from_json) | default(spec.u | from_json)) | default(3)", {"t": "[", "u": "["}, 3),
        ("[1, 2] | map('string') | map('int') | sum + try(spec.n)", {"n": 4}, 7),
    ],
)
def test_an_expression_that_fails_is_undefined(expression: str, spec: dict[str, Any], expected: Any) -> None:
    assert value(expression, spec) == expected


def test_an_attempt_sees_the_names_around_it() -> None:
    text = (
        "{% macro number(text, other) %}{% return try(text | from_json + 1) | default(other) %}{% endmacro %}"
        "data:\n{% for each in spec.l %}\n  k{{ loop.index }}: {{ number(each, loop.index) }}\n{% endfor %}\n"
    )
    found = rendered({"a.yaml.j2": HEAD + text}, {"l": ["1", "x", "3"]})
    assert found.documents[0].body["data"] == {"k1": 2, "k2": 2, "k3": 4}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("try(spec.t | from_json)", "from_json: the text is not JSON"),
        ("try(spec.t.a.b)", "a.b is missing: what should hold it is a string, not a mapping"),
        ("try(spec.nope + 1)", "spec.nope is missing"),
        ("try(fail('no such plan'))", "no such plan"),
        ("try('/w==' | b64decode)", "bytes are no text; write b64encode"),
    ],
)
def test_the_reason_is_the_error_of_its_use(expression: str, message: str) -> None:
    assert problem(with_data(expression), {"t": "["}).startswith(f"echoes.example.com/a.yaml.j2:5: {message}")


@pytest.mark.parametrize(
    "expression", ["try('x' * 10 ** 9) | default(1)", "try(name.__class__) | default(1)", "try(range(10 ** 9) | list)"]
)
def test_limits_and_the_sandbox_hold_within_it(expression: str) -> None:
    (found,) = rendered({"a.yaml.j2": with_data(expression)}).problems
    assert "default" not in str(found)


def test_an_attempt_waits_for_what_is_not_known_and_fails_with_what_is() -> None:
    text = with_data("try(lookup('v1', 'ConfigMap', 'x').data.KEY | from_json) | default('none')")
    found = render_with({"a.yaml.j2": text.replace("KEY", "json")}, CLUSTER)
    assert found.documents[0].body["data"] == {"a": {"a": 1}}
    failed = render_with({"a.yaml.j2": text.replace("KEY", "text")}, CLUSTER)
    assert failed.documents[0].body["data"] == {"a": "none"}
    assert [str(each.query) for each in failed.documents[0].dependencies] == ["ConfigMap n/x"]
    strict = with_data("try(lookup('v1', 'ConfigMap', 'x').data.absent | from_json)")
    (wait,) = render_with({"a.yaml.j2": strict}, CLUSTER).waits
    assert ".data.absent" in str(wait)


def test_a_reason_quotes_no_secret() -> None:
    text = with_data("try(fail(lookup('v1', 'Secret', 's').data.p))")
    (found,) = render_with({"a.yaml.j2": text}, CLUSTER).problems
    assert "hunter2" not in str(found)
    assert "an expression with a Secret's content fails" in str(found)


@pytest.mark.parametrize("call", ["try()", "try(1, 2)", "try(spec.x, b=1)", "try(expression=spec.x)", "try(*spec.x)"])
def test_an_attempt_of_anything_but_one_expression_is_an_error_with_its_line(call: str) -> None:
    with pytest.raises(LoadError, match=r"a.yaml.j2:5: try takes one expression, as in try\(spec.config"):
        templates({"a.yaml.j2": f"{HEAD}v: {{{{ {call} }}}}\n"})


def test_a_document_depends_on_the_bytes_that_an_attempt_finds_to_be_no_text() -> None:
    cluster = FakeClusterView(others=(live("ConfigMap", "x", binaryData={"k": "/w=="}),))
    text = with_data("try(lookup('v1', 'ConfigMap', 'x').binaryData.k | b64decode) | default('none')")
    (found,) = render_with({"a.yaml.j2": text}, cluster).documents
    assert found.body["data"] == {"a": "none"}
    assert [str(each.query) for each in found.dependencies] == ["ConfigMap n/x"]
