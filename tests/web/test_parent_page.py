"""The portions in which a page gets a large tree."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ssa_operator.web.answers import ParentTree
from ssa_operator.web.event_stream import merge_patch
from ssa_operator.web.parent_page import FIRST_NODES, MORE_NODES, portions
from tests.benchmarks.web import tree
from tests.web.test_merge_patch import apply_merge_patch


@pytest.mark.parametrize("count", [0, FIRST_NODES, FIRST_NODES + 1, FIRST_NODES + MORE_NODES + 1])
def test_a_page_that_takes_each_portion_has_the_whole_tree(count: int) -> None:
    value = tree(count)
    shown: Any = {}
    sizes = []
    for portion in portions(value):
        patch = merge_patch(shown, portion)
        sizes.append(len(patch.get("nodes", ())))
        shown = apply_merge_patch(shown, patch)
        assert shown["order"] == list(shown["nodes"])[: FIRST_NODES if "left" in shown else count]
        assert len(shown["nodes"]) + shown.get("left", 0) == count
        assert json_of(msgspec.convert(shown, ParentTree)) == json_of(shown), "the reference has these fields"
    assert shown == value
    assert sizes[0] <= FIRST_NODES
    assert max(sizes) <= MORE_NODES


def json_of(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")
