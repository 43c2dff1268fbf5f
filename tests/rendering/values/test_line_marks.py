"""Every error, and every field of a manifest, leads to the template line that wrote it."""

from __future__ import annotations

import pytest

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.jinja.templates import LoadError
from ssa_operator.rendering.render import render
from tests.rendering.template_files import HEAD, document, parent, problem, rendered, templates

FILE = "echoes.example.com/a.yaml.j2"
DEEP = "echoes.example.com/_deep.yaml.j2:2"

MANIFEST = """{% import "_macros.yaml.j2" as macros %}
{# a comment
   of two lines #}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  labels:
    {{ macros.labels(name) | indent(4) }}
    {% include "_more.yaml.j2" %}

    last: "1"
v:
  {% for x in spec.list %}
  - name: {{ x }}
    {% if x == "b" %}
    only: b
    {% endif %}
  {% endfor %}
  - {a: 1,
     b: {{ spec.c }}}
w: {{ spec.c
      | tojson }}
x: |
  text
y: {{ spec.m | to_yaml }}
{% macro own(z) %}
  own: {{ z }}
{% endmacro %}
z:
{{ own(spec.c) }}
"""

FILES = {
    "macros": "{% macro labels(n) %}\none: {{ n }}\ntwo: x\n{% endmacro %}\n",
    "more": "    three: '3'\n\n    {% include '_deep.yaml.j2' %}\n    five: '5'\n",
    "deep": "{% if true %}\n    four: '4'\n{% endif %}\n",
}


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ((), f"{FILE}:4"),
        (("kind",), f"{FILE}:5"),
        (("metadata", "name"), f"{FILE}:7"),
        (("metadata", "labels", "one"), f"echoes.example.com/_macros.yaml.j2:2 (included from {FILE}:9)"),
        (("metadata", "labels", "two"), f"echoes.example.com/_macros.yaml.j2:3 (included from {FILE}:9)"),
        (("metadata", "labels", "three"), f"echoes.example.com/_more.yaml.j2:1 (included from {FILE}:10)"),
        (
            ("metadata", "labels", "four"),
            f"{DEEP} (included from echoes.example.com/_more.yaml.j2:3) (included from {FILE}:10)",
        ),
        (("metadata", "labels", "five"), f"echoes.example.com/_more.yaml.j2:4 (included from {FILE}:10)"),
        (("metadata", "labels", "last"), f"{FILE}:12"),
        (("metadata", "annotations", "x"), f"{FILE}:6"),
        (("v", 0, "name"), f"{FILE}:15"),
        (("v", 1, "only"), f"{FILE}:17"),
        (("v", 1, "nothing"), f"{FILE}:15"),
        (("v", 2, "a"), f"{FILE}:20"),
        (("v", 2, "b"), f"{FILE}:21"),
        (("v", 2, "b", "deep", 0), f"{FILE}:21"),
        (("v", 7), f"{FILE}:13"),
        (("w",), f"{FILE}:22"),
        (("x",), f"{FILE}:24"),
        (("y", "k"), f"{FILE}:26"),
        (("z", "own"), f"{FILE}:28 (included from {FILE}:31)"),
        (("nothing",), f"{FILE}:4"),
    ],
)
def test_each_field_has_the_location_that_wrote_it(path: FieldPath, location: str) -> None:
    text = MANIFEST.replace("y: {{", "y:\n {{").replace("y:\n {{ spec.m | to_yaml }}", "y: {{ spec.m }}")
    found = document(text, {"list": ["a", "b"], "c": {"deep": [1]}, "m": {"k": 1}}, **FILES)
    assert str(found.location_of(path)) == location


def test_locations_are_the_same_for_different_values() -> None:
    compiled = templates({"a.yaml.j2": HEAD + "{% if spec.x %}\na: 1\n{% endif %}\nv: {{ spec.x }}\n"})
    for x, line in (("a: b\n- c", 8), ("", 8), ("\n\n\n", 8)):
        (found,) = render(compiled, parent({"x": x})).documents
        assert found.location_of(("v",)).line == line


def test_static_files_and_lists_have_locations_too() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: A\n  metadata:\n    name: a\n  v:\n    w: 1\n"
    (found,) = rendered({"a.yaml": text}).documents
    assert str(found.location) == "echoes.example.com/a.yaml:4"
    assert found.location_of(("v", "w")).line == 9


def test_a_merged_field_has_the_location_of_the_merged_mapping() -> None:
    found = document(HEAD + "base: &b\n  a: 1\nv:\n  <<: *b\n  c: 2\n")
    assert found.location_of(("v", "a")).line == 6
    assert found.location_of(("v", "c")).line == 9


def test_unusual_characters_in_a_template_shift_no_location() -> None:
    odd = 'é\U0001f600: "é\x85ü{{ spec.a }}\\t"\n# \u2029 \x85\n'
    text = f"{HEAD}{odd}v: {{{{ spec.a }}}}\nw: |\n  é {{{{ spec.t | indent(2) }}}}\n"
    found = document(text, {"a": "ż\u2028", "t": "a\nb"})
    assert found.location_of(("v",)).line == 7
    assert found.body["w"] == "é a\nb\n"
    assert found.body["é\U0001f600"].endswith("üż\u2028\t")


@pytest.mark.parametrize(
    ("file", "chain"),
    [
        ("{{ spec.missing }}", "_i.yaml.j2:3"),
        ("{{ 1 / 0 }}", "_i.yaml.j2:3"),
        ("a: b: c", "_i.yaml.j2:3"),
        ("{% include spec.nothing.x | default('_none') %}", "_i.yaml.j2:3"),
    ],
)
def test_an_error_in_an_include_names_the_chain(file: str, chain: str) -> None:
    found = problem("x:\n  {% include '_o.yaml.j2' %}\n", o="\n{% include '_i.yaml.j2' %}\n", i=f"\n\n  {file}\n")
    expected = f"echoes.example.com/{chain} (included from echoes.example.com/_o.yaml.j2:2) (included from {FILE}:2): "
    assert found.startswith(expected)


def test_an_error_in_a_macro_names_the_caller() -> None:
    macros = "{% macro m(x) %}\na: {{ x.y }}\n{% endmacro %}\n"
    found = problem("{% import '_m.yaml.j2' as m %}\n\nv:\n  {{ m.m(spec.x) | indent }}\n", {"x": {"a": 1}}, m=macros)
    assert found.startswith(f"echoes.example.com/_m.yaml.j2:2 (included from {FILE}:4): spec.x.y is missing")


def test_what_a_call_block_writes_names_the_caller() -> None:
    macros = "{% macro m() %}\na: 1\n{{ caller() }}\n{% endmacro %}\n"
    text = "{% import '_m.yaml.j2' as m %}\n" + HEAD + "\n{% call m.m() %}\nb: 2\n{% endcall %}\nc: 3\n"
    found = document(text, m=macros)
    assert str(found.location_of(("a",))) == f"echoes.example.com/_m.yaml.j2:2 (included from {FILE}:7)"
    assert str(found.location_of(("b",))).startswith(f"{FILE}:8 (included from echoes.example.com/_m.yaml.j2:3)")
    assert str(found.location_of(("c",))) == f"{FILE}:10"


def test_yaml_that_a_macro_breaks_names_the_caller() -> None:
    macros = "{% macro m(x) %}\na: {{ x }}\n b: 1\n{% endmacro %}\n"
    found = problem("{% import '_m.yaml.j2' as m %}\n\n{{ m.m(1) }}\n", m=macros)
    assert found.startswith(f"echoes.example.com/_m.yaml.j2:3 (included from {FILE}:3): mapping values are not allowed")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.yaml.j2": "a: 1\nb: {{ x\n"}, "a.yaml.j2:2: unexpected end of template"),
        ({"a.yaml.j2": "a: 1\n{% if x %}\nb: 1\n"}, "a.yaml.j2:2: {% if %} has no {% endif %}"),
        ({"a.yaml.j2": "{% if x %}{% endif %}\n{%- if x %}\n{% for a in x %}{% endfor %}"}, "a.yaml.j2:2: {% if %}"),
        ({"a.yaml.j2": "{# {% for %} #}\n{% macro m() %}\na: 1\n"}, "a.yaml.j2:2: {% macro %} has no {% endmacro %}"),
        (
            {"a.yaml.j2": "{% if x %}\n{% for a in x %}\n{% endif %}\n"},
            "a.yaml.j2:3: {% endif %} is here before {% endfor %}, which closes the {% for %} of line 2",
        ),
        ({"a.yaml.j2": "a: {{ x | nope }}\n"}, "a.yaml.j2:1: No filter named 'nope'"),
        ({"a.yaml.j2": "\na: {{ x is nope }}\n"}, "a.yaml.j2:2: No test named 'nope'"),
        ({"a.yaml.j2": "\n{% nope %}\n"}, "a.yaml.j2:2: there is no tag {% nope %}"),
        ({"a.yaml": "a: 1\nb: [\n"}, "a.yaml:2: did not find expected node content"),
        ({"a.yaml.j2": "\n{% include '_no.yaml.j2' %}"}, "a.yaml.j2:2: echoes.example.com/_no.yaml.j2 does not exist"),
        (
            {"a.yaml.j2": "{% include '_b.yaml.j2' %}\n", "_b.yaml.j2": "\n\n{% endif %}"},
            "_b.yaml.j2:3: {% endif %} closes nothing; remove it, or open the block",
        ),
        ({"a.yaml.j2": "a\n\nb\ue000\n"}, "a.yaml.j2:3: the character U+E000 is reserved"),
    ],
)  # fmt: skip
def test_a_fault_at_load_has_its_location(files: dict[str, str], message: str) -> None:
    with pytest.raises(LoadError) as caught:
        templates(files)
    (found,) = caught.value.problems
    assert str(found).startswith(f"echoes.example.com/{message}")


def test_all_faults_of_a_folder_are_reported_at_once() -> None:
    with pytest.raises(LoadError) as caught:
        templates(
            {"a.yaml.j2": "{{ x", "b.yaml": "a: [", "c.yaml.j2": "{% include '_d.yaml.j2' %}", "_d.yaml.j2": "{% x %}"}
        )
    assert len(caught.value.problems) == 3


def test_names_that_are_chosen_at_run_time_are_looked_for_in_the_folder_and_in_shared() -> None:
    files = {
        "a.yaml.j2": HEAD + "{% include spec.f %}\n{% include ['_no.yaml.j2', '_shared/s.yaml.j2'] %}\n"
        "{% include '_gone.yaml.j2' ignore missing %}\n",
        "sub/_x.yaml.j2": "v: 1\n",
        "_shared/s.yaml.j2": "w: {{ spec.f }}\n",
    }
    (found,) = rendered(files, {"f": "sub/_x.yaml.j2"}).documents
    assert (found.body["v"], found.body["w"]) == (1, "sub/_x.yaml.j2")
    assert str(found.location_of(("w",))) == f"_shared/s.yaml.j2:1 (included from {FILE}:6)"


def test_macros_of_another_file_see_the_parent() -> None:
    macros = "{% set prefix = 'x-' ~ name %}\n{% macro m() %}{{ prefix }}-{{ namespace }}-{{ spec.a }}{% endmacro %}\n"
    text = "{% import '_m.yaml.j2' as m %}\n" + HEAD + "v: {{ m.m() }}\n"
    compiled = templates({"a.yaml.j2": text, "_m.yaml.j2": macros})
    for a in ("1", "2"):
        owner = parent({"a": a})
        owner["metadata"]["name"] = f"e{a}"
        assert render(compiled, owner).documents[0].body["v"] == f"x-e{a}-n-{a}"
