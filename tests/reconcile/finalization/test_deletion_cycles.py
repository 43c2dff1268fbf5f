"""What a namespace in deletion reports, and when what it waits for is read again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.finalization.deletion_cycles import (
    FIRST_PAUSE,
    LAST_PAUSE,
    Remaining,
    pause_before_next_look,
    remaining,
)

CONTENT = (
    "Some resources are remaining: configmaps. has 1 resource instances, links.a.example.com has 2 resource instances"
)
FINALIZERS = (
    "Some content in the namespace has finalizers remaining: a.b/hold in 1 resource instances, "
    "ssa-operator.dev/cleanup in 2 resource instances"
)


def namespace(**messages: Any) -> LiveObject:
    conditions = [{"type": name, "status": "True", "message": message} for name, message in messages.items()]
    metadata = {"name": "team", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": {"conditions": conditions}}
    return LiveObject.of(body)


def test_a_namespace_names_the_resources_that_are_left_and_counts_those_with_the_finalizer() -> None:
    found = remaining(namespace(NamespaceContentRemaining=CONTENT, NamespaceFinalizersRemaining=FINALIZERS))
    assert found == Remaining(resources=("configmaps", "links.a.example.com"), count=2)


@pytest.mark.parametrize(
    "messages",
    [
        {},
        {"NamespaceContentRemaining": CONTENT},
        {"NamespaceContentRemaining": CONTENT, "NamespaceFinalizersRemaining": "a.b/hold in 1 resource instances"},
        {"NamespaceFinalizersRemaining": 5},
    ],
)
def test_a_namespace_without_an_object_with_the_finalizer_reports_none(messages: dict[str, Any]) -> None:
    assert remaining(namespace(**messages)) is None


@given(st.floats(0, 1e9))
def test_the_pause_between_two_looks_grows_with_the_deletion_up_to_a_bound(taken: float) -> None:
    began = 1767225600.0
    now = began + taken
    pause = pause_before_next_look([namespace()], now)
    assert FIRST_PAUSE <= pause <= LAST_PAUSE
    assert pause == min(max((now - began) / 2, FIRST_PAUSE), LAST_PAUSE)
