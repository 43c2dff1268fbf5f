"""Who changed what of ours, and when it is a fight; the managedFields are those of a kube-apiserver 1.36.3."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.managed_fields import lost_fields, path_text, value_at
from ssa_operator.core.policies.field_conflicts import (
    AppliedChildren,
    ConflictHistory,
    ConflictPolicy,
    FieldTakeover,
    ForeignChange,
    field_takeovers,
    foreign_change,
    is_relevant,
    update_histories,
    with_foreign_change,
    with_revert,
)
from ssa_operator.core.policies.unchanged import ApplyRecord, is_untouched
from tests.core.example_objects import CONFIG_MAP, DEPLOYMENT, child

NOON = "2026-01-01T12:00:00Z"
TOLERANCE = ConflictPolicy(changes=3, window=100.0, base=1.0, cap=8.0, quiet=5.0)

CONTAINER = 'k:{"name":"web"}'
PORT = 'k:{"containerPort":80,"protocol":"TCP"}'


def ours(time: str = NOON, *, replicas: bool = True, image: bool = True, ports: bool = True) -> dict[str, Any]:
    """Our entry of a Deployment, with or without some fields."""
    container: dict[str, Any] = {".": {}, "f:args": {}, "f:name": {}}
    if image:
        container["f:image"] = {}
    if ports:
        container["f:ports"] = {PORT: {".": {}, "f:containerPort": {}, "f:protocol": {}}}
    spec: dict[str, Any] = {"f:selector": {}, "f:template": {"f:spec": {"f:containers": {CONTAINER: container}}}}
    if replicas:
        spec["f:replicas"] = {}
    fields = {"f:metadata": {"f:labels": {"f:a.b/c": {}}}, "f:spec": spec}
    return {"manager": "ssa-operator", "operation": "Apply", "time": time, "fieldsV1": fields}


def theirs(manager: str, fields: dict[str, Any], operation: str = "Update", **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "time": NOON, "fieldsV1": fields, **more}


def deployment(*entries: dict[str, Any], image: str = "i:1", uid: str = "d-1", version: str = "7") -> LiveObject:
    container = {"name": "web", "image": image, "args": ["a"], "ports": [{"containerPort": 80, "protocol": "TCP"}]}
    return LiveObject.of(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "namespace": "default",
                "uid": uid,
                "resourceVersion": version,
                "managedFields": list(entries),
            },
            "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
        }
    )


LEFT = deployment(ours())
HELD = ApplyRecord(digest=b"m", uid="d-1", entry=LEFT.own_entry())


def said(live: LiveObject | None) -> str:
    return foreign_change(HELD, LEFT, live).text()


def test_a_scale_names_its_manager_the_subresource_and_the_field() -> None:
    live = deployment(ours(replicas=False), theirs("kubectl", {"f:spec": {"f:replicas": {}}}, subresource="scale"))
    assert said(live) == "kubectl (Update of scale) changed spec.replicas"


def test_a_field_of_a_list_item_is_named_by_the_items_key() -> None:
    image: dict[str, Any] = {"f:spec": {"f:template": {"f:spec": {"f:containers": {CONTAINER: {"f:image": {}}}}}}}
    live = deployment(ours(image=False), theirs("kubectl-set", image))
    assert said(live) == "kubectl-set (Update) changed spec.template.spec.containers[name=web].image"


def test_an_apply_of_another_manager_names_every_field_that_it_took() -> None:
    fields: dict[str, Any] = {
        "f:spec": {
            "f:replicas": {},
            "f:template": {"f:spec": {"f:containers": {CONTAINER: {".": {}, "f:image": {}, "f:name": {}}}}},
        }
    }
    live = deployment(theirs("rival", fields, "Apply"), ours(replicas=False, image=False))
    text = "rival (Apply) changed spec.replicas, spec.template.spec.containers[name=web].image"
    assert said(live) == text


def test_an_item_that_somebody_removed_is_named_once() -> None:
    live = deployment(ours(ports=False), theirs("rival", {"f:spec": {"f:paused": {}}}))
    text = "somebody removed spec.template.spec.containers[name=web].ports[containerPort=80,protocol=TCP]"
    assert said(live) == text


def test_managed_fields_that_were_cleared_are_called_that() -> None:
    assert said(deployment()) == "somebody removed metadata.managedFields"


def test_another_operator_of_our_name_is_known_by_the_time_of_our_entry() -> None:
    live = deployment(ours("2026-01-01T12:00:09Z"), image="i:2")
    assert said(live) == "another ssa-operator changed spec.template.spec.containers[name=web].image"


def test_another_operator_of_our_name_is_known_by_the_values_where_it_wrote_within_the_same_second() -> None:
    live = deployment(ours(), image="i:2", version="8")
    assert not is_untouched(HELD, LEFT, live)
    assert said(live) == "another ssa-operator changed spec.template.spec.containers[name=web].image"


def test_a_write_that_leaves_our_fields_alone_leaves_the_proof_alone() -> None:
    live = deployment(ours(), theirs("rival", {"f:spec": {"f:paused": {}}}), version="8")
    assert is_untouched(HELD, LEFT, live)


def test_a_status_entry_is_not_taken_for_the_owner_of_a_field() -> None:
    live = deployment(ours(replicas=False), theirs("rival", {"f:spec": {"f:replicas": {}}}, subresource="status"))
    assert said(live) == "somebody removed spec.replicas"


def test_an_object_that_went_or_was_made_again_was_deleted() -> None:
    assert said(None) == said(deployment(ours(), uid="d-2")) == "it was deleted"


def test_no_field_is_named_where_the_parent_is_confidential() -> None:
    live = deployment(ours(replicas=False), theirs("rival", {"f:spec": {"f:replicas": {}}}))
    assert "replicas" not in foreign_change(HELD, LEFT, live).text(confidential=True)


def test_a_status_that_another_manager_took_is_seen_in_the_status_entries() -> None:
    def parent(ready: bool) -> LiveObject:
        fields: dict[str, Any] = {"f:status": {"f:observedGeneration": {}} | ({"f:ready": {}} if ready else {})}
        mine = {"manager": "ssa-operator", "operation": "Apply", "subresource": "status", "fieldsV1": fields}
        theirs_ = theirs("rival", {"f:status": {"f:ready": {}}}, subresource="status")
        return deployment(mine, *([] if ready else [theirs_]))

    before = parent(ready=True)
    found = field_takeovers(before.own_entry("status"), before, parent(ready=False), "status")
    assert found == (
        FieldTakeover(manager="rival", operation="Update", subresource="status", fields=("status.ready",)),
    )


def test_paths_lead_to_the_values_that_they_name() -> None:
    path = ("f:spec", "f:template", "f:spec", "f:containers", CONTAINER, "f:ports", PORT, "f:containerPort")
    assert value_at(LEFT.body, path) == 80
    assert value_at(LEFT.body, (*path[:4], 'k:{"name":"no"}', "f:image")) is None
    assert path_text(("f:metadata", "f:finalizers", 'v:"a.b/c"')) == 'metadata.finalizers["a.b/c"]'
    assert path_text(("f:metadata", "f:labels", "f:a.b/c")) == "metadata.labels[a.b/c]"


TREES: st.SearchStrategy[Any] = st.recursive(
    st.just({}), lambda below: st.dictionaries(st.sampled_from(["f:a", "f:b", "."]), below, max_size=3), max_leaves=8
)


@given(tree=TREES)
def test_nothing_is_lost_between_a_tree_and_itself_and_everything_between_it_and_nothing(tree: dict[str, Any]) -> None:
    encoded = json.dumps(tree).encode()
    assert lost_fields(encoded, encoded) == ()
    everything = lost_fields(encoded, b"")
    assert all(not any(path != other and path[: len(other)] == other for other in everything) for path in everything)


def fight(*moments: float, change: ForeignChange | None = None) -> ConflictHistory:
    """A rival who strikes at these moments, each put back as soon as it may be."""
    history = None
    for moment in moments:
        history = with_foreign_change(history, b"m", change or ForeignChange((TAKE,)), moment, TOLERANCE)
        history = with_revert(history, max(moment, history.due))
    assert history is not None
    return history


TAKE = FieldTakeover(manager="rival", operation="Apply", fields=("spec.replicas",))


def test_one_edit_is_no_fight() -> None:
    history = with_foreign_change(None, b"m", ForeignChange((TAKE,)), 0.0, TOLERANCE)
    assert not history.in_conflict
    assert not history.held(0.0)


def test_edits_that_are_spread_over_a_long_time_are_no_fight() -> None:
    assert not fight(0.0, 40.0, 80.0, 120.0, 160.0, 200.0).in_conflict


def test_edits_of_different_fields_are_no_fight() -> None:
    history = None
    for number in range(10):
        history = with_foreign_change(
            history, b"m", ForeignChange((FieldTakeover(manager="a", fields=(f"data.{number}",)),)), number, TOLERANCE
        )
        history = with_revert(history, number)
    assert history is not None
    assert not history.in_conflict


def test_one_more_change_than_is_tolerated_is_a_fight_that_names_rival_and_field() -> None:
    history = fight(0.0, 1.0, 2.0)
    assert not history.in_conflict
    history = with_foreign_change(history, b"m", ForeignChange((TAKE,)), 3.0, TOLERANCE)
    assert history.in_conflict
    assert history.text(DEPLOYMENT).startswith("rival (Apply) changes spec.replicas again and again; take that out")


def test_the_pauses_between_repairs_double_up_to_their_cap() -> None:
    history = fight(0.0, 1.0, 2.0)
    pauses = []
    now = 3.0
    for _ in range(6):
        history = with_foreign_change(history, b"m", ForeignChange((TAKE,)), now, TOLERANCE)
        assert history.held(now)
        assert history.again_at(now) == history.due
        pauses.append(history.due - now)
        now = history.due
        assert not history.held(now)
        history = with_revert(history, now)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_a_fight_is_over_when_the_other_leaves_a_repair_alone() -> None:
    history = fight(0.0, 1.0, 2.0, 3.0)
    assert history.answered == 4.0
    assert history.again_at(4.0) == 9.0
    assert is_relevant(history, 8.9, TOLERANCE)
    assert not is_relevant(history, 9.0, TOLERANCE)


def test_a_rival_with_an_interval_is_given_longer_before_the_fight_is_called_over() -> None:
    """Else the condition would come and go with every round."""
    history = fight(0.0, 20.0, 40.0, 60.0, 81.0)
    assert history.in_conflict
    assert history.answered is not None
    assert history.again_at(history.answered) == history.answered + 60.0


def test_a_repair_that_was_due_and_could_not_be_made_asks_for_no_pass_of_its_own() -> None:
    """Else the operator would spin on a child that something else keeps from being applied."""
    history = with_foreign_change(fight(0.0, 1.0, 2.0), b"m", ForeignChange((TAKE,)), 3.0, TOLERANCE)
    assert history.again_at(history.due) is None
    assert history.again_at(history.due - 0.1) == history.due


def test_an_unanswered_change_is_never_forgotten() -> None:
    history = with_foreign_change(fight(0.0, 1.0, 2.0), b"m", ForeignChange((TAKE,)), 3.0, TOLERANCE)
    assert is_relevant(history, 1e9, TOLERANCE)


def test_what_is_said_of_a_fight_stays_the_same_from_round_to_round() -> None:
    texts = {fight(*map(float, range(rounds))).text(DEPLOYMENT) for rounds in range(4, 40)}
    assert len(texts) == 1


def test_an_object_that_is_deleted_again_and_again_is_a_fight() -> None:
    history = fight(0.0, 1.0, 2.0, 3.0, change=ForeignChange())
    assert history.in_conflict
    assert "is deleted, or loses its label ssa-operator.dev/parent-uid, again and again" in history.text(CONFIG_MAP)


def test_two_operators_of_our_name_are_told_to_be_divided() -> None:
    twin = ForeignChange((FieldTakeover(manager="ssa-operator", operation="Apply", fields=("data.a",)),))
    text = fight(0.0, 1.0, 2.0, 3.0, change=twin).text(CONFIG_MAP)
    assert text.startswith("another ssa-operator changes data.a again and again")
    assert "other templates" in text


def test_another_manifest_starts_with_a_clean_slate() -> None:
    history = with_foreign_change(fight(0.0, 1.0, 2.0, 3.0), b"other", ForeignChange((TAKE,)), 4.0, TOLERANCE)
    assert not history.in_conflict


def scene(live: LiveObject | None) -> AppliedChildren:
    identity = child().identity
    proof = ApplyRecord(digest=b"m", uid="c-1", entry=child().own_entry())
    objects = {identity: live} if live is not None else {}
    return AppliedChildren(
        apply_records={identity: proof}, left={}, objects=objects, synced=lambda kind: kind == CONFIG_MAP
    )


def test_the_same_foreign_change_is_counted_once_however_often_it_is_looked_at() -> None:
    taken = child(managedFields=[theirs("rival", {"f:data": {"f:a": {}}})])
    histories = update_histories({}, scene(taken), 0.0, TOLERANCE)
    again = update_histories(histories, scene(taken), 1.0, TOLERANCE)
    assert histories == again
    assert len(again[taken.identity].changes) == 1


def test_an_object_as_we_left_it_is_no_foreign_change() -> None:
    assert update_histories({}, scene(child()), 0.0, TOLERANCE) == {}


def test_an_object_that_is_still_being_deleted_is_not_counted_yet() -> None:
    assert update_histories({}, scene(child(deletionTimestamp=NOON, managedFields=[])), 0.0, TOLERANCE) == {}


@given(reactions=st.lists(st.floats(min_value=0.001, max_value=30.0), min_size=1, max_size=60))
def test_repairs_are_bounded_and_the_last_word_is_always_ours(reactions: list[float]) -> None:
    history, now, repairs = None, 0.0, []
    for reaction in reactions:
        history = with_foreign_change(history, b"m", ForeignChange((TAKE,)), now, TOLERANCE)
        assert history.again_at(now) == history.due if history.due > now else not history.held(now)
        now = max(now, history.due)
        assert not history.held(now)
        history = with_revert(history, now)
        repairs.append(now)
        now += reaction
    free = TOLERANCE.changes + 1
    # In any window there are the free ones, those of the growing pauses, and one each cap.
    for start in repairs:
        within = sum(1 for moment in repairs if start <= moment < start + TOLERANCE.window)
        assert within <= free + 4 + TOLERANCE.window / TOLERANCE.cap
