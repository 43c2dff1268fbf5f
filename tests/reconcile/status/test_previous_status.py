"""The status that an earlier process wrote leads to its children, whatever other clients wrote into it since."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.identity import GroupKind, Identity, read_identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.status.previous_status import (
    KEPT_UNTIL,
    named_children,
    reported_kinds,
    reported_successors,
)

MAP = {"group": "", "kind": "ConfigMap", "namespace": "default", "name": "web", "message": f"{KEPT_UNTIL} b is ready"}

VALUES: st.SearchStrategy[Any] = st.sampled_from(["", "a", "..", "a/b", "ConfigMap", None, 7, {}])
MAPPINGS = st.dictionaries(st.sampled_from(["group", "kind", "namespace", "name", "state"]), VALUES)


def live(kind: str, name: str, **more: Any) -> LiveObject:
    return LiveObject.of({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **more})


def test_a_child_that_was_kept_until_another_is_ready_waits_for_all() -> None:
    parent = live("Echo", "web", status={"resources": [MAP]})
    own = [live("ConfigMap", "web"), live("ConfigMap", "b"), live("Secret", "c")]
    assert reported_kinds(parent) == {GroupKind("", "ConfigMap")}
    assert reported_successors(parent, own) == {own[0].identity: frozenset(each.identity for each in own)}


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "text",
        [MAP],
        {},
        {**MAP, "kind": 7},
        {**MAP, "kind": ""},
        {**MAP, "group": ["apps"]},
        {**MAP, "group": None},
    ],
)
def test_an_entry_that_names_no_kind_is_ignored(entry: object) -> None:
    parent = live("Echo", "web", status={"resources": [entry, MAP]})
    assert reported_kinds(parent) == {GroupKind("", "ConfigMap")}
    assert reported_successors(parent, ()).keys() == {Identity("", "ConfigMap", "default", "web")}
    assert named_children(parent) == {Identity("", "ConfigMap", "default", "web")}


@pytest.mark.parametrize(
    "changed",
    [{"name": 7}, {"name": ""}, {"namespace": {}}, {"message": 7}, {"message": None}, {"message": "is ready"}],
)
def test_an_entry_that_does_not_name_a_kept_object_has_no_successors(changed: dict[str, Any]) -> None:
    parent = live("Echo", "web", status={"resources": [{**MAP, **changed}]})
    assert reported_kinds(parent) == {GroupKind("", "ConfigMap")}
    assert reported_successors(parent, ()) == {}


@pytest.mark.parametrize("status", [None, "text", {}, {"resources": None}, {"resources": {"kind": "ConfigMap"}}])
def test_a_status_without_a_list_reports_nothing(status: object) -> None:
    parent = live("Echo", "web", status=status)
    assert reported_kinds(parent) == set()
    assert reported_successors(parent, ()) == {}
    assert named_children(parent) == set()


@given(st.lists(st.one_of(MAPPINGS, st.none(), st.just("text")), max_size=4))
def test_the_children_that_a_status_names_are_those_of_its_entries(entries: list[Any]) -> None:
    parent = live("Echo", "web", status={"resources": entries})
    assert named_children(parent) == {identity for each in entries if (identity := read_identity(each)) is not None}
