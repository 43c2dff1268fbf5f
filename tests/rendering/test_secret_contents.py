"""Where a render puts a Secret's content; a right guess looks like a wrong one in its messages and in the status."""

from __future__ import annotations

import base64

import pytest

from ssa_operator.objects.annotations import LAST_APPLIED
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
