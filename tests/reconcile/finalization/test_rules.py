"""The deletion of a parent, carried out to its end with every answer that the cluster may give."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kind_state import KindState
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.render_result import Dependency, Rendered, RenderProblem, StatusFields, Wait, WaitTarget
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.finalization.ending_namespaces import EndingNamespace
from ssa_operator.reconcile.finalization.rules import (
    DeletionContext,
    Finalization,
    advances_deletion,
    make_finalization,
)
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.parent_records.rules import ParentRecords, parent_records_body
from ssa_operator.reconcile.parent_records.rules import read_parent_records as read_records
from ssa_operator.reconcile.status.report import make_deletion_report
from ssa_operator.reconcile.step import Action
from tests.objects.example_objects import OTHER_UID, PARENT_UID, document, observed, parent

JOB = GroupKind("batch", "Job")
NAMESPACE = GroupKind("", "Namespace")
NOW = 1_700_000_000.0
FINALIZE = {"ssa-operator.dev/on": "finalize"}


def hook(name: str) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": FINALIZE}, "spec": {}}


def live(
    identity: Identity, status: dict[str, Any] | None = None, owner: str = PARENT_UID, **metadata: Any
) -> LiveObject:
    body = {
        "apiVersion": f"{identity.group}/v1" if identity.group else "v1",
        "kind": identity.kind,
        "metadata": {
            "name": identity.name,
            "namespace": identity.namespace,
            "uid": f"uid-{identity.name}",
            "labels": {PARENT_UID_LABEL: owner},
        }
        | metadata,
    }
    return LiveObject.of(body | ({"status": status} if status else {}))


def job(name: str) -> Identity:
    return Identity("batch", "Job", "default", name)


def space(name: str) -> Identity:
    return Identity("", "Namespace", "", name)


FAILED = {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z"}]}
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


@dataclass
class Cluster:
    """A cluster of a few objects, and what the operator did in it."""

    records: ParentRecords
    objects: dict[Identity, LiveObject]
    hooks: tuple[str, ...] = ()
    standing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    now: float = NOW
    terminating: str = ""

    def plan(self, **more: Any) -> Finalization:
        # Through the parent's annotations, as after a restart.
        kept = read_records(LiveObject.of(parent_records_body(parent(), self.records)))
        kinds = {kind: KindState(namespaced=kind == JOB, synced=True) for kind in (JOB, NAMESPACE)}
        seen = observed(*self.objects.values(), kinds=kinds, records=kept, cluster_scope=True)
        plain = [
            dataclasses.replace(
                document({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}),
                dependencies=tuple(Dependency(Reference("Job", each), awaited=True) for each in needs),
            )
            for name, needs in self.standing.items()
        ]
        rendered = Rendered(documents=(*plain, *(document(hook(name)) for name in self.hooks)), **more)
        context = DeletionContext(now=self.now)
        ending = {self.terminating: EndingNamespace(reason="is being deleted")} if self.terminating else {}
        children = replace(seen.children, own=tuple(self.objects.values()))
        return make_finalization(
            replace(seen, parent=parent(), children=children, ending_namespaces=ending), rendered, context
        )

    def act(self, finalization: Finalization) -> None:
        self.records = finalization.records
        for step in finalization.plan.steps:
            match step.action:
                case Action.APPLY:
                    if step.identity not in self.objects:
                        self.done.append(f"created {step.identity.name}")
                        self.objects[step.identity] = live(step.identity)
                case Action.PRUNE | Action.RECREATE:
                    self.done.append(f"deleted {step.identity.name}")
                    del self.objects[step.identity]
                case _:
                    pass


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


OWNED: dict[str, Any] = {"ownerReferences": [{"kind": "Echo", "name": "web", "uid": PARENT_UID, "controller": True}]}


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


def test_a_hook_that_was_done_does_not_run_again_after_its_ttl_deleted_it() -> None:
    cluster = Cluster(
        ParentRecords(inventory={space("s"): 1}, has_finalizer=True), {space("s"): live(space("s"))}, ("h",)
    )
    cluster.objects[job("h")] = live(job("h"), COMPLETE)
    finalization = cluster.plan()
    assert finalization.hooks_done
    cluster.records = finalization.records  # the process dies here, and the Job goes
    del cluster.objects[job("h")]
    cluster.act(cluster.plan())
    assert cluster.done == ["deleted s"]


def test_a_failed_hook_is_recreated_only_after_a_backoff() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {job("h"): live(job("h"), FAILED)}, ("h",))
    cluster.now = NOW + 0.1
    waiting = cluster.plan()
    assert [step.action for step in waiting.plan.steps] == [Action.UNCHANGED]
    assert waiting.plan.rendered.again_at == NOW + 8
    cluster.now = NOW + 8
    assert [step.action for step in cluster.plan().plan.steps] == [Action.RECREATE]


def test_an_object_with_another_parents_label_is_not_deleted() -> None:
    theirs = live(space("s"), owner=OTHER_UID)
    assert Cluster(ParentRecords(inventory={space("s"): 1}, has_finalizer=True), {space("s"): theirs}).plan().finished


def test_a_kind_that_the_cluster_does_not_serve_does_not_block_the_deletion() -> None:
    gone = Identity("old.example.com", "Gadget", "", "g")
    assert Cluster(ParentRecords(inventory={gone: 1}, has_finalizer=True), {}).plan().finished


def test_a_hook_that_can_not_be_rendered_does_not_block_the_deletion() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {})
    assert cluster.plan(problems=(RenderProblem("no field x"),)).finished


def test_only_hooks_that_are_skipped_are_reported_as_skipped() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {}, hooks=("bye",))
    broken, stale = RenderProblem("no field x"), RenderProblem("unexpected '}'", outdated=True)
    report = make_deletion_report(parent(), cluster.plan(problems=(broken, stale)), (), StatusFields(), NOW)
    message = report.verdict.message
    assert "skipped because it can't be rendered: no field x" in message
    assert "the last good templates are in use because the new ones can't be loaded: unexpected '}'" in message
    assert message.count("skipped") == 1
    assert "Job default/bye" in message


def test_an_object_that_is_deleted_after_another_one_names_it() -> None:
    waves = {space("base"): 1, space("top"): 2}
    cluster = Cluster(ParentRecords(inventory=waves, has_finalizer=True), {each: live(each) for each in waves})
    steps = {step.identity.name: (step.action, step.reason) for step in cluster.plan().plan.steps}
    assert steps == {
        "top": (Action.PRUNE, "is deleted with its parent"),
        "base": (Action.KEEP, "is deleted after Namespace top"),
    }


def waiting(name: str, child: Reference) -> Wait:
    awaited = (WaitTarget(child, state="be ready"),)
    location = SourceLocation("bye.yaml.j2", 1)
    return Wait(location=location, awaited=awaited, identity=job(name), annotations=FINALIZE)


def test_a_hook_that_was_done_does_not_block_the_deletion_when_its_input_is_gone() -> None:
    records = ParentRecords(once_records={"finalize/Job.batch/default/h": "done"}, has_finalizer=True)
    cluster = Cluster(records, {job("h"): live(job("h"), COMPLETE)})
    finalization = cluster.plan(waits=(waiting("h", Reference("Namespace", "s")),))
    assert finalization.finished
    assert finalization.skipped_hooks == ()


def test_a_hook_that_reads_a_missing_child_is_skipped_and_so_is_one_that_reads_that_hook() -> None:
    waits = (waiting("h", Reference("Namespace", "s")), waiting("second", Reference("Job", "h")))
    finalization = Cluster(ParentRecords(has_finalizer=True), {}).plan(waits=waits)
    assert finalization.finished
    assert [each.partition(":")[0] for each in finalization.skipped_hooks] == ["Job default/h", "Job default/second"]
    assert "Namespace/s, which does not exist" in finalization.skipped_hooks[0]


def test_a_hook_waits_for_a_child_that_it_reads_and_that_exists() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {space("s"): live(space("s"))})
    finalization = cluster.plan(waits=(waiting("h", Reference("Namespace", "s")),))
    assert not finalization.hooks_done
    assert "waiting for Namespace/s to be ready" in finalization.awaited


def test_what_keeps_a_parent_are_its_hooks_and_not_each_child_that_remains_until_then() -> None:
    records = ParentRecords(has_finalizer=True, inventory=dict.fromkeys([space("a"), space("b"), space("s")], 0))
    cluster = Cluster(records, {each: live(each) for each in records.inventory})
    finalization = cluster.plan(waits=(waiting("h", Reference("Namespace", "s")),))
    first, *rest = finalization.awaited.split("; ")
    assert first == "Job default/h waiting for Namespace/s to be ready"
    assert rest == ["children that are deleted after the finalize hooks: 3"]


def test_a_hook_is_not_skipped_before_the_watch_of_what_it_reads_has_synced() -> None:
    finalization = Cluster(ParentRecords(has_finalizer=True), {}).plan(waits=(waiting("h", Reference("Service", "s")),))
    assert not finalization.hooks_done


def test_no_hook_runs_in_a_namespace_that_is_being_deleted() -> None:
    cluster = Cluster(ParentRecords(has_finalizer=True), {}, ("h",), terminating="default")
    assert cluster.plan().finished
    assert "namespace default, which is being deleted" in cluster.plan().skipped_hooks[0]


def test_a_recorded_object_that_cannot_be_read_is_not_taken_for_a_deleted_one() -> None:
    records = ParentRecords(inventory={space("a"): 1}, has_finalizer=True)
    kinds = {NAMESPACE: KindState(namespaced=False, synced=True)}
    seen = observed(kinds=kinds, records=records, unreadable={space("a"): "timed out"}, parent=parent())
    finalization = make_finalization(seen, Rendered(), DeletionContext(now=NOW))
    assert not finalization.finished
    (step,) = finalization.plan.steps
    assert (step.action, step.reason) == (Action.WAIT, "waits: it may exist, and can't be read: timed out")


def test_a_parent_that_nothing_keeps_reports_only_its_deletion() -> None:
    finished = Cluster(ParentRecords(has_finalizer=True), {}).plan()
    assert finished.finished
    found = make_deletion_report(parent(), finished, (), StatusFields(), NOW)
    assert found.verdict.message == "is being deleted"


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
    assert advances_deletion([Outcome(step=step, result=result, live=live(job("h"), status))], NOW) is follows


def test_another_reconcile_follows_at_once_where_an_object_was_deleted_and_not_where_nothing_was_done() -> None:
    cluster = Cluster(
        ParentRecords(inventory={space("s"): 1, space("t"): 2}, has_finalizer=True),
        {each: live(each) for each in (space("s"), space("t"))},
    )
    second, first = cluster.plan().plan.steps
    deleted = Outcome(step=second, result=Result.PRUNED)
    kept = Outcome(step=first, result=Result.UNCHANGED, live=first.live)
    assert (second.action, first.action) == (Action.PRUNE, Action.KEEP)
    assert advances_deletion([deleted, kept], NOW)
    assert not advances_deletion([kept], NOW)


def test_a_hook_that_is_done_causes_no_second_reconcile() -> None:
    cluster = Cluster(
        ParentRecords(has_finalizer=True), {job("h"): live(job("h"), COMPLETE), space("s"): live(space("s"))}, ("h",)
    )
    steps = cluster.plan().plan.steps
    assert not advances_deletion([Outcome(step=each, result=Result.UNCHANGED, live=each.live) for each in steps], NOW)
