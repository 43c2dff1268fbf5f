"""Which new names are a series, how much the operator slows it down, and how many children a parent may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.reconcile.feedback_loops.new_names import NewNames, with_created, without_settled_names
from ssa_operator.reconcile.feedback_loops.rules import ALLOWED_CHANGES, SETTLED_AFTER
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.resync.unchanged import apply_record
from ssa_operator.reconcile.step import Action, FailureReason
from tests.objects.example_objects import actions, child, config_map, config_map_identity, made, observed, rendered

NOW = 1_767_268_800.0
KIND = GroupKind("", "ConfigMap")
OLD = config_map_identity("old")


def after(times: int, *, gap: float = 1.0, unrendered: tuple[Identity, ...] = (OLD,)) -> Mapping[GroupKind, NewNames]:
    series: Mapping[GroupKind, NewNames] = {}
    for number in range(times):
        now = NOW + number * gap
        created = [config_map_identity(f"new-{number}")]
        series = with_created(without_settled_names(series, now), created, unrendered, now)
    return series


def test_names_that_are_added_are_no_series() -> None:
    assert after(100, unrendered=()) == {}
    assert after(100, unrendered=(Identity("", "Secret", "default", "old"),)) == {}


def test_a_child_that_takes_the_place_of_another_one_counts_and_the_message_names_the_newest() -> None:
    series = after(ALLOWED_CHANGES)[KIND]
    assert (series.changes, series.slowed_down) == (ALLOWED_CHANGES, False)
    series = after(ALLOWED_CHANGES + 1)[KIND]
    assert series.slowed_down
    assert series.apply_due - series.changed_at == 0.5
    assert f"last ConfigMap default/new-{ALLOWED_CHANGES}, without a change of the parent" in series.text


def test_a_series_goes_on_while_the_next_name_waits_and_is_over_after_a_while_without_one() -> None:
    series = with_created(after(3), [config_map_identity("next")], (), NOW + 3)
    assert series[KIND].changes == 4
    assert after(50, gap=SETTLED_AFTER + 1)[KIND].changes == 1


def names_of(count: int) -> Mapping[GroupKind, NewNames]:
    return {KIND: NewNames(changes=count, changed_at=NOW, newest=OLD)}


def test_only_a_child_that_was_never_applied_waits_for_the_end_of_the_pause() -> None:
    live = child("there")
    records = {
        identity: apply_record(made(config_map(identity.name)), live)
        for identity in (live.identity, config_map_identity("deleted"))
    }
    documents = rendered(config_map("there"), config_map("deleted"), config_map("new"))

    def planned(now: float) -> dict[str, Action]:
        seen = observed(live, apply_records=records, new_names=names_of(ALLOWED_CHANGES + 3), monotonic=now)
        return actions(make_plan(seen, documents))

    paused, later = planned(NOW + 1), planned(NOW + 2)
    assert {name for name, action in paused.items() if action is Action.WAIT} == {"new"}
    assert Action.WAIT not in later.values()


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
    assert Action.REFUSE in limited(child("old"), new_names=names_of(1), monotonic=NOW).values()


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
