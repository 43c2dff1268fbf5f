"""Which parent an object belongs to."""

from __future__ import annotations

from ssa_operator.reconcile.child import Action, FailureReason
from ssa_operator.reconcile.plan import make_plan
from tests.objects.example_objects import OTHER_UID, actions, child, config_map, config_map_identity, observed, rendered


def test_a_child_of_another_living_parent_is_refused() -> None:
    plan = make_plan(observed(others=(child(owner=OTHER_UID),)), rendered(config_map()))
    assert (plan.steps[0].action, plan.steps[0].problem) == (Action.REFUSE, FailureReason.INVALID_MANIFEST)
    assert plan.steps[0].reason == "belongs to Echo default/other already; give it another name"
    assert plan.steps[0].claimed_by_other


def test_two_parents_that_render_one_identity_at_the_same_time_do_not_both_get_it() -> None:
    plan = make_plan(observed(claims={config_map_identity(): OTHER_UID}), rendered(config_map()))
    assert (plan.steps[0].action, plan.steps[0].claimed_by_other) == (Action.REFUSE, True)
    assert "belongs to Echo default/other" in plan.steps[0].reason


def test_an_object_of_a_parent_that_no_longer_exists_is_adopted() -> None:
    plan = make_plan(observed(others=(child(owner="gone"),)), rendered(config_map()))
    assert actions(plan) == {"settings": Action.APPLY}
