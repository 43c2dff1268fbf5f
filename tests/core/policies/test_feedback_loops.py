"""Which children change without end, how much they are slowed down, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ssa_operator.core.policies.unchanged import proof
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.planning.observed import Demand
from ssa_operator.core.planning.plan import make_plan
from ssa_operator.core.objects.render_result import Rendered, Use
from ssa_operator.core.planning.step import Action
from ssa_operator.core.policies.feedback_loops import FREE, STILL, Unrest, changed_again, current
from ssa_operator.core.objects.cluster_view import Lookup, Question, Selection
from tests.core.example_objects import child, config_map, config_map_identity, document, made, observed

NOW = 1_767_268_800.0
LIVES = tuple(child(name) for name in "abcd")
ALL = Selection(api_version="v1", kind="ConfigMap", namespace="default", labels=())


def one(name: str) -> Reference:
    return Reference("ConfigMap", name)


def reading(reads: Mapping[str, Question | None], *, after: bool = False) -> Rendered:
    documents = []
    for name, question in reads.items():
        uses = () if question is None else (Use(question, awaited=False, after=after),)
        documents.append(replace(document(config_map(name)), uses=uses))
    asked = tuple(question for question in reads.values() if question is not None)
    return Rendered(documents=tuple(documents), asked=asked)


def restless(rendered: Rendered, *changed: str, times: int = 1, gap: float = 1.0) -> Mapping[Identity, Unrest]:
    unrest: Mapping[Identity, Unrest] = {}
    for number in range(times):
        now = NOW + number * gap
        names = map(config_map_identity, changed)
        unrest = changed_again(current(unrest, now), rendered, names, LIVES, now)
    return unrest


def test_what_is_read_in_a_circle_is_named_with_what_it_reads() -> None:
    found = restless(reading({"a": one("b"), "b": one("a")}), "a", "b")
    words = "ConfigMap default/a changes each time it is applied, for it reads ConfigMap/b, which follows from it; "
    a = config_map_identity("a")
    assert found[a].text(a) == words + "it is applied again in growing pauses"
    assert len(found) == 2


def test_a_manifest_that_reads_itself_is_a_circle_however_it_asks() -> None:
    itself = Lookup(api_version="v1", kind="ConfigMap", namespace="default", name="a")
    a = config_map_identity("a")
    for question in (one("a"), itself):
        assert "for it reads itself; " in restless(reading({"a": question}), "a")[a].text(a)
    assert "for it reads every ConfigMap in default, which" in restless(reading({"a": ALL}), "a")[a].text(a)


def test_a_chain_and_what_only_comes_after_are_no_circle() -> None:
    assert not restless(reading({"a": None, "b": one("a"), "c": one("b")}), "a", "b", "c")
    assert not restless(reading({"a": one("b"), "b": one("a")}, after=True), "a", "b")
    other = Selection(api_version="v1", kind="ConfigMap", namespace="default", labels=(("a", "b"),))
    assert not restless(reading({"a": other}), "a")
    # What only reads a circle changes with it, and is not to blame.
    assert restless(reading({"a": one("a"), "b": one("a")}), "a", "b").keys() == {config_map_identity("a")}


def test_some_changes_are_free_and_then_the_pauses_grow_to_two_minutes() -> None:
    rendered, pauses = reading({"a": one("a")}), []
    for times in range(1, FREE + 20):
        (found,) = restless(rendered, "a", times=times).values()
        pauses.append(found.due - found.last)
    assert pauses[:FREE] == [0] * FREE
    assert pauses[FREE:] == sorted(pauses[FREE:])
    assert (pauses[FREE], pauses[-1]) == (0.5, 120)


def test_what_keeps_still_for_long_enough_has_come_to_rest() -> None:
    rendered = reading({"a": one("a")})
    (found,) = restless(rendered, "a", times=50, gap=STILL + 1).values()
    assert found.changes == 1
    assert found.again_at(NOW) is None
    (found,) = restless(rendered, "a", times=50).values()
    assert found.again_at(found.last) == found.due
    assert found.again_at(found.due) == found.over_at
    assert current({config_map_identity("a"): found}, found.due)
    assert not current({config_map_identity("a"): found}, found.over_at)


def test_only_what_changed_is_left_alone_and_only_until_its_pause_is_over() -> None:
    live = child("a")
    proofs = {live.identity: proof(made(config_map("a")), live)}
    unrest = {live.identity: Unrest(changes=FREE + 3, last=NOW, reads=one("a"))}
    changed = reading({"a": one("a"), "b": None})
    first = replace(changed.documents[0], body=config_map("a", data={"new": "1"}))
    rendered = replace(changed, documents=(first, *changed.documents[1:]))

    def actions(now: float) -> list[Action]:
        seen = observed(live, proofs=proofs, unrest=unrest, now=now, demand=Demand.EVERYTHING)
        return [step.action for step in make_plan(seen, rendered).steps]

    assert actions(NOW + 1) == [Action.UNCHANGED, Action.APPLY]
    assert actions(NOW + 2) == [Action.APPLY, Action.APPLY]
    gone = observed(proofs=proofs, unrest=unrest, now=NOW + 1)
    assert [step.action for step in make_plan(gone, rendered).steps] == [Action.WAIT, Action.APPLY]
