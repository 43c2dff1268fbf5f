"""Whoever may write an object may write its managedFields: whatever is in them is read without an error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.field_attribution import attribute
from ssa_operator.objects.field_set import changed_fields, field_set, leaves, lost_fields, path_text
from ssa_operator.objects.json_codec import NESTING_LIMIT
from ssa_operator.objects.live_object import MANAGER, LiveObject, OwnerReference
from ssa_operator.objects.managed_fields import has_owned_content, managers_of
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.reconcile.adoption import adopt_fields_patch, former_managers
from ssa_operator.reconcile.field_changes import field_changes, left_fields
from ssa_operator.reconcile.field_conflicts.rules import find_field_changes

STEPS = st.sampled_from(
    [
        *("f:data", "f:a", ".", "f:", "k:", "k:{}", 'k:{"name":"a"}', "k:[1]", "k:nonsense", "v:", 'v:"a"', "v:1"),
        *("v:NaN", "i:0", "i:-1", "i:²", f"i:{'9' * 5000}", f"v:{'9' * 5000}", f"v:{'[' * 5000}", "", "x", "x:y"),
    ]
) | st.text(max_size=4)
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(STEPS, inner, max_size=4))
MANAGERS = st.sampled_from([MANAGER, "kubectl-client-side-apply", "before-first-apply", "stranger"])
TEXTS = MANAGERS | SCALARS | st.sampled_from(["Apply", "Update", "2026-01-01T00:00:00Z", "v1", "v2", "{"])
ENTRIES = st.dictionaries(
    st.sampled_from(["manager", "operation", "time", "apiVersion", "subresource", "fieldsType"]), TEXTS
).flatmap(lambda entry: TREES.map(lambda tree: {"operation": "Apply", **entry, "fieldsV1": tree}))
LISTS = st.lists(ENTRIES | SCALARS, max_size=4) | SCALARS
DATA = st.dictionaries(st.sampled_from(["a", "b"]), st.just("1") | st.lists(st.just("a"), max_size=2), max_size=2)


def config_map(managed_fields: Any, data: Any = None, **metadata: Any) -> LiveObject:
    metadata = {"name": "a", "namespace": "b", "resourceVersion": "1", "managedFields": managed_fields, **metadata}
    return LiveObject.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}})


@given(LISTS, LISTS, DATA, DATA)
def test_whatever_others_write_is_read_without_an_error(before: Any, after: Any, old: Any, new: Any) -> None:
    one, other = config_map(before, old), config_map(after, new)
    for live in (one, other):
        former_managers(live)
        adopt_fields_patch(live, "v1")
        attribute(live, None)
        for path in (path for entry in live.managed_fields for path in leaves(field_set(bytes(entry.fields_v1)))):
            path_text(path)
            IndexedBody(live.body).value_at(path)
            IndexedBody(live.body).place(path)
            managers_of(live, [path])
    find_field_changes(one.own_entry(), one, other)
    find_field_changes(one.own_entry("status"), one, other, "status")
    field_changes(one, other)
    left_fields(one, other)


@given(st.binary(max_size=20) | TREES.map(msgspec.json.encode), st.binary(max_size=20) | TREES.map(msgspec.json.encode))
def test_any_bytes_are_a_tree_of_fields(one: bytes, other: bytes) -> None:
    lost_fields(one, other)
    changed_fields(one, {"a": [1]}, {"a": {}})


@pytest.mark.more_cases
@pytest.mark.parametrize("levels", [NESTING_LIMIT - 1, NESTING_LIMIT + 1, 900, 5000, 100_000])
def test_a_field_that_is_nested_too_deep_is_owned_as_a_whole(levels: int) -> None:
    encoded = b'{"f:a":' * levels + b"{}" + b"}" * levels
    tree: Any = field_set(encoded)
    depth = 0
    while tree:
        depth, tree = depth + 1, tree["f:a"]
    assert depth == min(levels, NESTING_LIMIT)
    (path,) = leaves(field_set(encoded))
    assert len(path) == depth
    entry = b'{"manager":"ssa-operator","operation":"Apply","fieldsV1":' + encoded + b"}"
    raw = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[' + entry + b"]}}"
    live = LiveObject(raw)
    assert managers_of(live, [path]) != [None]
    assert find_field_changes(live.own_entry(), live, config_map([])) != ()
    assert attribute(live, None)


def test_an_entry_that_is_none_hides_no_other() -> None:
    ours = {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}}
    owner = {"apiVersion": "v1", "kind": "Echo", "name": "web", "uid": "1"}
    live = config_map([5, {"manager": None}, ours], ownerReferences=["x", owner, {"uid": 7}])
    assert [*leaves(field_set(live.owned_fields()))] == [("f:data", "f:a")]
    assert live.owner_references == (OwnerReference(api_version="v1", kind="Echo", name="web", uid="1"),)


def test_the_fields_of_other_managers_and_of_the_status_are_not_owned() -> None:
    fields = {"fieldsV1": {"f:data": {"f:a": {}}}, "operation": "Apply"}
    others = config_map([{**fields, "manager": "other"}, {**fields, "manager": MANAGER, "subresource": "status"}])
    assert has_owned_content(others, {})
    assert not has_owned_content(config_map([{**fields, "manager": MANAGER}]), {})
