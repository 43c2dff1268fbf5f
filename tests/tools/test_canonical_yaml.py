"""The YAML of golden cases and annotated YAML: both read back as the same values."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import SlotValues
from ssa_operator.rendering.yaml.to_yaml import yaml_lines
from ssa_operator.tools.printing import canonical_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    [
        "yes",
        "1e3",
        "0o17",
        "0x1f",
        "~",
        "",
        "null",
        "2026-01-01",
        "1:30",
        "a\nb\n",
        " a\nb",
        "a\n\n",
        "a \nb",
        "- a\n- b",
        "#\n",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=6,
)


def read(text: str) -> list[Any]:
    return [node.build(SlotValues()) for node in parse(StaticText(text, "x.yaml"))]


@given(st.lists(st.dictionaries(TEXT, VALUES, min_size=1, max_size=4), max_size=3))
def test_documents_read_back_as_the_same_values_with_the_same_types(documents: list[dict[str, Any]]) -> None:
    assert repr(read(canonical_text(documents))) == repr(documents)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_the_sorted_form_does_not_depend_on_the_order_of_keys(document: dict[str, Any]) -> None:
    backwards = dict(reversed(document.items()))
    assert canonical_text([document], sort_keys=True) == canonical_text([backwards], sort_keys=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a: b\n  c\n", "v: |\n  a: b\n    c\n"),
        ("1e3", "v: '1e3'\n"),
        ("10.0.0.7", "v: 10.0.0.7\n"),
        (True, "v: true\n"),
        ([{"a": 1}], "v:\n- a: 1\n"),
    ],
)
def test_the_text_is_made_for_reading(value: Any, text: str) -> None:
    assert canonical_text([{"v": value}]) == text


TEXTS = st.text(max_size=12) | st.text(alphabet="a \n\t:#-'\"|\r", max_size=12)
ANNOTATED = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def leaves(value: Any, path: FieldPath = ()) -> list[FieldPath]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for at, item in enumerate(value) for leaf in leaves(item, (*path, at))]
    return [path]


@given(ANNOTATED)
@example({"a": "x\n\n y\n", "b": ["x\ny", {"c": "x\n"}], "d": "x\n\n", "e": " x\ny"})
def test_a_parser_reads_the_data_back_and_each_field_has_one_line(value: Any) -> None:
    lines = [*yaml_lines(value)]
    assert yaml.safe_load("\n".join(line.text for line in lines) + "\n") == value
    assert [line.field for line in lines if line.field is not None] == leaves(value)


def test_a_text_of_several_lines_is_a_block() -> None:
    lines = [line.text for line in yaml_lines({"conf": "a: 1\n\nb: 2\n", "end": "x\ny"})]
    assert lines == ["conf: |", "  a: 1", "", "  b: 2", "end: |-", "  x", "  y"]
