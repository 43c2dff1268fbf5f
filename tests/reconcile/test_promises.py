"""What is remembered of the children from one reconcile until the next one."""

from __future__ import annotations

from msgspec.structs import fields, replace

from ssa_operator.reconcile import promises
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import NO_MEMORY, ChildMemories, ChildMemory, Recreation
from ssa_operator.reconcile.feedback_loops.change_bucket import CAPACITY, REFILL, ChangeBucket
from ssa_operator.reconcile.pod_failures.rules import PodCheck
from ssa_operator.reconcile.resync.unchanged import apply_record
from tests.objects.example_objects import child, config_map, config_map_identity, made

IDENTITY = config_map_identity()
CHANGES = ChangeBucket(left=0.0, changed_at=100.0)
PENDING = Recreation(digest=b"", created=False)
LIVE = child()
APPLIED = ChildMemory(applied=apply_record(made(config_map()), LIVE))


def remembered(row: ChildMemory) -> ChildMemories:
    return ChildMemories(by_child={IDENTITY: row})


def begun(memories: ChildMemories, *, user: bool = False, deleting: bool = False) -> ChildMemories:
    return promises.begin(memories, now=101.0, changed_by_user=user, deleting=deleting, suspended=False)


def outcome(action: Action, result: Result, row: ChildMemory = NO_MEMORY, *, rendered: bool = True) -> Child:
    step = Child(action=action, identity=IDENTITY, manifest=made(config_map()) if rendered else None, memory=row)
    return step.ended(result, live=LIVE)


def test_nothing_is_remembered_of_a_reconcile_that_did_nothing() -> None:
    nothing = ChildMemories()
    assert begun(nothing, user=True) is nothing
    assert promises.after_act(nothing, ()) is nothing
    assert promises.with_pods(nothing, {}) is nothing
    assert promises.after(nothing, (), now=0.0) == nothing
    assert promises.news(nothing, ()) == ()
    assert nothing.at_rest
    assert nothing.due_at(0.0) is None


def test_a_row_that_nothing_changed_stays_the_same_object() -> None:
    memories = remembered(APPLIED)
    assert begun(memories, user=True, deleting=True) is memories
    unchanged = outcome(Action.UNCHANGED, Result.UNCHANGED, APPLIED)
    assert promises.after_act(memories, [unchanged]) is memories
    assert promises.after(memories, [unchanged], now=0.0).of(IDENTITY) is APPLIED


def test_a_change_by_a_user_ends_a_feedback_loop_and_time_does_so_too() -> None:
    memories = remembered(replace(APPLIED, changes=CHANGES))
    assert begun(memories) is memories
    assert begun(memories, user=True) == remembered(APPLIED)
    full = CHANGES.changed_at + CAPACITY * REFILL
    late = promises.begin(memories, now=full, changed_by_user=False, deleting=False, suspended=False)
    assert late == remembered(APPLIED)


def test_pods_of_a_parent_in_deletion_are_not_checked() -> None:
    memories = promises.with_pods(remembered(APPLIED), {IDENTITY: PodCheck(1, 7.0)})
    assert memories.due_at(0.0) == 7.0
    assert memories.at_rest
    assert begun(memories, deleting=True) == remembered(APPLIED)
    assert promises.with_pods(memories, {}) == remembered(APPLIED)


def test_what_a_request_changed_in_its_row_is_remembered_even_if_the_reconcile_fails_later() -> None:
    row = replace(APPLIED, recreation=PENDING)
    memories = promises.after_act(remembered(APPLIED), [outcome(Action.APPLY, Result.WAITING, row)])
    assert memories.of(IDENTITY) is row
    assert not memories.at_rest
    kept = promises.after_act(memories, [outcome(Action.KEEP, Result.UNCHANGED, rendered=False)])
    assert kept is memories
    assert promises.after(memories, (), now=0.0) == ChildMemories()


def test_the_failures_of_a_hook_are_counted_and_never_forgotten() -> None:
    memories = ChildMemories()
    for failures in (1, 2):
        row = memories.of(IDENTITY)
        memories = promises.after_act(memories, [outcome(Action.RECREATE, Result.RECREATED, row)])
        assert memories.of(IDENTITY).hook_failures == failures
    assert promises.after(memories, (), now=0.0) == memories


def test_the_second_document_of_a_name_changes_nothing() -> None:
    first = outcome(Action.APPLY, Result.CONFIGURED)
    second = outcome(Action.REFUSE, Result.FAILED, rendered=False)
    assert promises.after(ChildMemories(), [first, second], now=0.0).of(IDENTITY) == APPLIED


def test_a_reconcile_that_follows_is_due_at_once_unless_the_parent_is_suspended() -> None:
    memories = promises.after(ChildMemories(), (), now=0.0, follows=True)
    assert (memories.follows, memories.at_rest, memories.due_at(5.0)) == (True, False, 5.0)
    assert promises.begin(memories, now=0.0, changed_by_user=False, deleting=False, suspended=True) == ChildMemories()
    assert promises.after(memories, (), now=0.0) == ChildMemories()


def test_every_field_but_two_keeps_a_child_from_being_at_rest() -> None:
    """The records of applies and the checks of pods decide on nothing that a resync does."""
    resting = {each.name for each in fields(ChildMemory)} - {"applied", "pods"}
    assert resting == {"conflict", "refusal", "recreation", "changes", "warned", "hook_failures"}
    assert replace(APPLIED, pods=PodCheck(1, 0.0)).at_rest
