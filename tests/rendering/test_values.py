"""Values are data: no part of a value becomes YAML syntax."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.rendering.render import render
from tests.rendering.hostile_values import HOSTILE_VALUES, POSITIONS, config_map, config_map_data, wanted
from tests.rendering.template_files import HEAD, document, fault, field, parent, problem, rendered, templates, value

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
INTEGERS = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
STRUCTURES = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4), max_leaves=12
)
EVERYWHERE = templates({"a.yaml.j2": config_map("c")})


@pytest.mark.more_cases
@pytest.mark.parametrize("position", POSITIONS)
def test_a_hostile_value_comes_out_as_it_went_in(position: str) -> None:
    text = f"data:\n    p: {POSITIONS[position][0]}\n    after: 1\n"
    for hostile in HOSTILE_VALUES.values():
        body = document(HEAD + text, {"v": hostile}).body
        assert body["data"] == {"p": wanted(position, hostile), "after": 1}


@pytest.mark.parametrize("key", ["{{ spec.v }}", "'{{ spec.v }}'", '"{{ spec.v }}"', "? {{ spec.v }}\n  "])
def test_a_hostile_value_can_be_a_key(key: str) -> None:
    for hostile in HOSTILE_VALUES.values():
        body = document(f"{HEAD}data:\n  {key}: 1\n  b: 2\n", {"v": hostile}).body
        assert body["data"] == {hostile: 1, "b": 2}


def test_a_hostile_value_within_structure_comes_out_as_it_went_in() -> None:
    for hostile in HOSTILE_VALUES.values():
        nested = {hostile: [hostile, {"a": hostile}]}
        assert value("spec.v", {"v": nested}) == nested
        assert value("spec.v | tojson", {"v": nested}) == nested
        assert field("v:\n  {{ spec.v | to_yaml | indent(2) }}\n", {"v": nested}) == nested


def test_nul_is_a_character_like_others() -> None:
    assert value("spec.v", {"v": "a\0b"}) == "a\0b"


@given(TEXTS)
def test_any_text_comes_out_as_it_went_in_at_every_position(text: str) -> None:
    result = render(EVERYWHERE, parent({"v": text}))
    assert result.problems == ()
    assert result.documents[0].body["data"] == config_map_data(text)


@given(STRUCTURES)
def test_any_value_as_a_whole_scalar_keeps_its_type(data: Any) -> None:
    found = value("spec.v", {"v": data})
    assert json.dumps(found) == json.dumps(data)


@pytest.mark.exhaustive
@given(STRUCTURES, STRUCTURES)
def test_two_values_of_one_shape_do_not_get_mixed_up(first: Any, second: Any) -> None:
    compiled = templates({"a.yaml.j2": HEAD + "v: {{ spec.a }}\nw: {{ spec.b }}\n"})
    for a, b in ((first, second), (second, first)):
        body = render(compiled, parent({"a": a, "b": b})).documents[0].body
        assert json.dumps([body["v"], body["w"]]) == json.dumps([a, b])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (3, "3"),
        (1.5, "1.5"),
        (1e21, "1e+21"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        ("yes", "yes"),
    ],
)
def test_within_text_a_value_reads_as_json_writes_it(data: Any, text: str) -> None:
    assert field("v: a-{{ spec.v }}\n", {"v": data}) == f"a-{text}"
    assert field('v: "{{ spec.v }}"\n', {"v": data}) == text
    assert field("v: |-\n  {{ spec.v }}\n", {"v": data}) == text
    assert value('"a-" ~ spec.v', {"v": data}) == f"a-{text}"
    assert value('"a-%s" | format(spec.v)', {"v": data}) == f"a-{text}"
    assert value("'a-{}'.format(spec.v)", {"v": data}) == f"a-{text}"
    assert value("[spec.v, spec.v] | join(' ')", {"v": data}) == f"{text} {text}"


def test_numbers_and_truth_as_keys_become_strings() -> None:
    assert field("v: {{ '{' }}\n") == "{"
    assert field("v:\n  {{ spec.a }}: 1\n  {{ spec.b }}: 2\n", {"a": 80, "b": True}) == {"80": 1, "true": 2}


def test_two_keys_that_come_out_equal_are_an_error_with_their_line() -> None:
    text = HEAD + "v:\n  {{ spec.a }}: 1\n  {{ spec.b }}: 2\n"
    assert problem(text, {"a": "x", "b": "x"}) == "echoes.example.com/a.yaml.j2:7: the key x is there twice"


def test_a_mapping_can_not_be_a_key() -> None:
    assert "a mapping or a list can't be a key" in problem(HEAD + "v:\n  {{ spec.a }}: 1\n", {"a": {}})


def test_a_value_in_flow_style_keeps_its_type() -> None:
    assert field("v: {a: {{ spec.a }}, b: [{{ spec.b }}, {{ spec.a }}]}\n", {"a": {"x": 1}, "b": "], "}) == {
        "a": {"x": 1},
        "b": ["], ", {"x": 1}],
    }


def test_an_explicit_string_tag_makes_text() -> None:
    assert field("v: !!str {{ spec.a }}\n", {"a": 3}) == "3"


def test_a_value_is_not_text_of_an_anchor_an_alias_or_a_tag() -> None:
    for text in ("v: &{{ spec.a }} 1\n", "v: *{{ spec.a }}\n", "v: !{{ spec.a }} 1\n"):
        assert "a.yaml.j2:5: " in problem(HEAD + text, {"a": "x"})


def test_a_value_in_a_comment_is_gone() -> None:
    assert field("v: 1 # {{ spec.a }}\n# {{ spec.a }}\n", {"a": "x\ny: 2"}) == 1


def test_a_whole_manifest_can_be_a_value() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    assert document("{{ spec.m }}", {"m": manifest}).body == manifest


def test_a_value_that_json_can_not_express_is_refused_by_name() -> None:
    assert "range is a function; call it" in fault("range").replace("safe_range", "range")
    assert "a.yaml.j2:5: the number inf does not exist in JSON" in fault("1e308 * 10")
    assert "64 bits" in fault("2 ** 63")
    assert "surrogate" in fault(r'"\ud83d"')
    assert "a mapping has the key 1" in fault("{1: 2}")


def test_tuples_ranges_views_and_generators_are_lists() -> None:
    assert value("range(3)") == [0, 1, 2]
    assert value("(1, 'a')") == [1, "a"]
    assert value("spec.a | map('upper')", {"a": ["x"]}) == ["X"]
    assert value("spec.a.keys()", {"a": {"x": 1}}) == ["x"]


def test_a_macro_that_is_not_called_is_an_error_that_says_so() -> None:
    text = "{% macro m() %}a{% endmacro %}\n" + HEAD + "v: {{ m }}\n"
    assert problem(text).endswith("a.yaml.j2:6: m is a macro; call it: m(...)")


def test_jinja_in_a_value_is_not_evaluated_and_in_a_static_file_neither() -> None:
    static = HEAD + "v: '{{ spec.a }}'\nw: \"\\uE0000\\uE001\"\n"
    result = rendered({"a.yaml": static}, {"a": 1})
    assert [document.body["v"] for document in result.documents] == ["{{ spec.a }}"]
    assert result.documents[0].body["w"] == "\ue0000\ue001"


def test_an_escape_in_yaml_does_not_forge_a_value() -> None:
    assert "reserved" in problem(HEAD + 'v: "\\uE0000\\uE001"\nw: {{ spec.secret }}\n', {"secret": "s"})


def test_a_multi_line_value_in_a_block_that_is_indented_as_text_has_no_extra_blanks() -> None:
    text = "a:\n  b\n\nc\n"
    assert field("v: |\n    {{ spec.t | indent(4) }}\n", {"t": text}) == text + "\n"
    assert field("v: |\n{{ spec.t | indent(4, first=true) }}\n", {"t": text}) == text + "\n"
    assert field("v: |\n  x:\n    {{ spec.t | indent(4) }}\n", {"t": "a\nb"}) == "x:\n  a\n  b\n"
    assert value("spec.t | indent(2)", {"t": "a\nb"}) == "a\n  b"


COPIED = HEAD.replace("name: c", "name: c\n  annotations: {{ annotations }}")
OWN = {
    "ssa-operator.dev/inventory": "[]",
    "ssa-operator.dev/reconcile-at": "now",
    "ssa-operator.dev/suspend": "false",
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
}


def test_the_annotations_of_a_parent_can_be_copied() -> None:
    metadata = {"name": "e", "namespace": "n", "uid": "u", "annotations": {"a.b/c": "d", **OWN}}
    text = COPIED + "v: {{ metadata.annotations }}\nw: {{ object.metadata.annotations }}\n"
    result = rendered(
        {"a.yaml.j2": text + "x: {{ annotations['ssa-operator.dev/suspend'] is defined }}\n"}, metadata=metadata
    )
    assert result.problems == ()
    body = result.documents[0].body
    assert body["metadata"]["annotations"] == {"a.b/c": "d"}
    assert body["v"] == body["w"] == metadata["annotations"]
    assert body["x"] is False


def test_an_annotation_that_the_parent_lacks_is_named() -> None:
    assert fault("annotations.nope").endswith(
        "annotations.nope is missing; if it may be missing, write annotations.nope | default(...)"
    )
