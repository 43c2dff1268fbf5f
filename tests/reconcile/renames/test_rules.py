"""Which new names are a series, how much the operator slows it down."""

from __future__ import annotations

from collections.abc import Mapping

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.feedback_loops.series import ALLOWED_CHANGES, SETTLED_AFTER
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.renames.rename_series import RenameSeries
from ssa_operator.reconcile.renames.rules import with_created, without_settled_names
from ssa_operator.reconcile.resync.unchanged import apply_record
from tests.objects.example_objects import actions, child, config_map, config_map_identity, made, observed, rendered

NOW = 1_767_268_800.0
KIND = GroupKind("", "ConfigMap")
OLD = config_map_identity("old")


def after(
    times: int, *, gap: float = 1.0, unrendered: tuple[Identity, ...] = (OLD,)
) -> Mapping[GroupKind, RenameSeries]:
    series: Mapping[GroupKind, RenameSeries] = {}
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


def names_of(count: int) -> Mapping[GroupKind, RenameSeries]:
    return {KIND: RenameSeries(changes=count, changed_at=NOW, newest=OLD)}


def test_only_a_child_that_was_never_applied_waits_for_the_end_of_the_pause() -> None:
    live = child("there")
    records = {
        identity: apply_record(made(config_map(identity.name)), live)
        for identity in (live.identity, config_map_identity("deleted"))
    }
    documents = rendered(config_map("there"), config_map("deleted"), config_map("new"))

    def planned(now: float) -> dict[str, Action]:
        seen = observed(live, apply_records=records, renames=names_of(ALLOWED_CHANGES + 3), monotonic=now)
        return actions(make_plan(seen, documents))

    paused, later = planned(NOW + 1), planned(NOW + 2)
    assert {name for name, action in paused.items() if action is Action.WAIT} == {"new"}
    assert Action.WAIT not in later.values()
