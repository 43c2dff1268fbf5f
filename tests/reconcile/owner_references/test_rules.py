"""The version in the owner reference of an object that is not applied any more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.owner_references import orphan_patch, owner_version_patch


def owner(api_version: str, uid: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Echo", "name": "web", "uid": uid, "controller": uid == "u1"}


def child(*owners: dict[str, Any]) -> LiveObject:
    metadata = {"name": "a", "namespace": "default", "uid": "c", "ownerReferences": [*owners]}
    return LiveObject.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


PARENT = LiveObject.of(
    {"apiVersion": "example.com/v2", "kind": "Echo", "metadata": {"name": "web", "namespace": "default", "uid": "u1"}}
)


def test_the_version_of_the_parent_alone_is_written() -> None:
    patch = owner_version_patch(child(owner("example.com/v1", "u0"), owner("example.com/v1", "u1")), PARENT)
    assert patch is not None
    assert json.loads(patch) == [
        {"op": "test", "path": "/metadata/uid", "value": "c"},
        {"op": "test", "path": "/metadata/ownerReferences/1/uid", "value": "u1"},
        {"op": "replace", "path": "/metadata/ownerReferences/1/apiVersion", "value": "example.com/v2"},
    ]


@pytest.mark.parametrize(
    "live",
    [
        child(),
        child(owner("example.com/v2", "u1")),
        child(owner("example.com/v1", "u0")),
        child(owner("b.com/v1", "u1")),
    ],
    ids=["no owner", "in that version", "another owner", "another group"],
)
def test_any_other_owner_reference_stays(live: LiveObject) -> None:
    assert owner_version_patch(live, PARENT) is None


def test_the_owner_reference_of_the_parent_alone_is_removed() -> None:
    live = child(owner("example.com/v1", "u0"), owner("example.com/v1", "u1"))
    patch = orphan_patch(live, "u1")
    assert patch is not None
    assert json.loads(patch) == [
        {"op": "test", "path": "/metadata/uid", "value": "c"},
        {"op": "test", "path": "/metadata/ownerReferences/1/uid", "value": "u1"},
        {"op": "remove", "path": "/metadata/ownerReferences/1"},
    ]
    assert orphan_patch(live, "u2") is None
