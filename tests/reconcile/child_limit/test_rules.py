"""How many children a parent may have."""

from __future__ import annotations

from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.reconcile.child import Action, FailureReason
from ssa_operator.reconcile.feedback_loops.change_bucket import ChangeBucket
from ssa_operator.reconcile.plan import make_plan
from tests.objects.example_objects import actions, child, config_map, observed, rendered

NOW = 1_767_268_800.0
KIND = GroupKind("", "ConfigMap")
RENAMED = {KIND: ChangeBucket().after_change(NOW)}


def limited(*own: Any, **changes: Any) -> dict[str, Action]:
    documents = rendered(*(config_map(name) for name in "abc"))
    plan = make_plan(observed(*own, max_children=3, **changes), documents)
    refused = [step for step in plan.steps if step.action is Action.REFUSE]
    for step in refused:
        assert step.problem is FailureReason.INVALID_MANIFEST
        assert "and 3 are allowed; render fewer, or set `maxChildren: 4`" in step.reason
    return actions(plan)


def test_a_child_beyond_the_limit_is_not_created_and_what_exists_is_applied() -> None:
    kept = child("kept", ownerReferences=[])
    assert Action.REFUSE not in limited().values()
    assert limited(kept, child("b"))["b"] is Action.APPLY
    found = limited(kept, child("b"))
    assert {name for name, action in found.items() if action is Action.REFUSE} == {"a", "c"}


def test_what_is_pruned_does_not_count_unless_names_keep_changing() -> None:
    assert Action.REFUSE not in limited(child("old")).values()
    assert Action.REFUSE in limited(child("old"), new_names=RENAMED, monotonic=NOW).values()


def test_children_whose_prune_is_held_up_are_no_more_than_a_parent_may_have() -> None:
    """Otherwise new names in each spec, and a manifest that waits, would make ever more children."""
    old = [child(f"old-{number}") for number in range(4)]
    documents = rendered(*(config_map(name) for name in "abc"))
    allowed = make_plan(observed(*old[:3], max_children=3), documents)
    assert Action.REFUSE not in {step.action for step in allowed.steps}
    refused = [step for step in make_plan(observed(*old, max_children=3), documents).steps if step.problem is not None]
    assert {step.identity.name for step in refused} == {"a", "b", "c"}
    assert (
        "7 children with those that are no longer rendered and not pruned yet, and 6 are allowed" in refused[0].reason
    )


def test_a_parent_that_has_too_many_children_already_keeps_them() -> None:
    own = [child(name) for name in "abc"] + [child(f"kept-{number}", ownerReferences=[]) for number in range(5)]
    assert Action.REFUSE not in limited(*own).values()
