"""Whose fields an apply changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.reconcile.field_changes import ChangeCause, field_changes, left_fields

Fields = dict[str, Any]


def owner(fields: Fields, manager: str = MANAGER, operation: str = "Apply", subresource: str = "") -> dict[str, Any]:
    entry = {"manager": manager, "operation": operation, "fieldsV1": fields}
    return entry | ({"subresource": subresource} if subresource else {})


def live(spec: dict[str, Any], *owners: dict[str, Any]) -> LiveObject:
    metadata = {
        "name": "web",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": list(owners),
    }
    return LiveObject.of({"apiVersion": "example.com/v1", "kind": "Any", "metadata": metadata, "spec": spec})


def spec_fields(**fields: Fields) -> Fields:
    return {"f:spec": {f"f:{name}": below for name, below in fields.items()}}


def causes(before: LiveObject, after: LiveObject) -> dict[str, ChangeCause]:
    return {str(change): change.cause for change in field_changes(before, after)}


def test_a_value_that_the_templates_change_is_told_from_one_that_another_manager_wrote() -> None:
    before = live({"a": 1, "b": 1}, owner(spec_fields(a={})), owner(spec_fields(b={}), "kubectl", "Update", "scale"))
    after = live({"a": 2, "b": 2}, owner(spec_fields(a={}, b={})))
    assert causes(before, after) == {"spec.a": ChangeCause.TEMPLATE, "spec.b": ChangeCause.TAKEN}
    _, taken = field_changes(before, after)
    assert [str(each) for each in taken.owners] == ["kubectl (scale)"]


def test_a_field_without_a_manager_that_the_templates_now_render_is_their_change() -> None:
    before, after = live({"a": 1}), live({"a": 2}, owner(spec_fields(a={})))
    assert causes(before, after) == {"spec.a": ChangeCause.TEMPLATE}


def test_a_removed_field_was_ours_a_former_managers_or_the_api_servers() -> None:
    before = live(
        {"ours": 1, "former": 1, "default": 1},
        owner(spec_fields(ours={})),
        owner(spec_fields(former={}), "old", "Update"),
    )
    assert causes(before, live({}, owner({}))) == {
        "spec.ours": ChangeCause.TEMPLATE,
        "spec.former": ChangeCause.ADOPTED,
        "spec.default": ChangeCause.SERVER,
    }


def test_a_field_that_no_manifest_has_is_the_api_servers_change() -> None:
    before, after = live({"a": 1}, owner(spec_fields(a={}))), live({"a": 1, "b": 5}, owner(spec_fields(a={})))
    assert causes(before, after) == {"spec.b": ChangeCause.SERVER}


def test_items_of_list_maps_are_compared_by_their_keys() -> None:
    one, two = ({"name": name, "image": f"{name}:1"} for name in ("one", "two"))
    keys: Fields = {f'k:{{"name":"{name}"}}': {".": {}, "f:image": {}, "f:name": {}} for name in ("one", "two")}
    before = live({"c": [one, two]}, owner(spec_fields(c=keys)))
    after = live({"c": [two | {"image": "two:2"}, one]}, owner(spec_fields(c=keys)))
    (change,) = field_changes(before, after)
    assert str(change) == "spec.c[name=two].image"
    assert IndexedBody(after.body).place(change.path) == ("spec", "c", 0, "image")


def test_what_the_api_server_keeps_by_itself_and_the_status_are_no_change() -> None:
    before, after = live({"a": 1}), live({"a": 1})
    after.body["metadata"] |= {"resourceVersion": "8", "generation": 2, "uid": "other"}
    after.body["status"] = {"phase": "x"}
    assert field_changes(before, LiveObject.of(after.body)) == ()


def test_a_field_that_is_given_up_and_that_another_manager_owns_is_left() -> None:
    other = owner(spec_fields(a={}), "hpa", "Update")
    before, after = live({"a": 1, "b": 1}, owner(spec_fields(a={}, b={})), other), live({"a": 1}, owner({}), other)
    (left,) = left_fields(before, after)
    assert (str(left), [str(each) for each in left.owners]) == ("spec.a", ["hpa (Update)"])


values = st.recursive(
    st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(st.text(max_size=3), inner), max_leaves=8
)
specs = st.dictionaries(st.sampled_from("abcd"), values)


@pytest.mark.exhaustive
@given(specs, specs)
def test_equal_objects_have_no_changes_and_different_ones_have(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert bool(field_changes(live(one), live(other))) is (one != other)


def test_a_field_that_is_removed_with_a_change_of_the_version_was_ours() -> None:
    """The entry of the last apply names it in another version."""
    before = live(
        {"renamed": 1, "theirs": 1},
        owner(spec_fields(old={})) | {"apiVersion": "example.com/v0"},
        owner(spec_fields(theirs={}), "kubectl", "Update"),
    )
    assert causes(before, live({}, owner({}))) == {
        "spec.renamed": ChangeCause.TEMPLATE,
        "spec.theirs": ChangeCause.ADOPTED,
    }
