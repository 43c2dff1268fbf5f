"""Where a parent's children are compared with what the last applies left of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.field_conflicts.history import ConflictHistory, ConflictPolicy
from ssa_operator.reconcile.field_conflicts.rules import (
    ATTEMPTS,
    LARGE,
    AppliedChildren,
    observe_conflicts,
    observe_foreign_changes,
)
from ssa_operator.reconcile.render_turns import RenderTurns
from ssa_operator.reconcile.resync.unchanged import ApplyRecord
from tests.objects.example_objects import child, memories

SMALL = "x"
BIG = "x" * LARGE

OURS = {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}}
THEIRS = {"manager": "rival", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}}


def state(value: str, version: str, entry: dict[str, Any] = OURS) -> LiveObject:
    metadata: dict[str, Any] = {"uid": "1", "resourceVersion": version, "managedFields": [entry]}
    return LiveObject.of({**child(**metadata).body, "data": {"a": value}})


def seen(applied: LiveObject, live: LiveObject) -> AppliedChildren:
    identity = live.identity
    records = {identity: ApplyRecord(digest=b"m", applied=applied)}
    return AppliedChildren(memories=memories(apply_records=records), live={identity: live}, synced=lambda _: True)


class Observed:
    """Observes children, and counts how often, and where."""

    def __init__(self) -> None:
        self.on_loop: list[bool] = []

    def __call__(self, children: AppliedChildren) -> ChildMemories:
        self.on_loop.append(threading.current_thread() is threading.main_thread())
        return observe_conflicts(children, 0.0, ConflictPolicy())


async def observe(look: Callable[[], AppliedChildren]) -> tuple[ChildMemories, list[bool]]:
    observed = Observed()
    history = await observe_foreign_changes(look, observed, RenderTurns().in_thread)
    return history, observed.on_loop


def conflicts(memories: ChildMemories) -> list[ConflictHistory]:
    return [row.conflict for row in memories.by_child.values() if row.conflict is not None]


@pytest.mark.parametrize(("value", "on_loop"), [(SMALL, True), (BIG, False)])
@pytest.mark.parametrize("entry", [OURS, THEIRS], ids=["the values", "the owners"])
async def test_large_children_are_compared_in_a_thread(value: str, on_loop: bool, entry: dict[str, Any]) -> None:
    children = seen(state(value, "7"), state(value + "y", "8", entry))
    history, found = await observe(lambda: children)
    assert found == [on_loop]
    assert len(conflicts(history)) == 1


async def test_many_small_children_are_large_together() -> None:
    pairs = {f"{at}": (state("x" * 1000, "7"), state("y" * 1000, "8", THEIRS)) for at in range(LARGE // 2000 + 1)}
    children = AppliedChildren(
        memories=memories(
            apply_records={
                child(name).identity: ApplyRecord(digest=b"m", applied=applied) for name, (applied, _) in pairs.items()
            }
        ),
        live={child(name).identity: live for name, (_, live) in pairs.items()},
        synced=lambda _: True,
    )
    assert (await observe(lambda: children))[1] == [False]


async def test_a_large_child_that_is_as_it_was_applied_is_not_compared() -> None:
    applied = state(BIG, "7")
    for live in (applied, state(BIG, "7")):
        children = seen(applied, live)
        assert (await observe(lambda children=children: children))[1] == []  # type: ignore[misc]


async def test_an_untouched_child_is_compared_once() -> None:
    applied, live = state(BIG, "7"), state(BIG, "8")
    children = seen(applied, live)
    history, found = await observe(lambda: children)
    assert (found, conflicts(history)) == ([False], [])
    children = AppliedChildren(memories=history, live=children.live, synced=lambda _: True)
    assert await observe(lambda: children) == (history, [])


async def test_a_child_that_changes_meanwhile_is_compared_again_a_few_times() -> None:
    applied = state(BIG, "7")
    versions = [seen(applied, state(BIG, str(8 + at), THEIRS)) for at in range(ATTEMPTS + 2)]
    changes_once = [versions[0], versions[1], versions[1]]
    assert (await observe(lambda: changes_once.pop(0)))[1] == [False, False]
    history, found = await observe(lambda: versions.pop(0))
    assert found == [False] * ATTEMPTS
    assert len(conflicts(history)) == 1
