"""Filters that manifests need."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ssa_operator.rendering.jinja.filters import k8s_name
from ssa_operator.rendering.jinja.templates import LoadError
from ssa_operator.rendering.yaml.to_yaml import yaml_text
from tests.rendering.hostile_values import HOSTILE_VALUES
from tests.rendering.template_files import HEAD, fault, field, problem, value

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
STRUCTURES = st.recursive(
    SCALARS | TEXTS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=12,
)


def test_base64_is_of_the_utf8_bytes() -> None:
    assert value("'zażółć' | b64encode") == "emHFvMOzxYLEhw=="
    assert value("'emHFvMOzxYLEhw==' | b64decode") == "zażółć"
    assert value("80 | b64encode") == "ODA="


@given(TEXTS)
def test_base64_reads_back(text: str) -> None:
    assert value("spec.t | b64encode | b64decode", {"t": text}) == text


def test_what_base64_refuses_is_not_shown() -> None:
    assert fault("spec.t | b64decode", {"t": "s3cr\x7ft"}).endswith("b64decode: the value is not base64")
    assert fault("none | b64encode").endswith("b64encode needs a text, and this value is null")


@given(st.binary(max_size=200))
def test_bytes_come_back_as_they_were(content: bytes) -> None:
    encoded = base64.b64encode(content).decode()
    assert value("spec.t | b64decode | b64encode", {"t": encoded}) == encoded
    assert value("spec.t | b64decode | sha256", {"t": encoded}) == hashlib.sha256(content).hexdigest()
    packed = value("spec.t | b64decode | gzip | b64encode", {"t": encoded})
    assert gzip.decompress(base64.b64decode(packed)) == content
    assert value("spec.t | b64decode is utf8", {"t": encoded}) is is_text(content)
    assert value("spec.t | b64decode | gzip is utf8", {"t": encoded}) is False
    assert value("spec.t | b64decode == spec.t | b64decode", {"t": encoded}) is True


def is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_bytes_have_a_length_and_are_no_text() -> None:
    assert value("'/////w==' | b64decode | length") == 4
    for use in ("", " ~ 'x'", " | tojson", " | string", " | upper", " | list"):
        message = fault(f"('/////w==' | b64decode){use}")
        assert "bytes" in message, message
        assert "xff" not in message
    assert "bytes are no text; write b64encode" in fault("'/////w==' | b64decode")


def test_numbers_and_mappings_are_no_utf8() -> None:
    assert value("'a' is utf8") is True
    assert value("1 is utf8") is False
    assert value("{} is utf8") is False


def test_hashes_are_hexadecimal() -> None:
    assert value("'' | sha256") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert value("'' | md5") == "d41d8cd98f00b204e9800998ecf8427e"
    assert value("(spec.t | sha256) == (spec.t | tojson | sha256)", {"t": {"b": 1, "a": [2]}}) is True


NAMES = st.text("abz09-._ AŻ", min_size=1).filter(lambda text: re.search("[a-zA-Z0-9]", text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("My App", "my-app-[0-9a-f]{8}"),
        ("a_b.c", "a-b-c-[0-9a-f]{8}"),
        ("-a-", "a-[0-9a-f]{8}"),
        ("ż1", "1-[0-9a-f]{8}"),
        ("A", "a-[0-9a-f]{8}"),
        ("x" * 62 + ".x", "x{54}-[0-9a-f]{8}"),
    ],
)
def test_a_name_is_made_legal_and_ends_with_a_hash(text: str, name: str) -> None:
    assert re.fullmatch(name, k8s_name(text))


@pytest.mark.exhaustive
@given(st.from_regex("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True))
@example("a")
@example("a--b")
@example("x" * 63)
def test_a_legal_name_stays_as_it_is(text: str) -> None:
    assert k8s_name(text) == text


@given(NAMES, st.integers(1, 5), st.integers(16, 63))
def test_any_name_is_a_dns_label_and_stays_one(text: str, times: int, length: int) -> None:
    name = k8s_name(text * times, length)
    assert re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
    assert len(name) <= length
    assert k8s_name(name, length) == name


@given(NAMES, NAMES)
@example("a.b", "a-b")
@example("a.b", "a_b")
@example("a", "A")
@example("a", "-a")
@example("a--b", "a-b")
def test_texts_that_differ_have_names_that_differ(one: str, other: str) -> None:
    assume(one != other)
    assert k8s_name(one) != k8s_name(other)


def test_long_names_that_differ_at_the_end_stay_different() -> None:
    first, second = k8s_name("x" * 80 + "1"), k8s_name("x" * 80 + "2")
    assert first != second
    assert len(first) == len(second) == 63


def test_a_name_can_be_asked_to_be_shorter() -> None:
    assert k8s_name("x" * 52, 52) == "x" * 52
    assert value("('x' * 53) | k8s_name(52) | length") == 52
    assert k8s_name("x" * 53 + "1", 52) != k8s_name("x" * 53 + "2", 52)


@pytest.mark.parametrize("length", ["64", "15", "'a'", "true"])
def test_a_length_that_no_name_can_have_is_an_error(length: str) -> None:
    assert "length must be a number from 16 to 63" in fault(f"'a' | k8s_name({length})")


def test_a_name_of_nothing_legal_is_an_error() -> None:
    assert "no letter or digit" in fault("'---' | k8s_name")


@given(STRUCTURES)
def test_yaml_text_reads_back_exactly(data: Any) -> None:
    found = field("v:\n  {{ spec.t | to_yaml | indent(2) }}\n", {"t": data})
    assert json.dumps(found) == json.dumps(data)


@given(STRUCTURES)
def test_yaml_text_within_a_block_reads_back_with_another_reader(data: Any) -> None:
    text = field("v: |\n    {{ spec.t | to_yaml | indent(4) }}\n", {"t": data})
    assert text == yaml_text(data) + "\n"
    assert json.dumps(yaml.load(text, yaml.CSafeLoader)) == json.dumps(_as_pyyaml_reads_floats(data))


def _as_pyyaml_reads_floats(data: Any) -> Any:
    """PyYAML reads 1e+16 as a string, because a float has a dot in YAML 1.1."""
    if isinstance(data, float):
        text = repr(data)
        return text if "e" in text and "." not in text else data
    if isinstance(data, dict):
        return {key: _as_pyyaml_reads_floats(item) for key, item in data.items()}
    return [_as_pyyaml_reads_floats(item) for item in data] if isinstance(data, list) else data


def test_hostile_yaml_text_reads_back_in_a_block_with_another_reader() -> None:
    for hostile in HOSTILE_VALUES.values():
        text = field("v: |\n    {{ spec.t | to_yaml | indent(4) }}\n", {"t": {"k": hostile}})
        assert yaml.load(text, yaml.CSafeLoader) == {"k": hostile}


def test_yaml_text_is_block_style_in_the_order_of_the_value() -> None:
    data = {"b": {"x": [1, {"w": None, "z": []}], "e": {}}, "a": "yes", "url": "http://a/b:80", "num": "1"}
    assert yaml_text(data) == (
        'b:\n  x:\n    - 1\n    - w: null\n      z: []\n  e: {}\na: "yes"\nurl: http://a/b:80\nnum: "1"'
    )


def test_yaml_text_merges_among_other_keys() -> None:
    text = "v:\n  before: 1\n  {{ spec.t | to_yaml | indent(2) }}\n  after: 2\n"
    assert field(text, {"t": {"a": "x: y", "b": 1}}) == {"before": 1, "a": "x: y", "b": 1, "after": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v:\n  a: 1\n  {{ {} | to_yaml | indent(2) }}\n", {"a": 1}),
        ("v:\n  {{ {} | to_yaml | indent(2) }}\n  a: 1\n", {"a": 1}),
        ("v:\n  {{ {} | to_yaml }}\n  {{ {} | to_yaml }}\n", None),
        ("v:\n  a:\n    b: 1\n  {{ {} | to_yaml }}\nw: 1\n", {"a": {"b": 1}}),
        ("v:\n  {{ {} | to_yaml }}\nw: 1\n", {}),
        ("v: {{ {} | to_yaml }}\n", {}),
        ("v: [{{ {} | to_yaml }}, {{ [] | to_yaml }}]\n", [{}, []]),
        ("v:\n  - a: 1\n    {{ {} | to_yaml }}\n  - {{ {} | to_yaml }}\n", [{"a": 1}, {}]),
        ("v:\n  - 1\n  {{ [] | to_yaml }}\n", [1]),
        ("v:\n  {{ [] | to_yaml }}\n  - 1\n", [1]),
        ("v:\n  {{ [] | to_yaml }}\nw: 1\n", []),
        ("v: |\n  {{ {} | to_yaml | indent(2) }}\n", "{}\n"),
        ("v: '{{ {} | to_yaml }}'\n", "{}"),
        ("v: {{ {} | to_yaml | length }}\n", 2),
        ("v: {{ ({} | to_yaml) ~ '' }}\n", "{}"),
    ],
)
def test_nothing_merged_among_others_is_nothing_and_alone_it_is_empty(text: str, expected: Any) -> None:
    if expected is None:
        assert "a.yaml.j2:7: " in problem(HEAD + text)
    else:
        assert field(text) == expected


def test_yaml_text_is_a_value_to_other_filters() -> None:
    assert value("(spec.t | to_yaml | sha256) == ('a: 1' | sha256)", {"t": {"a": 1}}) is True


def test_json_is_structure_as_a_whole_scalar_and_text_elsewhere() -> None:
    data = {"t": {"a": ["<&'\">", 1.0], "b": None}}
    text = '{"a":["<&\'\\">",1.0],"b":null}'
    assert field("v: {{ spec.t | tojson }}\n", data) == data["t"]
    assert field("v: '{{ spec.t | tojson }}'\n", data) == text
    assert field('v: "{{ spec.t | tojson }}"\n', data) == text
    assert field("v: |\n  {{ spec.t | tojson }}\n", data) == text + "\n"
    assert field("v: x{{ spec.t | tojson }}\n", data) == "x" + text
    assert value("(spec.t | tojson) ~ ''", data) == text
    assert value("spec.t | tojson | length", data) == len(text)
    assert field("v: |-\n  {{ spec.t | tojson(indent=2) }}\n", {"t": {"a": [1]}}) == '{\n  "a": [\n    1\n  ]\n}'
    assert field("v: {{ spec.t | tojson(indent=2) }}\n", {"t": {"a": [1]}}) == {"a": [1]}


def test_json_that_is_laid_out_is_still_structure() -> None:
    data = {"t": {"a": [1]}}
    text = '{\n  "a": [\n    1\n  ]\n}\n'
    for layout in ("indent(4)", "trim", "trim | indent", "indent(2) | string", "safe"):
        assert field(f"v: {{{{ spec.t | tojson | {layout} }}}}\n", data) == data["t"]
        assert field(f"v: {{{{ spec.t | tojson(indent=2) | {layout} }}}}\n", data) == data["t"]
    assert field("v: |\n    {{ spec.t | tojson(indent=2) | indent(4) }}\n", data) == text
    assert field("v: |\n{{ spec.t | tojson(indent=2) | indent(4, first=true) }}\n", data) == text
    assert field("v: |\n    {{ spec.t | tojson(indent=2) }}\n", data) == text


def test_hostile_json_is_json() -> None:
    for hostile in HOSTILE_VALUES.values():
        text = field("v: '{{ spec.t | tojson }}'\n", {"t": [hostile]})
        assert json.loads(text) == [hostile]


@pytest.mark.parametrize(
    "expression",
    ["spec.t | e", "spec.t | escape", "spec.t | forceescape", "spec.t | safe",
     "spec.t | replace('x', '\n')", "spec.t | string", "spec.t | title", "spec.t | truncate(30)",
     "(spec.t | safe) ~ (spec.t | e)", "[spec.t | e, spec.t] | join", "spec.t | e | indent(2)", "spec.t | e | trim"],
)  # fmt: skip
def test_no_filter_turns_a_value_into_yaml(expression: str) -> None:
    found = field(f"v: {{{{ {expression} }}}}\n", {"t": "x: y\nz: {w}\n- v"})
    assert isinstance(found, str)


def test_filters_of_chance_are_refused_at_load() -> None:
    with pytest.raises(LoadError, match=r"a\.yaml\.j2:5: random gives another item each time"):
        problem(HEAD + "v: {{ [1, 2] | random }}\n")


def test_other_filters_of_jinja_are_there() -> None:
    assert (
        value(
            "spec.l | selectattr('on') | map(attribute='n') | join(',')",
            {"l": [{"on": True, "n": 1}, {"on": False, "n": 2}]},
        )
        == "1"
    )
    assert value("spec.m | dictsort", {"m": {"b": 1, "a": 2}}) == [["a", 2], ["b", 1]]
    assert value("1234.567 | round(2)") == 1234.57
    assert value("'5' | int + 1") == 6
    assert value("[3, 1, 2] | sort") == [1, 2, 3]
    assert value("[1, 2, 3] | sum") == 6
    assert value("true | upper") == "TRUE"
    assert value("spec.m | items | list", {"m": {"a": 1}}) == [["a", 1]]
    assert value("'a b' | replace(' ', '-')") == "a-b"
    assert value("[1, none, true] | join('-')") == "1-null-true"


@pytest.mark.parametrize(
    ("expression", "moment"),
    [
        ("'2026-01-31T23:59:30Z' | later('90s')", "2026-02-01T00:01:00Z"),
        ("'2026-01-31T12:00:00+01:00' | later('0')", "2026-01-31T11:00:00Z"),
        ("'2026-01-31T12:00:00.000001Z' | later('1h30m')", "2026-01-31T13:30:00.000001Z"),
        ("'2026-01-31T12:00:00Z' | later('250ms')", "2026-01-31T12:00:00.25Z"),
        ("'2024-02-28T12:00:00Z' | later('1d')", "2024-02-29T12:00:00Z"),
    ],
)
def test_a_moment_is_some_time_later(expression: str, moment: str) -> None:
    assert value(expression) == moment


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'yesterday' | later('1s')", "later needs a time such as metadata.creationTimestamp, 2026-01-31T12:00:00Z"),
        ("'2026-01-31T12:00:00' | later('1s')", "later needs a time such as metadata.creationTimestamp"),
        ("none | later('1s')", "later needs a text, and this value is null"),
        ("'2026-01-31T12:00:00Z' | later('soon')", "later: 'soon' is not a duration; write one like 500ms"),
        ("'2026-01-31T12:00:00Z' | later('3000000d')", "later: that time is beyond the year 9999"),
        ("'2026-01-31T12:00:00Z' | later('9' * 99 ~ 'd')", "later: that time is beyond the year 9999"),
    ],
)
def test_later_refuses_a_value_that_is_not_a_time(expression: str, message: str) -> None:
    assert f"a.yaml.j2:5: {message}" in fault(expression)
