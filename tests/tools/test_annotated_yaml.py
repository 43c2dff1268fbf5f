"""The lines of annotated YAML are the data, and each field has its line."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.yaml.to_yaml import yaml_lines

TEXTS = st.text(max_size=12) | st.text(alphabet="a \n\t:#-'\"|\r", max_size=12)
VALUES = st.recursive(
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


@given(VALUES)
@example({"a": "x\n\n y\n", "b": ["x\ny", {"c": "x\n"}], "d": "x\n\n", "e": " x\ny"})
def test_a_parser_reads_the_data_back_and_each_field_has_one_line(value: Any) -> None:
    lines = [*yaml_lines(value)]
    assert yaml.safe_load("\n".join(line.text for line in lines) + "\n") == value
    assert [line.field for line in lines if line.field is not None] == leaves(value)


def test_a_text_of_several_lines_is_a_block() -> None:
    lines = [line.text for line in yaml_lines({"conf": "a: 1\n\nb: 2\n", "end": "x\ny"})]
    assert lines == ["conf: |", "  a: 1", "", "  b: 2", "end: |-", "  x", "  y"]
