"""Which children are in a feedback loop, how much the operator slows them down, and the message about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup, Query, Selection
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.render_result import Dependency, Rendered
from ssa_operator.reconcile.child import Action
from ssa_operator.reconcile.feedback_loops.rules import Changes, follows_others, with_changes
from ssa_operator.reconcile.feedback_loops.series import ALLOWED_CHANGES, SETTLED_AFTER, FeedbackLoop
from ssa_operator.reconcile.observed import ApplyScope
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.resync.unchanged import apply_record
from tests.objects.example_objects import child, config_map, config_map_identity, document, made, observed

NOW = 1_767_268_800.0
LIVES = tuple(child(name) for name in "abcd")
ALL = Selection(api_version="v1", kind="ConfigMap", namespace="default", labels=())


def one(name: str) -> Reference:
    return Reference("ConfigMap", name)


def reading(reads: Mapping[str, Query | None], *, after: bool = False) -> Rendered:
    documents = []
    for name, query in reads.items():
        dependencies = () if query is None else (Dependency(query, awaited=False, after=after),)
        documents.append(replace(document(config_map(name)), dependencies=dependencies))
    asked = tuple(query for query in reads.values() if query is not None)
    return Rendered(documents=tuple(documents), queries=asked)


def loops_after(rendered: Rendered, *changed: str, times: int = 1, gap: float = 1.0) -> Mapping[Identity, FeedbackLoop]:
    feedback_loops: Mapping[Identity, FeedbackLoop] = {}
    for number in range(times):
        now = NOW + number * gap
        changes = Changes(changed=[*map(config_map_identity, changed)], lives=LIVES)
        lasting = {identity: loop for identity, loop in feedback_loops.items() if not loop.is_over(now)}
        feedback_loops = with_changes(lasting, rendered, changes, now)
    return feedback_loops


def test_the_message_names_a_child_in_a_loop_and_what_it_reads() -> None:
    found = loops_after(reading({"a": one("b"), "b": one("a")}), "a", "b")
    words = (
        "ConfigMap default/a changes each time it is applied, because it reads ConfigMap/b, which is derived from it; "
    )
    a = config_map_identity("a")
    assert found[a].text(a) == words + "the operator applies it with backoff"
    assert len(found) == 2


def test_a_manifest_that_reads_itself_is_a_loop_with_every_query() -> None:
    itself = Lookup(api_version="v1", kind="ConfigMap", namespace="default", name="a")
    a = config_map_identity("a")
    for query in (one("a"), itself):
        assert "because it reads itself; " in loops_after(reading({"a": query}), "a")[a].text(a)
    assert "because it reads every ConfigMap in default, which" in loops_after(reading({"a": ALL}), "a")[a].text(a)


def test_a_chain_and_an_order_without_a_value_are_no_loop() -> None:
    assert not loops_after(reading({"a": None, "b": one("a"), "c": one("b")}), "a", "b", "c")
    assert not loops_after(reading({"a": one("b"), "b": one("a")}, after=True), "a", "b")
    other = Selection(api_version="v1", kind="ConfigMap", namespace="default", labels=(("a", "b"),))
    assert not loops_after(reading({"a": other}), "a")
    # A child outside of the loop that reads it is not part of the loop.
    assert loops_after(reading({"a": one("a"), "b": one("a")}), "a", "b").keys() == {config_map_identity("a")}


def test_what_others_changed_and_the_templates_follow_begins_the_series_of_the_whole_loop_anew() -> None:
    rendered = reading({"a": one("b"), "b": one("a"), "c": one("c"), "d": one("a")})
    before = loops_after(rendered, "a", "b", "c", times=ALLOWED_CHANGES)
    a, b, c = map(config_map_identity, "abc")
    changes = Changes(changed=[a, b, c], followed=[a], lives=LIVES)
    after = with_changes(before, rendered, changes, NOW + ALLOWED_CHANGES)
    assert {identity: loop.changes for identity, loop in after.items()} == {c: ALLOWED_CHANGES + 1}
    later = with_changes(after, rendered, Changes(changed=[b], lives=LIVES), NOW + ALLOWED_CHANGES + 1)
    assert later[b].changes == 1


def owning(*fields: str, **data: str) -> LiveObject:
    """The child with these data, of which the operator owns these fields, and another manager the others."""
    owned = {"f:data": {f"f:{field}": dict[str, object]() for field in fields}}
    ours = {"manager": MANAGER, "operation": "Apply", "fieldsV1": owned}
    return LiveObject.of({**child("a", managedFields=[ours]).body, "data": data})


@pytest.mark.parametrize(
    ("before", "after", "follows"),
    [
        (owning(x="5"), owning("x", x="5"), True),
        (owning(x="5"), owning("x", x="6"), False),
        (owning(x="5"), owning("x", "y", x="5", y="5"), True),
        (owning(x="5"), owning("y", x="5", y="5"), True),
        (owning("x", x="1"), owning("x", x="2"), False),
        (owning("x", x="5"), owning("x", x="6"), False),
    ],
    ids=["taken over", "overwritten", "with another field", "left to the other", "own change", "under our name"],
)
def test_an_apply_follows_others_if_it_leaves_what_they_changed(
    before: LiveObject, after: LiveObject, *, follows: bool
) -> None:
    record = apply_record(made(config_map("a")), owning("x", x="1"))
    assert follows_others(record, before, after) is follows
    assert not follows_others(None, before, after)
    assert not follows_others(record, None, after)


def test_what_no_other_manager_changed_is_not_compared() -> None:
    """Each apply of each child asks this."""
    before, after = owning("x", x="1"), owning("x", x="2")
    assert not follows_others(apply_record(made(config_map("a")), owning("x", x="1")), before, after)
    assert before._body is after._body is None


def test_the_first_changes_have_no_pause_and_then_the_pauses_grow_to_two_minutes() -> None:
    rendered, pauses = reading({"a": one("a")}), []
    for times in range(1, ALLOWED_CHANGES + 20):
        (found,) = loops_after(rendered, "a", times=times).values()
        pauses.append(found.apply_due - found.changed_at)
    assert pauses[:ALLOWED_CHANGES] == [0] * ALLOWED_CHANGES
    assert pauses[ALLOWED_CHANGES:] == sorted(pauses[ALLOWED_CHANGES:])
    assert (pauses[ALLOWED_CHANGES], pauses[-1]) == (0.5, 120)


def test_a_loop_is_over_when_its_child_has_not_changed_for_long_enough() -> None:
    rendered = reading({"a": one("a")})
    (found,) = loops_after(rendered, "a", times=50, gap=SETTLED_AFTER + 1).values()
    assert found.changes == 1
    assert found.again_at(NOW) is None
    (found,) = loops_after(rendered, "a", times=50).values()
    assert found.again_at(found.changed_at) == found.apply_due
    assert found.again_at(found.apply_due) == found.settles_at
    assert not found.is_over(found.apply_due)
    assert found.is_over(found.settles_at)


def test_only_the_child_in_the_loop_is_delayed_and_only_until_its_pause_is_over() -> None:
    live = child("a")
    apply_records = {live.identity: apply_record(made(config_map("a")), live)}
    feedback_loops = {live.identity: FeedbackLoop(changes=ALLOWED_CHANGES + 3, changed_at=NOW, reads=one("a"))}
    changed = reading({"a": one("a"), "b": None})
    first = replace(changed.documents[0], body=config_map("a", data={"new": "1"}))
    rendered = replace(changed, documents=(first, *changed.documents[1:]))

    def actions(now: float) -> list[Action]:
        seen = observed(
            live, apply_records=apply_records, feedback_loops=feedback_loops, monotonic=now, apply_scope=ApplyScope.ALL
        )
        return [step.action for step in make_plan(seen, rendered).steps]

    assert actions(NOW + 1) == [Action.UNCHANGED, Action.APPLY]
    assert actions(NOW + 2) == [Action.APPLY, Action.APPLY]
    gone = observed(apply_records=apply_records, feedback_loops=feedback_loops, monotonic=NOW + 1)
    assert [step.action for step in make_plan(gone, rendered).steps] == [Action.WAIT, Action.APPLY]
