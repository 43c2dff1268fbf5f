"""Whether an apply changed any of the operator's fields, by the object before and after it."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.reconcile.resync.unchanged import (
    ApplyRecord,
    is_counted_as_change,
    is_counted_in_vain,
    is_same_apply,
    is_untouched,
)
from tests.objects.example_objects import child


def written(time: str = "2026-01-01T12:00:00Z", field: str = "f:a") -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "manager": MANAGER,
        "operation": "Apply",
        "time": time,
        "fieldsV1": {"f:data": {field: {}}},
    }
    return [entry]


def settings(version: str, value: str = "b", **metadata: Any) -> LiveObject:
    own: dict[str, Any] = {"managedFields": written()} | metadata
    body = child(resourceVersion=version, **own).body
    return LiveObject.of({**body, "data": {"a": value, "theirs": version}})


BEFORE = settings("7")


@pytest.mark.parametrize(
    ("after", "same"),
    [
        (settings("7"), True),
        (settings("8"), True),  # another manager wrote its own field before the apply
        (settings("8", "c"), False),  # a change within the second of the last one
        (settings("8", managedFields=written("2026-01-01T12:00:01Z")), False),
        (settings("8", managedFields=written(field="f:other")), False),
        (settings("8", uid="c-2"), False),
        (settings("8", managedFields=[]), False),
    ],
)
def test_only_a_change_of_the_operators_fields_counts_as_a_change(after: LiveObject, same: bool) -> None:
    assert is_same_apply(BEFORE, after) is same


def test_values_of_two_versions_of_an_object_are_not_compared() -> None:
    """An API server that converts has the field under another name."""
    converted = LiveObject.of({**settings("8").body, "apiVersion": "v2", "data": {"renamed": "b"}})
    assert is_same_apply(BEFORE, converted)
    record = ApplyRecord(digest=b"m", applied=BEFORE)
    assert is_untouched(record, converted)
    assert not is_untouched(record, settings("8", "c"))


def policy(version: str, generation: int, time: str = "2026-01-01T12:00:00Z", **fields: Any) -> LiveObject:
    body = child(resourceVersion=version, generation=generation, managedFields=written(time)).body
    return LiveObject.of({**body, "spec": {"a": 1}, **fields})


@pytest.mark.parametrize(
    ("after", "counted"),
    [
        (policy("8", 2, "2026-01-01T12:00:01Z"), True),
        (policy("8", 2), True),
        (policy("8", 1, "2026-01-01T12:00:01Z"), True),  # a kind without a generation
        (policy("7", 1), False),
        (policy("8", 3, "2026-01-01T12:00:01Z"), False),  # others changed it, and the apply reverted that
        (policy("8", 2, spec={"a": 2}), False),
        (policy("8", 2, status={"seen": True}), False),
        (LiveObject.of({**policy("8", 2).body, "metadata": {**policy("8", 2).body["metadata"], "uid": "c-2"}}), False),
    ],
)
def test_an_apply_that_changes_only_the_version_is_counted_in_vain(after: LiveObject, counted: bool) -> None:
    assert is_counted_as_change(policy("7", 1), after) is counted


def test_any_later_version_of_an_object_ends_that_it_is_counted_in_vain() -> None:
    record = ApplyRecord(digest=b"m", applied=BEFORE, counted_version="7")
    assert is_counted_in_vain(settings("7"), record)
    assert not is_counted_in_vain(settings("8"), record)
    assert not is_counted_in_vain(settings("7", uid="c-2"), record)
    assert not is_counted_in_vain(settings("7"), ApplyRecord(digest=b"m", applied=BEFORE))
    assert not is_counted_in_vain(settings("7"), None)
