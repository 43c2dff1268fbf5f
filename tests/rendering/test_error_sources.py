"""An error of an expression names the looked-up object and the field that its value comes from."""

from __future__ import annotations

import re

import pytest

from ssa_operator.rendering.render import render, render_traced
from tests.rendering.template_files import FakeClusterView, live, parent, templates

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
LABELS = {"labels": {"a": "b"}}
CLUSTER = FakeClusterView(
    others=(
        live("ConfigMap", "x", data={"j": "{}"}, metadata=LABELS),
        live("ConfigMap", "y", data={"j": "{", "name": "hunter2"}, metadata=LABELS),
        live("ConfigMap", "z", data={"b": "/w=="}),
        live("ConfigMap", "hunter2", data={"j": "{"}),
        live("Secret", "s", data={"p": "aHVudGVyMg=="}),
    )
)
LOOP = "{% for m in lookup_all('v1', 'ConfigMap', labels={'a': 'b'}) %}\n  {{ m.metadata.name }}: EACH\n{% endfor %}\n"
Y = "lookup('v1', 'ConfigMap', 'y')"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"  a: {{{{ {Y}.data.j | from_json }}}}\n", "from_json: the text is not JSON; .* ConfigMap n/y .data.j"),
        (LOOP.replace("EACH", "{{ m.data.j | from_json | string }}"), "not JSON; .* ConfigMap n/y .data.j"),
        (
            "  a: {{ lookup('v1', 'ConfigMap', 'z').data.b | b64decode }}\n",
            "bytes are no text.*; .* ConfigMap n/z .data.b",
        ),
        (LOOP.replace("EACH", "{{ m.data.j + 1 }}"), r"\+ can't be used .*; .* ConfigMap n/x .data.j"),
        (
            f"  a: {{{{ ({Y}.data.j ~ lookup('v1', 'ConfigMap', 'x').data.j) | from_json }}}}\n",
            "ConfigMap n/y .data.j and ConfigMap n/x .data.j",
        ),
    ],
)
def test_an_error_names_the_object_and_the_field(text: str, words: str) -> None:
    (found,) = render(templates({"a.yaml.j2": HEAD + text}), parent(), CLUSTER).problems
    assert re.search(words.replace(".* ", "the value comes from "), str(found))


@pytest.mark.parametrize(
    "expression",
    [
        "lookup('v1', 'Secret', 's').data.p | from_json",
        "lookup('v1', 'ConfigMap', lookup('v1', 'Secret', 's').data.p | b64decode).data.j | from_json",
        f"{Y}.data[lookup('v1', 'Secret', 's').data.p] | from_json",
    ],
)
def test_an_error_names_nothing_of_a_secret(expression: str) -> None:
    for draw in (render, render_traced):
        found = draw(templates({"a.yaml.j2": f"{HEAD}  a: {{{{ {expression} }}}}\n"}), parent(), CLUSTER)
        assert not any("hunter2" in str(each) or "aHVu" in str(each) for each in (*found.problems, *found.waits))


def test_what_a_template_says_itself_stays_as_it_is() -> None:
    text = f"{HEAD}  a: {{{{ fail('no ' ~ {Y}.metadata.labels.a) }}}}\n"
    (found,) = render(templates({"a.yaml.j2": text}), parent(), CLUSTER).problems
    assert str(found).endswith(": no b")
