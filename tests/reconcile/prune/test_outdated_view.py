"""Which changes of a parent forbid to delete by what is known of it."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.prune.outdated_view import is_outdated, is_outdated_but_for_records
from tests.objects.example_objects import parent


@pytest.mark.parametrize(
    ("changes", "outdated"),
    [
        ({}, False),
        ({"resourceVersion": "6", "status": {"observedGeneration": 1}}, False),
        ({"managedFields": [{"manager": "kubectl", "operation": "Update"}]}, False),
        ({"generation": 2}, True),
        ({"uid": "another"}, True),
        ({"labels": {"a": "b"}}, True),
        ({"annotations": {"ssa-operator.dev/suspend": "true"}}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
    ],
)
def test_a_change_that_is_acted_on_makes_the_view_outdated(changes: dict[str, Any], outdated: bool) -> None:
    assert is_outdated(parent(), parent(**changes)) is outdated


def test_a_parent_without_a_generation_is_compared_by_its_content() -> None:
    def settings(text: str) -> LiveObject:
        metadata = {"name": "a", "namespace": "b", "uid": "u"}
        return LiveObject.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": text}})

    assert is_outdated(settings("1"), settings("2"))
    assert not is_outdated(settings("1"), settings("1"))


@pytest.mark.parametrize(
    ("changes", "outdated"),
    [
        ({"annotations": {"ssa-operator.dev/inventory": "[]", "ssa-operator.dev/once": "{}"}}, False),
        ({"finalizers": ["ssa-operator.dev/cleanup"], "resourceVersion": "6"}, False),
        ({"finalizers": ["example.com/own"]}, True),
        ({"annotations": {"ssa-operator.dev/suspend": "true"}}, True),
        ({"generation": 2}, True),
        ({"uid": "another"}, True),
    ],
)
def test_records_of_the_operator_make_no_view_outdated(changes: dict[str, Any], outdated: bool) -> None:
    assert is_outdated_but_for_records(parent(), parent(**changes)) is outdated
