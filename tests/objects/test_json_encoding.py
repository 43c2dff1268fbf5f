"""A mapping that is kept encoded is the mapping that it was made of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.objects.json_encoding import NOTHING, EncodedMapping

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
MAPPINGS = st.dictionaries(st.text(max_size=5), VALUES, max_size=5)


@given(MAPPINGS, MAPPINGS)
@settings(max_examples=30)
def test_an_encoded_mapping_equals_what_it_was_made_of_and_nothing_else(mapping: Any, other: Any) -> None:
    kept = EncodedMapping(mapping)
    assert kept == mapping
    assert mapping == kept
    assert dict(kept) == mapping
    assert len(kept) == len(mapping)
    assert EncodedMapping(kept) == kept
    assert (kept == other) is (mapping == other)
    assert (kept == EncodedMapping(other)) is (mapping == other)


def test_the_order_of_the_keys_makes_no_difference() -> None:
    assert EncodedMapping({"a": 1, "b": 2}) == EncodedMapping({"b": 2, "a": 1})


def test_what_a_reader_does_to_a_value_does_not_change_the_mapping() -> None:
    kept = EncodedMapping({"conditions": [1]})
    kept["conditions"].append(2)
    assert kept["conditions"] == [1]
    assert kept.get("resources", []) == []
    with pytest.raises(KeyError):
        kept["resources"]


def test_the_shared_empty_mapping_can_not_be_changed() -> None:
    assert NOTHING == {}
    with pytest.raises(TypeError):
        NOTHING["a"] = 1  # type: ignore[index]
