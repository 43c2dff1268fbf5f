"""What the operator remembers of the last apply of each child."""

from __future__ import annotations

from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.resync.rules import record_after
from ssa_operator.reconcile.resync.unchanged import ApplyRecord, apply_record, is_unchanged
from tests.objects.example_objects import child, config_map, config_map_identity, made

APPLIED = made(config_map())
CHANGED = made(config_map(data={"a": "other"}))


def _drifted() -> LiveObject:
    """The child after another manager took one of our fields."""
    ours = {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {}}}}
    theirs = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}}
    return child(resourceVersion="8", managedFields=[ours, theirs])


def _record_after(step: Child) -> ApplyRecord:
    """The record after a step that applied nothing."""
    outcome = step.ended(Result.UNCHANGED, live=step.live)
    found = record_after(outcome, apply_record(APPLIED, child()))
    assert found is not None
    return found


def test_a_foreign_change_during_the_pause_of_a_feedback_loop_is_not_taken_for_what_was_applied() -> None:
    live = _drifted()
    paused = Child(action=Action.UNCHANGED, identity=config_map_identity(), manifest=CHANGED, live=live)
    assert not is_unchanged(APPLIED, live, _record_after(paused))


def test_of_an_object_that_is_proven_unchanged_only_the_newest_version_is_kept() -> None:
    live = child(resourceVersion="8")
    proven = Child(action=Action.UNCHANGED, identity=config_map_identity(), manifest=APPLIED, live=live, unchanged=True)
    assert _record_after(proven).applied is live
