"""When the operator writes a status."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.status_diff import differs
from tests.objects.example_objects import parent


def owner_with(status: dict[str, Any]) -> LiveObject:
    fields: dict[str, Any] = {"f:status": fields_of(status)}
    managed = [{"manager": MANAGER, "operation": "Apply", "subresource": "status", "fieldsV1": fields}]
    return parent(status=status, managedFields=managed)


def fields_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {f"f:{key}": fields_of(item) for key, item in value.items()}
    return {}


flat_status = st.dictionaries(
    st.sampled_from("abc"),
    st.integers(0, 1) | st.booleans() | st.dictionaries(st.sampled_from("xy"), st.integers(0, 1)),
)


@given(flat_status, flat_status)
def test_a_status_is_written_exactly_if_it_differs_from_the_live_one(
    live: dict[str, Any], desired: dict[str, Any]
) -> None:
    same = live == desired and all(type(live[key]) is type(desired[key]) for key in live)
    assert differs(owner_with(live), desired) is not same


def test_a_field_of_another_writer_makes_no_difference() -> None:
    owner = parent(status={"ours": 1, "theirs": 2})
    assert not differs(owner, {"ours": 1})


def test_conditions_of_other_writers_make_no_difference_and_a_vanished_own_one_does() -> None:
    ready = {"type": "Ready", "status": "True"}
    stalled = {"type": "Stalled", "status": "True"}
    fields: dict[str, Any] = {
        "f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}}}
    }
    ours = {"manager": MANAGER, "operation": "Apply", "subresource": "status", "fieldsV1": fields}
    owner = parent(status={"conditions": [ready, stalled]}, managedFields=[ours])
    assert not differs(owner, {"conditions": [ready]})
    both = fields["f:status"]["f:conditions"] | {'k:{"type":"Stalled"}': {".": {}}}
    ours["fieldsV1"] = {"f:status": {"f:conditions": both}}
    assert differs(parent(status={"conditions": [ready, stalled]}, managedFields=[ours]), {"conditions": [ready]})


def test_a_condition_that_no_longer_holds_is_removed_from_an_atomic_list() -> None:
    ready = {"type": "Ready", "status": "True"}
    suspended = {"type": "Suspended", "status": "True"}
    owner = owner_with({"conditions": [ready, suspended]})
    assert differs(owner, {"conditions": [ready]})
    assert not differs(owner, {"conditions": [ready, suspended]})


def test_a_list_that_is_shorter_or_in_another_order_is_written() -> None:
    owner = parent(status={"ports": [{"type": "x"}, {"type": "y"}]})
    assert not differs(owner, {"ports": [{"type": "x"}, {"type": "y"}]})
    assert differs(owner, {"ports": [{"type": "x"}]})
    assert differs(owner, {"ports": [{"type": "y"}, {"type": "x"}]})


def test_a_parent_without_a_status_gets_one() -> None:
    assert differs(parent(), {"a": 1})
    assert not differs(parent(), {})


def test_an_item_that_leaves_a_key_to_its_default_is_no_difference() -> None:
    item = 'k:{"port":1,"protocol":"TCP"}'
    fields: dict[str, Any] = {"f:status": {"f:ports": {item: {".": {}, "f:port": {}}}}}
    entry = {"manager": MANAGER, "operation": "Apply", "subresource": "status", "fieldsV1": fields}
    body = {"apiVersion": "v1", "kind": "Echo", "metadata": {"name": "a", "managedFields": [entry]}}
    live = LiveObject.of({**body, "status": {"ports": [{"port": 1, "protocol": "TCP"}]}})
    assert not differs(live, {"ports": [{"port": 1}]})
    assert differs(live, {"ports": [{"port": 2}]})
    assert differs(live, {})
