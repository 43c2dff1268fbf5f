"""What happens while a parent is being deleted: played to its end, with every choice of the cluster's open."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.core.objects.render_result import Dependency, Rendered, RenderProblem, StatusFields, Wait, WaitTarget
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.core.planning.finalization import Circumstances, Finalization, leads_on, make_finalization
from ssa_operator.core.planning.observed import KindState
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.step import Action
from ssa_operator.core.policies.parent_records import ParentRecords, parent_records_body
from ssa_operator.core.policies.parent_records import read_parent_records as read_records
from ssa_operator.core.status.report import make_deletion_report
from tests.core.example_objects import OTHER_UID, PARENT_UID, document, observed, parent

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
class World:
    """A cluster of a few objects, and what was done in it."""

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
            replace(
                document({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}),
                dependencies=tuple(Dependency(Reference("Job", each), awaited=True) for each in needs),
            )
            for name, needs in self.standing.items()
        ]
        rendered = Rendered(documents=(*plain, *(document(hook(name)) for name in self.hooks)), **more)
        met = Circumstances(now=self.now, terminating=self.terminating)
        children = replace(seen.children, own=tuple(self.objects.values()))
        return make_finalization(replace(seen, parent=parent(), children=children), rendered, met)

    def act(self, finalization: Finalization) -> None:
        self.records = finalization.records
        for step in finalization.plan.steps:
            match step.action:
                case Action.APPLY:
                    if step.identity not in self.objects:
                        self.done.append(f"made {step.identity.name}")
                        self.objects[step.identity] = live(step.identity)
                case Action.PRUNE | Action.RECREATE:
                    self.done.append(f"deleted {step.identity.name}")
                    del self.objects[step.identity]
                case _:
                    pass


@given(
    waves=st.lists(st.integers(1, 4), max_size=5),
    hooks=st.integers(0, 3),
    chance=st.lists(st.sampled_from([COMPLETE, FAILED, None]), max_size=12),
    standing=st.sets(st.integers(0, 4)),
)
def test_hooks_are_done_before_anything_goes_and_what_was_made_last_goes_first(
    waves: list[int], hooks: int, chance: list[dict[str, Any] | None], standing: set[int]
) -> None:
    inventory = {space(f"s{n}"): wave for n, wave in enumerate(waves)}
    there = {identity: live(identity) for n, identity in enumerate(inventory) if n in standing}
    world = World(
        ParentRecords(inventory=inventory, has_finalizer=True), dict(there), tuple(f"h{n}" for n in range(hooks))
    )
    for turn in range(100):
        finalization = world.plan()
        if finalization.finished:
            break
        world.act(finalization)
        world.now += 1000
        for identity in [each for each in world.objects if each.group_kind == JOB]:
            status = chance[turn % len(chance)] if chance and turn < 50 else COMPLETE
            world.objects[identity] = live(identity, status)
    assert finalization.finished
    assert not [identity for identity in world.objects if identity.group_kind == NAMESPACE]
    gone = [entry.removeprefix("deleted ") for entry in world.done if entry.startswith("deleted s")]
    assert set(gone) == {identity.name for identity in there}
    order = [inventory[space(name)] for name in gone]
    assert order == sorted(order, reverse=True)
    if gone:
        first = world.done.index(f"deleted {gone[0]}")
        assert {f"made h{n}" for n in range(hooks)} <= set(world.done[:first])
        assert not [entry for entry in world.done[first:] if entry.startswith("made")]


OWNED: dict[str, Any] = {"ownerReferences": [{"kind": "Echo", "name": "web", "uid": PARENT_UID, "controller": True}]}


@given(edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8), recorded=st.sets(st.integers(0, 5)))
def test_children_that_depend_on_each_other_go_in_the_reverse_order(
    edges: list[tuple[int, int]], recorded: set[int]
) -> None:
    # A later job needs an earlier one, so that there is no circle; half of them are Kubernetes' own to collect.
    needs = {(max(pair), min(pair)) for pair in edges if pair[0] != pair[1]}
    jobs = [job(f"j{n}") for n in range(6)]
    world = World(
        ParentRecords(inventory={jobs[n]: n + 1 for n in recorded}, has_finalizer=True),
        {each: live(each, **({} if n in recorded else OWNED)) for n, each in enumerate(jobs)},
        standing={f"j{n}": tuple(f"j{target}" for source, target in needs if source == n) for n in range(6)},
    )
    for _ in range(20):
        finalization = world.plan()
        if finalization.finished:
            break
        world.act(finalization)
    assert finalization.finished
    order = [entry.removeprefix("deleted ") for entry in world.done]
    assert {f"j{n}" for pair in needs for n in pair} | {f"j{n}" for n in recorded} == set(order)
    for source, target in needs:
        assert order.index(f"j{source}") < order.index(f"j{target}")


def test_children_in_a_circle_keep_no_parent() -> None:
    pair = [job("a"), job("b")]
    world = World(
        ParentRecords(inventory={pair[0]: 1, pair[1]: 1}, has_finalizer=True),
        {each: live(each) for each in pair},
        standing={"a": ("b",), "b": ("a",)},
    )
    world.act(world.plan())
    assert world.plan().finished


def test_a_hook_that_was_done_does_not_run_again_when_its_ttl_took_it_away() -> None:
    world = World(ParentRecords(inventory={space("s"): 1}, has_finalizer=True), {space("s"): live(space("s"))}, ("h",))
    world.objects[job("h")] = live(job("h"), COMPLETE)
    finalization = world.plan()
    assert finalization.hooked
    world.records = finalization.records  # the process dies here, and the Job goes
    del world.objects[job("h")]
    world.act(world.plan())
    assert world.done == ["deleted s"]


def test_a_failed_hook_is_made_again_only_after_a_pause() -> None:
    world = World(ParentRecords(has_finalizer=True), {job("h"): live(job("h"), FAILED)}, ("h",))
    world.now = NOW + 0.1
    waiting = world.plan()
    assert [step.action for step in waiting.plan.steps] == [Action.UNCHANGED]
    assert waiting.plan.rendered.again_at == NOW + 8
    world.now = NOW + 8
    assert [step.action for step in world.plan().plan.steps] == [Action.RECREATE]


def test_what_lost_our_label_or_has_another_parents_is_left_alone() -> None:
    theirs = live(space("s"), owner=OTHER_UID)
    assert World(ParentRecords(inventory={space("s"): 1}, has_finalizer=True), {space("s"): theirs}).plan().finished


def test_a_kind_that_the_cluster_lacks_keeps_nothing() -> None:
    gone = Identity("old.example.com", "Gadget", "", "g")
    assert World(ParentRecords(inventory={gone: 1}, has_finalizer=True), {}).plan().finished


def test_a_hook_that_can_not_be_rendered_keeps_nothing() -> None:
    world = World(ParentRecords(has_finalizer=True), {})
    assert world.plan(problems=(RenderProblem("no field x"),)).finished


def test_only_what_is_left_out_is_called_so() -> None:
    world = World(ParentRecords(has_finalizer=True), {}, hooks=("bye",))
    broken, stale = RenderProblem("no field x"), RenderProblem("unexpected '}'", outdated=True)
    report = make_deletion_report(parent(), world.plan(problems=(broken, stale)), (), StatusFields(), NOW)
    message = report.verdict.message
    assert "left out, for it can't be rendered: no field x" in message
    assert "the last good templates are in use, for the new ones can't be loaded: unexpected '}'" in message
    assert message.count("left out") == 1
    assert "Job default/bye" in message


def test_what_goes_after_something_else_says_so() -> None:
    waves = {space("base"): 1, space("top"): 2}
    world = World(ParentRecords(inventory=waves, has_finalizer=True), {each: live(each) for each in waves})
    steps = {step.identity.name: (step.action, step.reason) for step in world.plan().plan.steps}
    assert steps == {
        "top": (Action.PRUNE, "goes with its parent"),
        "base": (Action.KEEP, "goes after Namespace top"),
    }


def waiting(name: str, child: Reference) -> Wait:
    awaited = (WaitTarget(child, state="be ready"),)
    location = SourceLocation("bye.yaml.j2", 1)
    return Wait(location=location, awaited=awaited, identity=job(name), annotations=FINALIZE)


def test_a_hook_that_was_done_keeps_no_parent_when_what_it_read_is_gone() -> None:
    records = ParentRecords(once_records={"finalize/Job.batch/default/h": "done"}, has_finalizer=True)
    world = World(records, {job("h"): live(job("h"), COMPLETE)})
    finalization = world.plan(waits=(waiting("h", Reference("Namespace", "s")),))
    assert finalization.finished
    assert finalization.left_out == ()


def test_a_hook_that_reads_what_is_gone_is_left_out_and_so_is_one_that_reads_that_hook() -> None:
    waits = (waiting("h", Reference("Namespace", "s")), waiting("second", Reference("Job", "h")))
    finalization = World(ParentRecords(has_finalizer=True), {}).plan(waits=waits)
    assert finalization.finished
    assert [each.partition(":")[0] for each in finalization.left_out] == ["Job default/h", "Job default/second"]
    assert "Namespace/s, which is not there" in finalization.left_out[0]


def test_a_hook_waits_for_what_it_reads_while_that_is_there() -> None:
    world = World(ParentRecords(has_finalizer=True), {space("s"): live(space("s"))})
    finalization = world.plan(waits=(waiting("h", Reference("Namespace", "s")),))
    assert not finalization.hooked
    assert "waiting for Namespace/s to be ready" in finalization.awaited


def test_a_hook_is_not_left_out_while_nobody_has_looked_for_what_it_reads() -> None:
    finalization = World(ParentRecords(has_finalizer=True), {}).plan(waits=(waiting("h", Reference("Service", "s")),))
    assert not finalization.hooked


def test_no_hook_is_run_in_a_namespace_that_is_being_deleted() -> None:
    world = World(ParentRecords(has_finalizer=True), {}, ("h",), terminating="default")
    assert world.plan().finished
    assert "namespace default, which is being deleted" in world.plan().left_out[0]


def test_a_parent_that_nothing_keeps_is_said_to_be_deleted_and_no_more() -> None:
    finished = World(ParentRecords(has_finalizer=True), {}).plan()
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
def test_another_pass_follows_at_once_only_where_the_apply_of_a_hook_returned_its_end(
    result: Result, status: dict[str, Any] | None, follows: bool
) -> None:
    step = World(ParentRecords(has_finalizer=True), {}, ("h",)).plan().plan.steps[0]
    assert step.action is Action.APPLY
    assert leads_on([Outcome(step=step, result=result, live=live(job("h"), status))], NOW) is follows


def test_another_pass_follows_at_once_where_an_object_was_deleted_and_not_where_nothing_was_done() -> None:
    world = World(
        ParentRecords(inventory={space("s"): 1, space("t"): 2}, has_finalizer=True),
        {each: live(each) for each in (space("s"), space("t"))},
    )
    second, first = world.plan().plan.steps
    deleted = Outcome(step=second, result=Result.PRUNED)
    kept = Outcome(step=first, result=Result.UNCHANGED, live=first.live)
    assert (second.action, first.action) == (Action.PRUNE, Action.KEEP)
    assert leads_on([deleted, kept], NOW)
    assert not leads_on([kept], NOW)


def test_a_hook_that_is_done_leads_on_once() -> None:
    world = World(
        ParentRecords(has_finalizer=True), {job("h"): live(job("h"), COMPLETE), space("s"): live(space("s"))}, ("h",)
    )
    steps = world.plan().plan.steps
    assert not leads_on([Outcome(step=each, result=Result.UNCHANGED, live=each.live) for each in steps], NOW)
