"""Which empty mappings a manifest is applied without at first."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.kube.api.emptied_mappings import has_null_for_empty, without_emptied_mappings

BODY: dict[str, Any] = {
    "spec": {
        "resources": {},
        "selector": {},
        "nothing": None,
        "outer": {"inner": {}},
        "members": [{"name": "a", "labels": {}}, {"name": "b", "labels": {"x": "y"}}, {}, "text"],
        "byName": {"a.b": {"labels": {}}, "c": {}},
    }
}


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ("spec.resources", {"resources": None}),
        ("spec.outer.inner", {"outer": None}),
        ("spec.members[1].labels", {"members": [{"name": "a"}, *BODY["spec"]["members"][1:]]}),
        ("spec.byName.a.b.labels", {"byName": {"c": {}}}),
        ("spec.outer", {}),
        ("spec.nothing", {}),
    ],
)
def test_only_what_is_refused_is_left_out(refused: str, expected: dict[str, Any]) -> None:
    spec = {key: expected.get(key, value) for key, value in BODY["spec"].items() if expected.get(key, 1) is not None}
    assert without_emptied_mappings(BODY, [refused]) == {"spec": spec}


def test_a_mapping_that_has_nothing_else_is_left_out() -> None:
    body = {"kind": "Pool", "spec": {"a": {}, "b": {"c": {}}}}
    assert without_emptied_mappings(body, ["spec.a", "spec.b.c"]) == {"kind": "Pool"}
    assert without_emptied_mappings(body, ["spec.a"]) == {"kind": "Pool", "spec": {"b": {"c": {}}}}
    assert without_emptied_mappings({"spec": {}}, ["spec"]) == {}


@pytest.mark.parametrize(
    ("body", "live", "expected"),
    [
        ({"spec": {"a": {}}}, {"spec": {"a": None}}, True),
        ({"spec": {"a": [{"b": {}}]}}, {"spec": {"a": [{"c": 1}, {"b": None}]}}, True),
        ({"spec": {}}, {"spec": None}, True),
        ({"spec": {"a": {}}}, {"spec": {"a": {}}}, False),
        ({"spec": {"a": {}}}, {"spec": {"a": {"default": None}}}, False),
        ({"spec": {"a": {}, "b": 1}}, {"spec": {"b": None}}, False),
        ({"spec": {"a": None}}, {"spec": {"a": None}}, False),
    ],
)
def test_a_null_in_place_of_an_empty_mapping_is_found(
    body: dict[str, Any], live: dict[str, Any], expected: bool
) -> None:
    assert has_null_for_empty(body, live) is expected
