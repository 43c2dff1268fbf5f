"""What is done with one manifest, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.resync.unchanged import apply_record
from tests.objects.example_objects import (
    CONFIG_MAP,
    actions,
    child,
    config_map,
    made,
    observed,
    rendered,
)


def proven_child() -> dict[str, Any]:
    live = child()
    return {"apply_records": {live.identity: apply_record(made(config_map()), live)}, "applies_all": False}


def test_a_manifest_whose_object_does_not_exist_is_applied() -> None:
    plan = make_plan(observed(), rendered(config_map()))
    assert actions(plan) == {"settings": Action.APPLY}
    assert plan.steps[0].reason == "does not exist"


def test_a_childs_own_event_costs_no_request_where_it_is_proven_unchanged() -> None:
    plan = make_plan(observed(child(), **proven_child()), rendered(config_map()))
    assert actions(plan) == {"settings": Action.UNCHANGED}


def test_a_resync_applies_a_child_that_is_proven_unchanged_too() -> None:
    plan = make_plan(observed(child(), **proven_child() | {"applies_all": True}), rendered(config_map()))
    assert actions(plan) == {"settings": Action.APPLY}


@pytest.mark.parametrize(
    ("live", "body", "why"),
    [
        (child(uid="c-2"), config_map(), "was replaced"),
        (child(), config_map(data={"a": "c"}), "its manifest changed"),
        (child(managedFields=[]), config_map(), "another client changed our fields"),
    ],
)
def test_a_child_that_may_have_changed_is_applied_with_the_reason(
    live: LiveObject, body: dict[str, Any], why: str
) -> None:
    plan = make_plan(observed(live, **proven_child()), rendered(body))
    assert (plan.steps[0].action, plan.steps[0].reason) == (Action.APPLY, why)


def test_a_manifest_waits_while_its_object_is_being_deleted() -> None:
    plan = make_plan(observed(child(deletionTimestamp="2026-01-01T00:00:00Z")), rendered(config_map()))
    assert actions(plan) == {"settings": Action.WAIT}


def test_a_kind_that_the_cluster_does_not_know_is_refused_alone() -> None:
    plan = make_plan(
        observed(), rendered({"apiVersion": "a.b/v1", "kind": "Thing", "metadata": {"name": "x"}}, config_map())
    )
    assert actions(plan) == {"x": Action.REFUSE, "settings": Action.APPLY}
    assert "no kind Thing.a.b" in plan.steps[0].reason


def test_a_kind_that_cannot_be_watched_is_refused_alone_with_the_reason() -> None:
    kinds = {CONFIG_MAP: KindState(namespaced=True, synced=False, problem="may not list configmaps")}
    plan = make_plan(observed(kinds=kinds), rendered(config_map()))
    assert (plan.steps[0].action, plan.steps[0].reason) == (Action.REFUSE, "may not list configmaps")


def test_a_manifest_waits_for_a_watch_that_is_not_synced() -> None:
    plan = make_plan(observed(kinds={CONFIG_MAP: KindState(namespaced=True, synced=False)}), rendered(config_map()))
    assert actions(plan) == {"settings": Action.WAIT}


@pytest.mark.parametrize(
    ("live", "begun", "reason"),
    [
        (child(), False, "was not applied by this process yet"),
        (child(), True, "was not applied in the last reconcile"),
        (child(managedFields=[]), True, "exists already and is adopted"),
    ],
)
def test_an_apply_without_an_apply_record_names_only_a_known_reason(live: LiveObject, begun: bool, reason: str) -> None:
    step = make_plan(observed(live, reconciled_before=begun), rendered(config_map())).steps[0]
    assert (step.action, step.reason) == (Action.APPLY, reason)


def test_a_missing_permission_is_distinguished_from_a_problem_that_passes() -> None:
    for needs_permission in (True, False):
        kinds = {CONFIG_MAP: KindState(namespaced=True, synced=False, problem="no", needs_permission=needs_permission)}
        (step,) = make_plan(observed(kinds=kinds), rendered(config_map())).steps
        assert (step.action, step.needs_permission) == (Action.REFUSE, needs_permission)


def test_a_promise_that_a_manifest_does_not_use_costs_its_plan_no_call() -> None:
    seen, what = observed(child(), **proven_child()), rendered(config_map(data={"a": "c"}))
    rooms: set[str] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            path = Path(frame.f_code.co_filename)
            rooms.update((path.stem, path.parent.name))

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        make_plan(seen, what)
    finally:
        sys.setprofile(before)
    assert "ownership" in rooms
    assert not rooms & {"apply_once", "feedback_loops", "field_conflicts", "finalization", "refusals"}
