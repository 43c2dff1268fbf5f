"""The timelines of parents: what is kept, what is one entry, and what counts as a change by others."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.informers.parents import ParentKey
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.web import timelines as module
from ssa_operator.web.timelines import HOUR, MAX_OF_PARENT, Timelines, changes_by_others, entry_data

WEB, DB = ParentKey("echoes.example.com", "one", "web"), ParentKey("echoes.example.com", "one", "db")
QUIET = {"causes": ["resync"], "result": "ok"}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_reconciles_that_change_nothing_are_one_entry() -> None:
    clock = Clock()
    timelines = Timelines(clock)
    for seconds in (0.1, 0.4, 0.2):
        timelines.reconciled(WEB, seconds, QUIET, changed=False)
        clock.now += 10
    timelines.reconciled(WEB, 0.1, {**QUIET, "did": [{"result": "created"}]}, changed=True)
    quiet, created = (entry_data(each, ()) for each in timelines.of(WEB))
    assert (quiet["count"], quiet["seconds"], round(quiet["until"] - quiet["at"], 1)) == (3, 0.4, 20.1)
    assert "count" not in created
    timelines.reconciled(WEB, 0.1, {**QUIET, "did": [{"result": "created"}]}, changed=True)
    assert len(timelines.of(WEB)) == 3


def test_an_entry_is_kept_for_an_hour() -> None:
    clock = Clock()
    timelines = Timelines(clock)
    timelines.reconciled(WEB, 0.1, QUIET, changed=True)
    clock.now += HOUR + 1
    timelines.changed_by_other(DB, {"manager": "kubectl"})
    assert timelines.of(WEB) == ()
    assert len(timelines.of(DB)) == 1
    assert len(timelines) == 1


def test_changes_by_others_push_out_no_condition() -> None:
    timelines = Timelines(Clock())
    timelines.condition_changed(WEB, {"type": "Ready"})
    for _ in range(MAX_OF_PARENT + 1):
        timelines.changed_by_other(WEB, {"manager": "flux"})
    timelines.condition_changed(WEB, {"type": "Stalled"})
    assert [each.data.get("type") for each in (timelines.of(WEB)[0], timelines.of(WEB)[-1])] == ["Ready", "Stalled"]
    assert len(timelines.of(WEB)) == MAX_OF_PARENT


def test_a_noisy_parent_pushes_out_no_other() -> None:
    timelines = Timelines(Clock())
    timelines.condition_changed(DB, {"type": "Ready"})
    for _ in range(2 * MAX_OF_PARENT):
        timelines.reconciled(WEB, 0.1, QUIET, changed=True)
    assert len(timelines.of(WEB)) == MAX_OF_PARENT
    assert len(timelines.of(DB)) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 1800)), max_size=60))
def test_what_is_kept_is_bounded_and_new(steps: list[tuple[int, bool, int]]) -> None:
    clock = Clock()
    timelines = Timelines(clock)
    most, of_parent = module.MAX_ENTRIES, module.MAX_OF_PARENT
    module.MAX_ENTRIES, module.MAX_OF_PARENT = 12, 5
    try:
        for number, changed, pause in steps:
            key = ParentKey("echoes.example.com", "", str(number))
            timelines.reconciled(key, 0, QUIET, changed=changed)
            clock.now += pause
            kept = [each for name in range(6) for each in timelines.of(ParentKey("echoes.example.com", "", str(name)))]
            assert len(kept) <= 12
            assert len(timelines) <= 12
            assert all(each.until >= clock.now - HOUR for each in kept)
        assert all(len(timelines.of(ParentKey("echoes.example.com", "", str(name)))) <= 5 for name in range(6))
    finally:
        module.MAX_ENTRIES, module.MAX_OF_PARENT = most, of_parent


def test_the_fields_of_a_child_are_for_those_who_may_read_it() -> None:
    child = Identity("", "ConfigMap", "one", "web")
    timelines = Timelines(Clock())
    timelines.changed_by_other(WEB, {"manager": "kubectl"}, child=child, fields=["data.x"])
    (entry,) = timelines.of(WEB)
    assert "fields" not in entry_data(entry, ())
    assert entry_data(entry, {child})["fields"] == ["data.x"]


def test_a_change_by_others_has_its_manager_and_fields_without_values() -> None:
    def state(value: str, replicas: int, manager: str, time: str, subresource: str = "") -> LiveObject:
        fields: dict[str, Any] = {"f:data": {"f:x": {}}, "f:status": {"f:replicas": {}}}
        entry = {"manager": manager, "operation": "Update", "subresource": subresource, "time": time}
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "web", "managedFields": [{**entry, "fieldsType": "FieldsV1", "fieldsV1": fields}]},
            "data": {"x": value},
            "status": {"replicas": replicas},
        }
        return LiveObject.of(body)

    before = state("1", 1, "kubectl-edit", "2026-01-01T00:00:00Z")
    after = state("2", 1, "kubectl-edit", "2026-01-01T00:00:09Z")
    assert list(changes_by_others(before, after)) == [
        {"manager": "kubectl-edit", "operation": "Update", "fields": ["data.x"]}
    ]
    assert list(changes_by_others(before, before)) == []
    for own in ("ssa-operator", "ssa-operator-parent"):
        assert list(changes_by_others(before, state("2", 1, own, "2026-01-01T00:00:09Z"))) == []
    assert list(changes_by_others(before, state("1", 2, "controller", "2026-01-01T00:00:09Z", "status"))) == []
