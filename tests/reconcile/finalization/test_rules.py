"""The deletion of a parent, carried out to its end with every answer that the cluster may give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import MANAGER
from ssa_operator.objects.render_result import Rendered, StatusFields
from ssa_operator.reconcile.child import Action, Result
from ssa_operator.reconcile.finalization.hooks import DONE
from ssa_operator.reconcile.finalization.rules import (
    advances_deletion,
    make_finalization,
)
from ssa_operator.reconcile.parent_records.rules import HOOK, ParentRecords, identity_key
from ssa_operator.reconcile.status.report import make_deletion_report
from tests.objects.example_objects import OTHER_UID, PARENT_UID, observed, parent
from tests.reconcile.finalization.deletions import (
    COMPLETE,
    FAILED,
    JOB,
    NAMESPACE,
    NOW,
    Cluster,
    job,
    live,
    space,
    waiting,
)


@pytest.mark.exhaustive
@given(
    waves=st.lists(st.integers(1, 4), max_size=5),
    hooks=st.integers(0, 3),
    chance=st.lists(st.sampled_from([COMPLETE, FAILED, None]), max_size=12),
    standing=st.sets(st.integers(0, 4)),
)
def test_hooks_are_done_before_any_deletion_and_the_last_wave_is_deleted_first(
    waves: list[int], hooks: int, chance: list[dict[str, Any] | None], standing: set[int]
) -> None:
    inventory = {space(f"s{n}"): wave for n, wave in enumerate(waves)}
    there = {identity: live(identity) for n, identity in enumerate(inventory) if n in standing}
    cluster = Cluster(
        ParentRecords(inventory=inventory, has_finalizer=True), dict(there), tuple(f"h{n}" for n in range(hooks))
    )
    for turn in range(100):
        finalization = cluster.plan()
        if finalization.finished:
            break
        cluster.act(finalization)
        cluster.now += 1000
        for identity in [each for each in cluster.objects if each.group_kind == JOB]:
            status = chance[turn % len(chance)] if chance and turn < 50 else COMPLETE
            cluster.objects[identity] = live(identity, status)
    assert finalization.finished
    assert not [identity for identity in cluster.objects if identity.group_kind == NAMESPACE]
    gone = [entry.removeprefix("deleted ") for entry in cluster.done if entry.startswith("deleted s")]
    assert set(gone) == {identity.name for identity in there}
    order = [inventory[space(name)] for name in gone]
    assert order == sorted(order, reverse=True)
    if gone:
        first = cluster.done.index(f"deleted {gone[0]}")
        assert {f"created h{n}" for n in range(hooks)} <= set(cluster.done[:first])
        assert not [entry for entry in cluster.done[first:] if entry.startswith("created")]


OWNED: dict[str, Any] = {
    "ownerReferences": [{"kind": "Echo", "name": "web", "uid": PARENT_UID, "controller": True}],
    "managedFields": [{"manager": MANAGER, "operation": "Apply", "time": "2025-01-01T00:00:00Z", "fieldsV1": {}}],
}


@pytest.mark.exhaustive
@given(edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8), recorded=st.sets(st.integers(0, 5)))
def test_children_that_depend_on_each_other_are_deleted_in_the_reverse_order(
    edges: list[tuple[int, int]], recorded: set[int]
) -> None:
    # A later job needs an earlier one, so that there is no cycle. The garbage collector deletes those with an owner.
    needs = {(max(pair), min(pair)) for pair in edges if pair[0] != pair[1]}
    jobs = [job(f"j{n}") for n in range(6)]
    cluster = Cluster(
        ParentRecords(inventory={jobs[n]: n + 1 for n in recorded}, has_finalizer=True),
        {each: live(each, **({} if n in recorded else OWNED)) for n, each in enumerate(jobs)},
        standing={f"j{n}": tuple(f"j{target}" for source, target in needs if source == n) for n in range(6)},
    )
    for _ in range(20):
        finalization = cluster.plan()
        if finalization.finished:
            break
        cluster.act(finalization)
    assert finalization.finished
    order = [entry.removeprefix("deleted ") for entry in cluster.done]
    assert {f"j{n}" for pair in needs for n in pair} | {f"j{n}" for n in recorded} == set(order)
    for source, target in needs:
        assert order.index(f"j{source}") < order.index(f"j{target}")


def test_children_in_a_dependency_cycle_do_not_block_the_deletion() -> None:
    pair = [job("a"), job("b")]
    cluster = Cluster(
        ParentRecords(inventory={pair[0]: 1, pair[1]: 1}, has_finalizer=True),
        {each: live(each) for each in pair},
        standing={"a": ("b",), "b": ("a",)},
    )
    cluster.act(cluster.plan())
    assert cluster.plan().finished


def test_an_object_with_another_parents_label_is_not_deleted() -> None:
    theirs = live(space("s"), owner=OTHER_UID)
    assert Cluster(ParentRecords(inventory={space("s"): 1}, has_finalizer=True), {space("s"): theirs}).plan().finished


def test_only_a_kind_whose_crd_was_deleted_does_not_block_the_deletion() -> None:
    gone = Identity("old.example.com", "Gadget", "", "g")
    records = ParentRecords(inventory={gone: 1}, has_finalizer=True)
    assert Cluster(records, {}).plan().finished
    seen = observed(records=records, unserved={gone: "its CRD is not served"}, parent=parent())
    finalization = make_finalization(seen, Rendered(), NOW)
    assert (finalization.finished, finalization.needs_person) == (False, True)
    assert finalization.awaited == "Gadget g may exist: its CRD is not served"


def test_a_deletion_that_no_child_shows_is_recorded_before_an_object_is_deleted() -> None:
    owned = live(job("j"), **OWNED)
    for others, recorded in (((), True), ((owned,), False), ((live(job("j")),), True)):
        cluster = Cluster(ParentRecords(inventory={space("s"): 1}, has_finalizer=True), {space("s"): live(space("s"))})
        cluster.objects |= {each.identity: each for each in others}
        assert cluster.plan().records.deletes_children is recorded


def test_hooks_are_recorded_as_done_before_the_first_deletion_and_not_while_one_runs() -> None:
    """A hook that is recorded as done does not run any more."""
    records = ParentRecords(inventory={space("s"): 1}, has_finalizer=True)
    cluster = Cluster(records, {space("s"): live(space("s"))}, hooks=("backup",))
    before = cluster.plan()
    assert (before.hooks_done, before.records.once_records) == (False, {})
    cluster.objects[job("backup")] = live(job("backup"), COMPLETE)
    after = cluster.plan()
    assert after.hooks_done
    assert after.records.once_records == {HOOK + identity_key(job("backup")): DONE}


def test_an_object_that_is_deleted_after_another_one_names_it() -> None:
    waves = {space("base"): 1, space("top"): 2}
    cluster = Cluster(ParentRecords(inventory=waves, has_finalizer=True), {each: live(each) for each in waves})
    steps = {step.identity.name: (step.action, step.reason) for step in cluster.plan().plan.steps}
    assert steps == {
        "top": (Action.PRUNE, "is deleted with its parent"),
        "base": (Action.KEEP, "is deleted after Namespace top"),
    }


def test_what_keeps_a_parent_are_its_hooks_and_not_each_child_that_remains_until_then() -> None:
    records = ParentRecords(has_finalizer=True, inventory=dict.fromkeys([space("a"), space("b"), space("s")], 0))
    cluster = Cluster(records, {each: live(each) for each in records.inventory})
    finalization = cluster.plan(waits=(waiting("h", Reference("Namespace", "s")),))
    first, *rest = finalization.awaited.split("; ")
    assert first == "Job default/h waiting for Namespace/s to be ready"
    assert rest == ["children that are deleted after the finalize hooks: 3"]


def test_a_recorded_object_that_cannot_be_read_is_not_taken_for_a_deleted_one() -> None:
    records = ParentRecords(inventory={space("a"): 1}, has_finalizer=True)
    kinds = {NAMESPACE: KindState(namespaced=False, synced=True)}
    seen = observed(kinds=kinds, records=records, unreadable={space("a"): "timed out"}, parent=parent())
    finalization = make_finalization(seen, Rendered(), NOW)
    assert not finalization.finished
    (step,) = finalization.plan.steps
    assert (step.action, step.reason) == (Action.WAIT, "waits: it may exist, and can't be read: timed out")


def test_a_parent_that_nothing_keeps_reports_only_its_deletion() -> None:
    finished = Cluster(ParentRecords(has_finalizer=True), {}).plan()
    assert finished.finished
    found = make_deletion_report(parent(), finished, (), StatusFields(), NOW)
    assert found.verdict.message == "the parent is being deleted"


RUNNING = {"active": 1}


@pytest.mark.parametrize(
    ("result", "status", "follows"),
    [
        (Result.CREATED, None, False),
        (Result.CREATED, COMPLETE, True),
        (Result.CONFIGURED, RUNNING, False),
        (Result.CONFIGURED, COMPLETE, True),
        (Result.UNCHANGED, RUNNING, False),
        (Result.UNCHANGED, COMPLETE, True),
        (Result.UNCHANGED, FAILED, True),
        (Result.WAITING, COMPLETE, False),
        (Result.FAILED, COMPLETE, False),
    ],
)
def test_another_reconcile_follows_at_once_only_where_the_apply_of_a_hook_returned_it_done_or_failed(
    result: Result, status: dict[str, Any] | None, follows: bool
) -> None:
    step = Cluster(ParentRecords(has_finalizer=True), {}, ("h",)).plan().plan.steps[0]
    assert step.action is Action.APPLY
    assert advances_deletion([step.ended(result, live=live(job("h"), status))], NOW) is follows


def test_another_reconcile_follows_at_once_where_an_object_was_deleted_and_not_where_nothing_was_done() -> None:
    cluster = Cluster(
        ParentRecords(inventory={space("s"): 1, space("t"): 2}, has_finalizer=True),
        {each: live(each) for each in (space("s"), space("t"))},
    )
    second, first = cluster.plan().plan.steps
    deleted = second.ended(Result.PRUNED)
    kept = first.ended(Result.UNCHANGED, live=first.live)
    assert (second.action, first.action) == (Action.PRUNE, Action.KEEP)
    assert advances_deletion([deleted, kept], NOW)
    assert not advances_deletion([kept], NOW)


def test_a_hook_that_is_done_causes_no_second_reconcile() -> None:
    cluster = Cluster(
        ParentRecords(has_finalizer=True), {job("h"): live(job("h"), COMPLETE), space("s"): live(space("s"))}, ("h",)
    )
    steps = cluster.plan().plan.steps
    assert not advances_deletion([each.ended(Result.UNCHANGED, live=each.live) for each in steps], NOW)
