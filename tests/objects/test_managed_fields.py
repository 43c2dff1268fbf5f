"""Field sets by their laws, and managedFields that anybody may have written are read without an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ssa_operator.objects.field_attribution import attribute
from ssa_operator.objects.field_set import (
    FieldSet,
    ListTypes,
    Path,
    changed_fields,
    covers,
    field_set,
    has,
    lacking,
    leaves,
    lost_fields,
    path_text,
    select,
    set_of,
    split,
    union,
    without_fields,
)
from ssa_operator.objects.json_codec import NESTING_LIMIT
from ssa_operator.objects.live_object import MANAGER, LiveObject, OwnerReference
from ssa_operator.objects.managed_fields import FieldOwners, has_owned_content, managers_of
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.reconcile.adoption import adopt_fields_patch, former_managers
from ssa_operator.reconcile.field_changes import field_changes, left_fields
from ssa_operator.reconcile.field_conflicts.rules import find_field_changes

FIELD_STEPS = st.sampled_from(
    [
        *("f:data", "f:a", ".", "f:", "k:", "k:{}", 'k:{"name":"a"}', "k:[1]", "k:nonsense", "v:", 'v:"a"', "v:1"),
        *("v:NaN", "i:0", "i:-1", "i:²", f"i:{'9' * 5000}", f"v:{'9' * 5000}", f"v:{'[' * 5000}", "", "x", "x:y"),
    ]
) | st.text(max_size=4)
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELD_STEPS, inner, max_size=4)
)
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


STEPS = st.sampled_from([".", "f:a", "f:b", "f:name", 'k:{"name":"a"}', 'v:"a"', "i:0"])
SETS: st.SearchStrategy[Any] = st.recursive(
    st.just({}), lambda inner: st.dictionaries(STEPS, inner, max_size=3), max_leaves=6
)
PATHS = st.lists(STEPS.filter(lambda step: step != "."), min_size=1, max_size=3).map(tuple)
BODIES = st.recursive(
    st.sampled_from(["a", 1, None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "name"]), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b"]), BODIES, max_size=2)


@given(st.lists(PATHS, max_size=4))
def test_a_set_covers_the_fields_that_it_is_made_of(paths: list[Path]) -> None:
    found = set_of(paths)
    assert all(covers(found, path) for path in paths)
    assert {*leaves(found)} <= {*paths}
    assert all(has(found, path) for path in leaves(found))


@given(SETS, SETS, PATHS)
def test_a_union_covers_what_one_of_the_sets_has(one: FieldSet, other: FieldSet, path: Path) -> None:
    both = union([one, other])
    assert covers(both, path) or not (has(one, path) or has(other, path))
    assert union([other, one]) == both == union([both, one])


@given(SETS, PATHS)
def test_a_field_is_split_from_a_set_with_what_is_below(fields: FieldSet, path: Path) -> None:
    rest, taken = split(fields, path)
    assert not covers(rest, path) or rest == fields
    assert all(leaf[: len(path)] == path for leaf in leaves(taken))
    assert {*leaves(taken)} <= {*leaves(fields)}


@given(st.lists(SETS, max_size=4), PATHS)
def test_owners_are_found_as_each_set_alone_tells(sets: list[FieldSet], path: Path) -> None:
    owners = FieldOwners([*enumerate(sets)], [path])
    assert owners.covering(path) == tuple(at for at, fields in enumerate(sets) if covers(fields, path) and fields)


@example({".": {"f:a": {}}}, {})
@example({"f:a": {".": {}}}, {"a": "a"})
@given(SETS, OBJECTS)
def test_a_body_has_all_owned_fields_if_an_apply_of_it_would_remove_none(fields: FieldSet, body: Any) -> None:
    live = config_map([{"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}])
    _, others = select(fields, body)
    assert has_owned_content(live, body) == (not lacking(others, body))


@given(SETS, BODIES)
def test_a_body_lacks_no_field_of_what_is_selected_from_it(fields: FieldSet, body: Any) -> None:
    within, _ = select(fields, body)
    assert not lacking(within, body)
    assert not lacking(fields, body, kept=union([fields, within]))


@given(SETS, OBJECTS)
def test_a_body_without_fields_lacks_them(fields: FieldSet, body: Mapping[str, Any]) -> None:
    rest = without_fields(body, lacking(fields, {}))
    assert all(path[0][2:] not in rest for path in leaves(lacking(fields, {})) if path[0].startswith("f:"))
    assert without_fields(body, {}) == body


def test_the_managers_of_an_object_tell_how_its_lists_are_merged() -> None:
    containers: FieldSet = {'k:{"name":"a"}': {"f:ports": {'k:{"containerPort":1,"protocol":"TCP"}': {"f:name": {}}}}}
    types = ListTypes([{"f:containers": {}}, {"f:containers": containers, "f:finalizers": {'v:"a"': {}}}])
    assert types.field("containers").keys == ("name",)
    assert types.field("containers").item.field("ports").keys == ("containerPort", "protocol")
    assert types.field("finalizers").is_set
    assert not types.field("other").is_set
