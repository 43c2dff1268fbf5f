"""Which differences between the children of two parents count."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.reconcile.secrets.content_fields import NO_CONTENT
from tests.exploration.results import (
    ABSENT,
    ChildState,
    Names,
    child_state,
    children_differences,
    variation,
)


def parent(number: int) -> LiveObject:
    metadata = {"name": "web", "namespace": f"explore-{number}", "uid": f"0000000{number}-1111-2222-3333-444444444444"}
    return LiveObject.of({"apiVersion": "example.com/v1", "kind": "Echo", "metadata": metadata})


def child(number: int, owned: dict[str, Any], foreign: dict[str, Any] | None = None, **fields: Any) -> ChildState:
    """A child of the parent with a number; the operator owns the keys of `owned`, and a controller those of
    `foreign`.
    """
    of = parent(number)
    tree: dict[str, Any] = {"f:data": {f"f:{key}": {} for key in owned}}
    others: dict[str, Any] = {"f:data": {f"f:{key}": {} for key in foreign or ()}}
    managed = [
        {"manager": "ssa-operator", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": tree},
        {"manager": "kube-controller-manager", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": others},
    ]
    metadata = {"name": f"web-{of.uid}", "namespace": of.identity.namespace, "uid": f"child-{number}"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {**owned, **(foreign or {})}, **fields}
    live = LiveObject.of({**body, "metadata": {**metadata, "managedFields": managed}})
    return child_state(live, NO_CONTENT, Names.of(of, own_name=False))


def test_namespaces_and_uids_make_no_difference() -> None:
    children = [
        child(number, {"host": f"web.explore-{number}.svc", "id": parent(number).uid.replace("-", "")})
        for number in (1, 2)
    ]
    assert children[0].name == "ConfigMap/web-<uid>"
    assert children_differences(children[:1], children[1:]) == []


def test_fields_of_others_and_the_status_make_no_difference() -> None:
    one = child(1, {"a": "b"}, {"revision": "1"}, status={"x": 1}, immutable=False)
    other = child(2, {"a": "b"}, {"revision": "2"}, status={"x": 2})
    assert children_differences([one], [other]) == []


def test_a_field_and_a_child_that_one_lacks_are_named() -> None:
    one, other = child(1, {"a": "1", "b": "2"}), child(2, {"a": "3"})
    found = [(each.field, each.found, each.expected) for each in children_differences([one], [other])]
    assert found == [("data.a", "1", "3"), ("data.b", "2", ABSENT)]
    (missing,) = children_differences([], [other])
    assert (missing.child, missing.field, missing.found) == ("ConfigMap/web-<uid>", "", ABSENT)
    (more,) = children_differences([one], [])
    assert (more.found, more.expected) == ("exists", ABSENT)


def test_what_differs_between_new_parents_makes_no_difference() -> None:
    new = [child(number, {"password": str(number), "a": "b"}) for number in (1, 2)]
    ignored = variation(new[:1], new[1:])
    assert children_differences([child(3, {"password": "3", "a": "b"})], new[:1], ignored) == []
    (found,) = children_differences([child(3, {"password": "3", "a": "c"})], new[:1], ignored)
    assert found.field == "data.a"
    # Also a child whose name varies.
    named = [replace(each, name=f"ConfigMap/{at}") for at, each in enumerate(new)]
    assert children_differences([], named[:1], variation(named[:1], named[1:])) == []


def test_what_is_applied_once_is_not_compared() -> None:
    once = replace(child(1, {"a": "1"}), compared=False)
    assert children_differences([once], [child(2, {"a": "2"})]) == []
    assert children_differences([], [once]) == []


def test_a_secret_s_content_is_not_shown() -> None:
    one, other = (child(number, {"password": f"hunter{number}"}, kind="Secret") for number in (1, 2))
    (found,) = children_differences([one], [other])
    assert (found.found, found.expected) == (HIDDEN, HIDDEN)
    assert "hunter" not in json.dumps(found.data())
