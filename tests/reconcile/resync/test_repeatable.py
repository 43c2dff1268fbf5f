"""Which reconciles a resync may repeat."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.compression import Examples
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import Recreation
from ssa_operator.reconcile.field_conflicts.history import ConflictHistory, DatedChange, ForeignChange
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.plan import Plan, make_plan
from ssa_operator.reconcile.resync.requests import repeatable_applies, repeatable_apply
from ssa_operator.reconcile.resync.unchanged import apply_record
from tests.objects.example_objects import child, config_map, config_map_identity, made, observed, rendered

IDENTITY = config_map_identity()
CHANGE = DatedChange(0.0, ForeignChange())


def _plan(*, problems: tuple[RenderProblem, ...] = (), body: dict[str, Any] | None = None, **changes: Any) -> Plan:
    live, body = child(), body or config_map()
    known: dict[str, Any] = {
        "apply_records": {IDENTITY: apply_record(made(body), live)},
        "reconciled_before": True,
    }
    return make_plan(observed(live, **(known | changes)), rendered(body, problems=problems))


def _outcomes(plan: Plan, **changes: Any) -> list[Child]:
    """The outcomes of applies that changed nothing."""
    unchanged = [step.ended(Result.UNCHANGED, live=step.live) for step in plan.steps]
    return [replace(outcome, **changes) for outcome in unchanged]


def test_an_apply_that_changed_nothing_is_repeated_as_it_was_sent() -> None:
    plan = _plan()
    applies = repeatable_applies(plan, _outcomes(plan), plan.observed.memory)
    assert applies is not None
    repeated = [repeatable_apply(manifest, live, {}) for manifest, live in applies]
    assert [(each.identity, each.version, each.encoded) for each in repeated] == [
        (IDENTITY, "v1", made(config_map()).encoded)
    ]


def test_the_applies_of_a_parent_like_another_one_need_little_memory() -> None:
    examples = Examples()
    repeatable_apply(made(config_map()), child(), examples)
    repeated = repeatable_apply(made(config_map()), child(), examples)
    assert len(repeated.compressed) * 5 < len(repeated.encoded)


@pytest.mark.parametrize(
    "changes",
    [
        {"problems": (RenderProblem("no"),)},
        {"applies_all": False},
        {"unlabelled": {config_map_identity("other"): child("other")}},
        {"unreadable": {config_map_identity("other"): "forbidden"}},
        {"records": ParentRecords(kept_values=frozenset({IDENTITY}))},
        {"apply_records": {}},
        {"recreations": {IDENTITY: Recreation(digest=b"", created=True)}},
        {"shown_warnings": {IDENTITY: frozenset({"deprecated"})}},
        {"follows": True},
        {"conflicts": {IDENTITY: ConflictHistory(digest=b"", changes=(CHANGE,))}},
        {"conflicts": {IDENTITY: ConflictHistory(digest=b"", changes=(CHANGE,), reverted_at=1.0, conflict_changes=6)}},
    ],
    ids=str,
)
def test_a_reconcile_that_followed_from_more_than_the_render_is_not_repeated(changes: dict[str, Any]) -> None:
    plan = _plan(**changes)
    assert repeatable_applies(plan, _outcomes(plan), plan.observed.memory) is None


def test_a_change_that_was_reverted_and_is_no_conflict_keeps_no_resync_from_being_repeated() -> None:
    reverted = ConflictHistory(digest=b"", changes=(CHANGE,), reverted_at=1.0)
    plan = _plan(conflicts={IDENTITY: reverted})
    assert repeatable_applies(plan, _outcomes(plan), plan.observed.memory) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"result": Result.CONFIGURED},
        {"result": Result.CREATED},
        {"result": Result.FAILED, "live": None},
        {"result": Result.WAITING},
        {"live": child(resourceVersion="8")},
    ],
    ids=str,
)
def test_a_reconcile_that_changed_an_object_is_not_repeated(changes: dict[str, Any]) -> None:
    plan = _plan()
    assert repeatable_applies(plan, _outcomes(plan, **changes), plan.observed.memory) is None


def test_a_reconcile_that_kept_or_pruned_an_object_is_not_repeated() -> None:
    live = child("obsolete", uid="c-2")
    plan = make_plan(observed(child(), live), rendered(config_map()))
    assert repeatable_applies(plan, _outcomes(plan), plan.observed.memory) is None


@pytest.mark.parametrize(("live", "repeated"), [(child(), True), (child(owner=""), False)], ids=["own", "of others"])
def test_an_object_that_is_left_alone_keeps_no_resync_from_being_repeated_if_a_watch_shows_it(
    live: LiveObject, repeated: bool
) -> None:
    body = config_map(metadata={"annotations": {f"{PREFIX}apply": "IfNotPresent"}})
    plan = make_plan(observed(live, reconciled_before=True), rendered(body))
    assert [step.action for step in plan.steps] == [Action.KEEP]
    assert (repeatable_applies(plan, _outcomes(plan), plan.observed.memory) == []) == repeated


def test_an_object_of_another_parent_is_not_applied_again_without_a_plan() -> None:
    plan = _plan()
    other = replace(plan, steps=tuple(replace(step, live=child(owner="other")) for step in plan.steps))
    assert repeatable_applies(other, _outcomes(other), plan.observed.memory) is None
