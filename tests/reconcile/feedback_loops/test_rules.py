"""Which changes count as those of a feedback loop, how much the operator slows them down, and the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import Lookup, Question, Selection
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.render_result import Dependency, Document, Rendered
from ssa_operator.reconcile import promises
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import NO_MEMORY, ChildMemories, ChildMemory
from ssa_operator.reconcile.feedback_loops.change_bucket import CAPACITY, REFILL, ChangeBucket
from ssa_operator.reconcile.observed import ObservedParents
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.resync.unchanged import apply_record
from tests.objects.example_objects import (
    actions,
    child,
    config_map,
    config_map_identity,
    document,
    made,
    observed,
    rendered,
)

NOW = 1_767_268_800.0
A = config_map_identity("a")
KIND = GroupKind("", "ConfigMap")
EMPTY = ChangeBucket(left=0.0, changed_at=NOW)
ITSELF = Reference("ConfigMap", "a")


def reading(name: str, *queries: Question, after: bool = False, **data: str) -> Document:
    dependencies = tuple(Dependency(query, awaited=False, after=after) for query in queries)
    return replace(document(config_map(name, data=data or {"x": "1"})), dependencies=dependencies)


def manifest(*queries: Question, after: bool = False, **data: str) -> Manifest:
    plain = made(config_map("a", data=data or {"x": "1"}))
    return structs.replace(plain, document=reading("a", *queries, after=after, **data))


def changed(wanted: Manifest, before: LiveObject | None = None, **step: Any) -> Child:
    """An apply that changed the child, or created it."""
    result = Result.CREATED if before is None else Result.CONFIGURED
    taken = Child(action=Action.APPLY, identity=A, manifest=wanted, live=before, **step)
    return taken.ended(result, live=owning("x", x="2"))


def owning(*fields: str, **data: str) -> LiveObject:
    """The child with these data, of which the operator owns these fields, and another manager the others."""
    owned = {"f:data": {f"f:{field}": dict[str, object]() for field in fields}}
    ours = {"manager": MANAGER, "operation": "Apply", "fieldsV1": owned}
    return LiveObject.of({**child("a", managedFields=[ours]).body, "data": data})


APPLIED = ChildMemory(applied=apply_record(manifest(ITSELF), owning("x", x="1")))


def counts(outcome: Child, row: ChildMemory = APPLIED, **parents: Any) -> bool:
    memories = ChildMemories(by_child={A: row})
    found = promises.after(memories, [outcome], ObservedParents(**parents), now=NOW).of(A).changes
    assert found is None or found.left == CAPACITY - 1
    return found is not None


@pytest.mark.parametrize(
    "query",
    [
        ITSELF,
        Lookup(api_version="v1", kind="ConfigMap", namespace="default", name="a"),
        Selection(api_version="v1", kind="ConfigMap", namespace="default", labels=()),
    ],
    ids=["child", "lookup", "all"],
)
def test_another_manifest_of_a_child_whose_template_reads_the_cluster_counts(query: Question) -> None:
    other = manifest(query, x="2")
    assert counts(changed(other, owning("x", x="1")))
    assert counts(changed(other), NO_MEMORY)


def test_what_reads_nothing_and_the_same_manifest_do_not_count() -> None:
    before = owning("x", x="1")
    assert not counts(changed(manifest(x="2"), before))
    assert not counts(changed(manifest(ITSELF, after=True, x="2"), before))
    assert not counts(changed(manifest(ApiKind("v1", "ConfigMap"), x="2"), before))
    assert not counts(changed(manifest(ITSELF), before))
    assert not counts(changed(manifest(ITSELF)))


def test_what_follows_an_object_that_the_operator_does_not_write_does_not_count() -> None:
    settings = Lookup(api_version="v1", kind="ConfigMap", namespace="default", name="settings")
    pods = Selection(api_version="v1", kind="Pod", namespace="default", labels=())
    follows = changed(manifest(settings, pods, x="2"), owning("x", x="1"))
    assert not counts(follows)
    assert counts(follows, claims={settings.identity: "another parent"})
    assert counts(follows, crds={GroupKind("", "Pod"): "pods"})


@pytest.mark.parametrize(
    ("before", "others"),
    [(owning(x="5"), True), (owning("x", x="5"), True), (owning("x", x="1"), False)],
    ids=["their field", "under our name", "untouched"],
)
def test_a_change_that_another_manager_began_does_not_count(before: LiveObject, *, others: bool) -> None:
    before = LiveObject.of({**before.body, "metadata": {**before.body["metadata"], "resourceVersion": "8"}})
    assert counts(changed(manifest(ITSELF, x="5"), before)) is not others


def emptied(gap: float = 1.0) -> ChangeBucket:
    bucket = ChangeBucket()
    for number in range(CAPACITY):
        assert not bucket.is_empty(NOW + number * gap)
        bucket = bucket.after_change(NOW + number * gap)
    return bucket


def test_a_child_changes_ten_times_without_a_pause_and_then_once_a_minute() -> None:
    bucket = emptied(gap=0.0)
    for _ in range(20):
        assert bucket.is_empty(bucket.changed_at)
        due = bucket.again_at(bucket.changed_at)
        assert due == bucket.changed_at + REFILL
        assert not bucket.is_empty(due)
        assert bucket.is_slowed_down(due)
        bucket = bucket.after_change(due)


def test_what_changes_less_than_once_a_minute_is_never_slowed_down() -> None:
    bucket = emptied(gap=REFILL)
    assert bucket.left == CAPACITY - 1
    assert bucket.again_at(bucket.changed_at) is None


def test_a_child_that_did_not_change_for_two_minutes_is_no_longer_named_and_after_ten_as_before() -> None:
    due = EMPTY.again_at(NOW)
    assert due == NOW + REFILL
    over = EMPTY.again_at(due)
    assert over == NOW + 2 * REFILL
    assert not EMPTY.is_slowed_down(over)
    assert EMPTY.again_at(over) is None
    assert not EMPTY.is_full(over)
    assert EMPTY.is_full(NOW + CAPACITY * REFILL)


MANY = [Lookup(api_version="v1", kind="ConfigMap", namespace="default", name=name) for name in "bcde"]


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        ([ITSELF], "its template reads ConfigMap/a; "),
        (MANY, "reads ConfigMap default/b, ConfigMap default/c, ConfigMap default/d and 1 more; "),
    ],
)
def test_only_the_child_in_the_loop_is_delayed_and_only_until_its_pause_is_over(
    queries: list[Question], words: str
) -> None:
    live = child("a")
    memory: dict[str, Any] = {
        "apply_records": {A: apply_record(made(config_map("a")), live)},
        "feedback_loops": {A: EMPTY},
    }
    documents = Rendered(documents=(reading("a", *queries, new="1"), reading("b")))

    def planned(now: float, *own: LiveObject) -> list[Child]:
        return list(make_plan(observed(*own, monotonic=now, applies_all=True, **memory), documents).steps)

    paused = planned(NOW + REFILL - 1, live)
    assert [step.action for step in paused] == [Action.UNCHANGED, Action.APPLY]
    start = "ConfigMap default/a changes each time it is applied, at least 10 times in 10 minutes without a change of "
    assert paused[0].feedback_loop.startswith(start)
    assert words in paused[0].feedback_loop
    assert paused[1].feedback_loop == ""
    assert [step.action for step in planned(NOW + REFILL, live)] == [Action.APPLY, Action.APPLY]
    assert [step.action for step in planned(NOW + 1)] == [Action.WAIT, Action.APPLY]


# New names.


def names_after(times: int, *dropped: str, gap: float = 1.0) -> Mapping[GroupKind, ChangeBucket]:
    """The buckets after reconciles that each created a child, and before which these were applied."""
    memories = ChildMemories()
    for number in range(times):
        created = config_map_identity(f"new-{number}")
        applied = {config_map_identity(name): APPLIED for name in dropped}
        memories = ChildMemories(by_child=applied, new_names=memories.new_names)
        step = Child(action=Action.APPLY, identity=created, manifest=made(config_map(created.name)))
        done = step.ended(Result.CREATED, live=child(created.name))
        memories = promises.after(memories, [done], now=NOW + number * gap)
    return memories.new_names


def test_names_that_are_added_do_not_count() -> None:
    assert names_after(100) == {}


def test_a_name_that_takes_the_place_of_another_one_counts_also_after_a_pause() -> None:
    assert names_after(CAPACITY, "old")[KIND].is_slowed_down(NOW + CAPACITY)
    memories = ChildMemories(new_names={KIND: EMPTY})
    step = Child(action=Action.APPLY, identity=A, manifest=made(config_map("a")))
    done = step.ended(Result.CREATED, live=child("a"))
    # The child with the former name was pruned during the pause.
    assert promises.after(memories, [done], now=NOW + REFILL).new_names[KIND].is_empty(NOW + REFILL)


def test_only_a_child_that_was_never_applied_waits_for_the_end_of_the_pause() -> None:
    live = child("there")
    records = {
        identity: apply_record(made(config_map(identity.name)), live)
        for identity in (live.identity, config_map_identity("deleted"))
    }
    documents = rendered(config_map("there"), config_map("deleted"), config_map("new"))

    def planned(now: float) -> dict[str, Action]:
        plan = make_plan(observed(live, apply_records=records, new_names={KIND: EMPTY}, monotonic=now), documents)
        message = "the templates give a ConfigMap a new name each time, last ConfigMap default/new, at least 10 times"
        named = {step.identity.name for step in plan.steps if step.feedback_loop}
        assert named == {"new"}
        assert all(message in step.feedback_loop for step in plan.steps if step.feedback_loop)
        return actions(plan)

    paused, later = planned(NOW + 1), planned(NOW + REFILL)
    assert {name for name, action in paused.items() if action is Action.WAIT} == {"new"}
    assert Action.WAIT not in later.values()
