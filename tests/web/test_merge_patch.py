"""The patches that pages get."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.web.event_stream import merge_patch

VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=2), below, max_size=4),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(st.text(max_size=2), VALUES, max_size=5)


def apply_merge_patch(value: Any, patch: Any) -> Any:
    """The value that a patch makes of another one."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), change)
    return merged


@given(MAPPINGS, MAPPINGS)
def test_a_patch_makes_the_second_value_of_the_first_one(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert apply_merge_patch(before, merge_patch(before, after)) == after


@given(MAPPINGS)
def test_equal_values_have_an_empty_patch(value: dict[str, Any]) -> None:
    assert merge_patch(value, value) == {}


def test_a_patch_has_what_differs_alone() -> None:
    before = {"items": {"a": {"state": "Ready", "kind": "Echo"}, "b": {"state": "Ready"}}, "order": ["a", "b"]}
    after = {"items": {"a": {"state": "Failed", "kind": "Echo"}}, "order": ["a"]}
    assert merge_patch(before, after) == {"items": {"a": {"state": "Failed"}, "b": None}, "order": ["a"]}
    assert merge_patch({"count": 1}, {"count": True}) == {"count": True}
