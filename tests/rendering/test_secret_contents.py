"""Where a render puts a Secret's content; a right guess looks like a wrong one in its messages and in the status."""

from __future__ import annotations

import base64

import pytest

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.readiness import readiness
from ssa_operator.objects.secret_fields import SecretFields
from ssa_operator.rendering.render import render
from tests.rendering.template_files import FakeClusterView, live, parent, render_with, status, templates

RIGHT = "correct-horse-42"
VAULT = live("Secret", "vault", data={"pw": base64.b64encode(RIGHT.encode()).decode()})
READS = "{% set pw = lookup('v1', 'Secret', 'vault').data.pw | b64decode %}\n"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n"


def view() -> FakeClusterView:
    return FakeClusterView(others=(VAULT,))


def fields_of(rest: str, head: str = MAP) -> SecretFields:
    rendered = render_with({"a.yaml.j2": READS + head + rest}, view())
    assert not rendered.problems, rendered.problems
    (document,) = rendered.documents
    return document.secret


@pytest.mark.parametrize(
    ("rest", "path"),
    [
        ("data: {a: '{{ pw }}'}\n", ("data", "a")),
        ("data: {a: 'postgres://u:{{ pw }}@h'}\n", ("data", "a")),
        ("data: {a: {{ pw | b64encode | upper | tojson | urlencode }}}\n", ("data", "a")),
        ("data: {a: {{ ('x' ~ pw)[1:] }}}\n", ("data", "a")),
        ("data: {a: {{ '%s' % pw }}, b: c}\n", ("data", "a")),
        ("data: {a: {{ generated(8) }}}\n", ("data", "a")),
        ("data: {a: {{ pw if spec.x is defined else (generated(8) | b64encode) }}}\n", ("data", "a")),
        ("data:\n  {{ {'a': pw} | to_yaml }}\n", ("data", "a")),
        ("data: {{ lookup('v1', 'Secret', 'vault').data }}\n", ("data",)),
        ("data:\n  '{{ pw }}': a\n", ("data",)),
        ("spec: {list: [a, {b: {{ [pw] | first }}}]}\n", ("spec", "list", 1, "b")),
        ("{% macro m(x) %}v-{{ x }}{% endmacro %}data: {a: {{ m(pw) }}}\n", ("data", "a")),
        (
            "{% set n = namespace() %}{% for c in [pw] %}{% set n.x = c %}{% endfor %}data: {a: {{ n.x }}}\n",
            ("data", "a"),
        ),
    ],
)
def test_what_is_made_of_a_secrets_content_is_content(rest: str, path: tuple[str | int, ...]) -> None:
    assert fields_of(rest).paths == (path,)


@pytest.mark.parametrize(
    "value",
    [
        "spec.guess",
        "pw | sha256",
        "pw | length",
        "pw == spec.guess",
        "pw is defined",
        "lookup('v1', 'Secret', 'vault').metadata.name",
        "lookup_all('v1', 'Secret') | map(attribute='metadata.name') | first",
        "'a' if pw else 'b'",
    ],
)
def test_what_is_no_content_is_none(value: str) -> None:
    text = READS + MAP + f"data: {{a: '{{{{ {value} }}}}'}}\n"
    rendered = render_with({"a.yaml.j2": text}, view(), {"guess": RIGHT})
    assert [document.secret for document in rendered.documents] == [SecretFields()]


COPIED = live("Secret", "copied", metadata={"annotations": {LAST_APPLIED: RIGHT, "a": "b"}}, data={"pw": "cHc="})


@pytest.mark.parametrize(
    ("field", "content"),
    [
        ("metadata.name", False),
        ("metadata.annotations.a", False),
        (f"metadata.annotations['{LAST_APPLIED}']", True),
        ("metadata.annotations | tojson", True),
        ("metadata | tojson", True),
        ("data.pw", True),
        ("kind", False),
    ],
)
def test_of_a_secrets_metadata_only_kubectls_copy_is_content(field: str, content: bool) -> None:
    text = MAP + f"data: {{a: {{{{ lookup('v1', 'Secret', 'copied').{field} }}}}}}\n"
    (document,) = render_with({"a.yaml.j2": text}, FakeClusterView(others=(COPIED,))).documents
    assert bool(document.secret) is content


def test_a_name_that_is_content_is_known() -> None:
    assert fields_of("data: {a: b}\n", MAP.replace("name: c", "name: '{{ pw }}'")).name_object
    assert not fields_of("data: {a: {{ pw }}}\n").name_object


@pytest.mark.slow
def test_ten_thousand_guesses_look_alike() -> None:
    text = READS + MAP + "data: {a: {{ pw }}, b: '{{ expired(spec.guess) }}'}\n"
    own = "shown: '{{ spec.guess }}'\nleft: {{ child('Secret', 'vault').data.pw }}\n"
    guesses = [RIGHT, f"x{RIGHT}", f"{RIGHT[:4]}…", base64.b64encode(RIGHT.encode()).decode(), RIGHT.upper()]
    guesses += [f"wrong-{number}" for number in range(10_000 - len(guesses))]
    seen, cluster = set(), view()
    for at, guess in enumerate(guesses):
        (problem,) = render(templates({"a.yaml.j2": text}), parent({"guess": guess}), cluster).problems
        seen.add(str(problem).replace(guess, "GUESS"))
        if at < 100:
            found = status(own, VAULT, spec={"guess": guess})
            seen.add(str((found.fields, found.left_out)).replace(guess, "GUESS"))
    assert len(seen) == 2, seen


def test_an_error_of_an_expression_with_content_quotes_nothing() -> None:
    for expression in ("expired(pw)", "pw | from_json", "{'a': 1}[pw]", "pw / 2", "later(pw, '1h')", "[1][pw]"):
        rendered = render_with({"a.yaml.j2": READS + MAP + f"data: {{a: {{{{ {expression} }}}}}}\n"}, view())
        shown = f"{rendered.problems} {rendered.waits}"
        assert rendered.problems or rendered.waits, expression
        assert RIGHT[:8] not in shown, (expression, shown)


RULE = "metadata:\n  name: c\n  annotations:\n    ssa-operator.dev/ready-when: "
"""The head of a manifest with an expression."""


@pytest.mark.parametrize(
    "rule",
    [
        "\"data.x == '{{ pw }}'\"",
        "\"data['{{ pw }}'] == 'a'\"",
        "\"fail('{{ pw }}')\"",
        "{{ 'data.x == ' ~ (pw | tojson) }}",
    ],
)
def test_an_expression_that_holds_content_is_not_quoted_and_neither_is_what_it_says(rule: str) -> None:
    text = READS + MAP.replace("metadata:\n  name: c\n", f"{RULE}{rule}\n")
    rendered = render_with({"a.yaml.j2": text}, view())
    assert not rendered.problems, rendered.problems
    (document,) = rendered.documents
    found = readiness({**document.body, "data": {"x": "y"}}, 0, ready_when=document.ready_when)
    assert found.message == "ready-when (a Secret's content) is false"


def test_an_expression_without_content_is_quoted_even_if_the_object_holds_some() -> None:
    text = READS + MAP.replace("metadata:\n  name: c\n", f'{RULE}"data.x == {{{{ spec.guess }}}}"\n')
    (document,) = render_with({"a.yaml.j2": text + "data: {a: {{ pw }}}\n"}, view(), {"guess": "1"}).documents
    found = readiness({**document.body, "data": {"x": "y"}}, 0, ready_when=document.ready_when)
    assert found.message == "ready-when data.x == 1 is false"


@pytest.mark.parametrize("rule", ["'{{ pw }}('", "'{{ pw | b64encode | replace('=', '') }}(1)'", "'a {{ pw }}'"])
def test_an_invalid_expression_with_content_is_refused_without_a_quote(rule: str) -> None:
    text = READS + MAP.replace("metadata:\n  name: c\n", f"{RULE}{rule}\n")
    (problem,) = render_with({"a.yaml.j2": text}, view()).problems
    words = (
        "annotation ssa-operator.dev/ready-when is no valid expression; it is not shown: a Secret's content is a part"
    )
    assert words in problem.message


@pytest.mark.parametrize(
    "expression",
    [
        "fail(pw)", "fail('no ' ~ pw)", "required(none, pw)", "required(none, 'no ' ~ pw)", "fail(generated(16))",
        "warn(object, 'No', 'no ' ~ pw)", "warn(object, pw, 'no')", "spec[pw]", "lookup('v1', 'ConfigMap', pw).data.a",
        "child('ConfigMap', pw).data.a", "pw | from_json", "expired(pw)", "api_available(pw, 'X')", "pw + 1",
    ],
)  # fmt: skip
def test_what_an_author_says_with_content_is_not_shown(expression: str) -> None:
    text = READS + MAP + f"data: {{a: {{{{ {expression} }}}}}}\n"
    rendered = render_with({"a.yaml.j2": text}, view())
    shown = f"{[*map(str, rendered.problems)]} {[*map(str, rendered.waits)]} {rendered.warnings}"
    assert rendered.problems or rendered.waits or rendered.documents
    assert RIGHT[:8] not in shown, shown


LOST = "{% set d = {pw: 1} %}\n"
"""After this, content may be in any value of the file."""
SECRET = (
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: prometheus-{{ name }}\n  labels: {app: a, of: '{{ name }}'}\n"
    "stringData:\n  prometheus.yaml: {{ d | tojson }}\n  other: b\n"
)


def test_what_a_template_writes_as_a_literal_is_no_content_even_if_content_lost_its_origin() -> None:
    rendered = render_with({"a.yaml.j2": READS + LOST + SECRET}, view())
    (document,) = rendered.documents
    assert document.secret.paths == (
        ("metadata", "name"),
        ("metadata", "labels", "of"),
        ("stringData", "prometheus.yaml"),
    )
    assert not document.secret.names_kind


def test_a_traced_render_knows_that_a_field_of_the_parent_is_no_content() -> None:
    (document,) = render(templates({"a.yaml.j2": READS + LOST + SECRET}), parent(), view(), traced=True).documents
    assert document.secret.paths == (("stringData", "prometheus.yaml"),)
    text = READS + LOST + SECRET.replace("{{ name }}'", "{{ name ~ (d | tojson) }}'")
    (document,) = render(templates({"a.yaml.j2": text}), parent(), view(), traced=True).documents
    assert document.secret.paths == (("metadata", "labels", "of"), ("stringData", "prometheus.yaml"))


def test_a_name_of_a_field_that_comes_with_a_value_may_be_content_that_lost_its_origin() -> None:
    text = READS + LOST + MAP + "data:\n  {{ d | first }}: b\n  {{ name }}: c\n"
    (document,) = render_with({"a.yaml.j2": text}, view()).documents
    assert document.secret == SecretFields((("data",),), keys=True)


def test_a_list_that_comes_with_a_value_may_be_content_that_lost_its_origin() -> None:
    item = "{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'c'}}"
    text = f"{READS}{LOST}apiVersion: v1\nkind: List\nitems: {{{{ [{item}] }}}}\n"
    (document,) = render_with({"a.yaml.j2": text}, view()).documents
    assert document.secret == SecretFields(((),), keys=True)


@pytest.mark.parametrize(
    "rest",
    [
        "data:\n  {{ {'a': d | tojson} | to_yaml | indent(2) }}\n",
        "data:\n  a: |\n    {{ {'a': d} | to_yaml | trim | indent(4) }}\n",
        "{% macro m() %}{{ d | to_yaml }}{% endmacro %}data:\n  {{ m() }}\n",
        "data:\n  {{ dict(a=pw, b=d | tojson) | to_yaml | indent(2) }}\n",
    ],
)
def test_text_that_to_yaml_makes_may_be_content_that_lost_its_origin(rest: str) -> None:
    (document,) = render_with({"a.yaml.j2": READS + LOST + MAP + rest}, view()).documents
    assert document.secret.paths[:1] == ((),)
    assert document.secret.keys


@pytest.mark.parametrize(
    "value",
    [
        "{{ d | to_yaml | b64encode }}",
        "{{ d | tojson | gzip | b64encode }}",
        "'x{{ d | first }}'",
        "{% filter upper %}{{ d | tojson }}{% endfilter %}",
        "{{ (d | tojson)[1:] }}",
    ],
)
def test_a_value_that_lost_its_origin_is_content_at_its_place(value: str) -> None:
    (document,) = render_with({"a.yaml.j2": f"{READS}{LOST}{MAP}data: {{b: c, a: {value}}}\n"}, view()).documents
    assert document.secret.paths == (("data", "a"),)
