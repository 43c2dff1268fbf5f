"""The operations of field sets, by their laws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ssa_operator.objects.field_set import (
    FieldSet,
    ListTypes,
    Path,
    covers,
    has,
    lacking,
    leaves,
    select,
    set_of,
    split,
    union,
    without_fields,
)
from ssa_operator.objects.live_object import MANAGER
from ssa_operator.objects.managed_fields import FieldOwners, has_owned_content
from tests.objects.test_managed_fields import config_map

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
