"""Which manager changed which fields, and when changes are a conflict.

The managedFields are those of a kube-apiserver 1.36.3.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.field_set import lost_fields, path_text
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.reconcile.child_memory import ChildMemories, ChildMemory
from ssa_operator.reconcile.field_conflicts.history import (
    ConflictHistory,
    ConflictingChange,
    ConflictPolicy,
    ForeignChange,
)
from ssa_operator.reconcile.field_conflicts.rules import (
    RECORDED_FIELDS,
    AppliedChildren,
    find_field_changes,
    find_foreign_change,
    is_relevant,
    observe_conflicts,
    with_foreign_change,
    with_revert,
)
from ssa_operator.reconcile.resync.unchanged import ApplyRecord, is_untouched
from tests.objects.example_objects import CONFIG_MAP, DEPLOYMENT, child

NOON = "2026-01-01T12:00:00Z"
POLICY = ConflictPolicy(allowed_changes=3, window=100.0, backoff_base=1.0, backoff_cap=8.0, quiet_period=5.0)

CONTAINER = 'k:{"name":"web"}'
PORT = 'k:{"containerPort":80,"protocol":"TCP"}'


def own_entry(time: str = NOON, *, replicas: bool = True, image: bool = True, ports: bool = True) -> dict[str, Any]:
    """The operator's managedFields entry of a Deployment, with or without some fields."""
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


def other_entry(manager: str, fields: dict[str, Any], operation: str = "Update", **more: str) -> dict[str, Any]:
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


LAST_APPLIED = deployment(own_entry())
RECORD = ApplyRecord(digest=b"m", applied=LAST_APPLIED)


def text_of(live: LiveObject | None) -> str:
    return find_foreign_change(RECORD, live).text()


def test_a_scale_names_its_manager_the_subresource_and_the_field() -> None:
    live = deployment(
        own_entry(replicas=False), other_entry("kubectl", {"f:spec": {"f:replicas": {}}}, subresource="scale")
    )
    assert text_of(live) == "kubectl (Update of scale) changed spec.replicas"


def test_a_field_of_a_list_item_is_named_by_the_items_key() -> None:
    image: dict[str, Any] = {"f:spec": {"f:template": {"f:spec": {"f:containers": {CONTAINER: {"f:image": {}}}}}}}
    live = deployment(own_entry(image=False), other_entry("kubectl-set", image))
    assert text_of(live) == "kubectl-set (Update) changed spec.template.spec.containers[name=web].image"


def test_an_apply_of_another_manager_names_every_field_that_it_changed() -> None:
    fields: dict[str, Any] = {
        "f:spec": {
            "f:replicas": {},
            "f:template": {"f:spec": {"f:containers": {CONTAINER: {".": {}, "f:image": {}, "f:name": {}}}}},
        }
    }
    live = deployment(other_entry("rival", fields, "Apply"), own_entry(replicas=False, image=False))
    text = "rival (Apply) changed spec.replicas, spec.template.spec.containers[name=web].image"
    assert text_of(live) == text


def test_a_removed_item_is_named_once() -> None:
    live = deployment(own_entry(ports=False), other_entry("rival", {"f:spec": {"f:paused": {}}}))
    text = "an unknown manager removed spec.template.spec.containers[name=web].ports[containerPort=80,protocol=TCP]"
    assert text_of(live) == text


def test_cleared_managed_fields_are_named() -> None:
    assert text_of(deployment()) == "an unknown manager removed metadata.managedFields"


def test_another_operator_with_the_same_manager_is_detected_by_the_time_of_the_entry() -> None:
    live = deployment(own_entry("2026-01-01T12:00:09Z"), image="i:2")
    assert text_of(live) == "another ssa-operator changed spec.template.spec.containers[name=web].image"


def test_another_operator_with_the_same_manager_is_detected_by_the_values_if_it_wrote_within_the_same_second() -> None:
    live = deployment(own_entry(), image="i:2", version="8")
    assert not is_untouched(RECORD, live)
    assert text_of(live) == "another ssa-operator changed spec.template.spec.containers[name=web].image"


def test_a_write_to_other_fields_leaves_the_object_untouched() -> None:
    live = deployment(own_entry(), other_entry("rival", {"f:spec": {"f:paused": {}}}), version="8")
    assert is_untouched(RECORD, live)


def test_a_status_entry_does_not_count_as_the_owner_of_a_field() -> None:
    live = deployment(
        own_entry(replicas=False), other_entry("rival", {"f:spec": {"f:replicas": {}}}, subresource="status")
    )
    assert text_of(live) == "an unknown manager removed spec.replicas"


def test_an_object_that_is_gone_or_recreated_was_deleted() -> None:
    assert text_of(None) == text_of(deployment(own_entry(), uid="d-2")) == "it was deleted"


def test_the_message_about_a_confidential_parent_names_no_field() -> None:
    live = deployment(own_entry(replicas=False), other_entry("rival", {"f:spec": {"f:replicas": {}}}))
    assert "replicas" not in find_foreign_change(RECORD, live).text(confidential=True)


def test_a_foreign_change_of_a_status_is_detected_by_the_status_entries() -> None:
    def parent(ready: bool) -> LiveObject:
        fields: dict[str, Any] = {"f:status": {"f:observedGeneration": {}} | ({"f:ready": {}} if ready else {})}
        mine = {"manager": "ssa-operator", "operation": "Apply", "subresource": "status", "fieldsV1": fields}
        rivals_entry = other_entry("rival", {"f:status": {"f:ready": {}}}, subresource="status")
        return deployment(mine, *([] if ready else [rivals_entry]))

    before = parent(ready=True)
    found = find_field_changes(before.own_entry("status"), before, parent(ready=False), "status")
    assert found == (
        ConflictingChange(manager="rival", operation="Update", subresource="status", fields=("status.ready",)),
    )


def test_a_path_leads_to_the_value_of_its_field() -> None:
    path = ("f:spec", "f:template", "f:spec", "f:containers", CONTAINER, "f:ports", PORT, "f:containerPort")
    assert IndexedBody(LAST_APPLIED.body).value_at(path) == 80
    assert IndexedBody(LAST_APPLIED.body).value_at((*path[:4], 'k:{"name":"no"}', "f:image")) is None
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


def history_of(*moments: float, change: ForeignChange | None = None) -> ConflictHistory:
    """A rival changes the object at these moments. The operator reverts each change as soon as it is due."""
    history = None
    for moment in moments:
        history = with_foreign_change(history, b"m", change or ForeignChange((RIVALS_CHANGE,)), moment, POLICY)
        history = with_revert(history, max(moment, history.revert_due))
    assert history is not None
    return history


RIVALS_CHANGE = ConflictingChange(manager="rival", operation="Apply", fields=("spec.replicas",))


def test_one_edit_is_no_conflict() -> None:
    history = with_foreign_change(None, b"m", ForeignChange((RIVALS_CHANGE,)), 0.0, POLICY)
    assert not history.in_conflict
    assert not history.revert_delayed(0.0)


def test_edits_over_a_long_time_are_no_conflict() -> None:
    assert not history_of(0.0, 40.0, 80.0, 120.0, 160.0, 200.0).in_conflict


def test_edits_of_different_fields_are_no_conflict() -> None:
    history = None
    for number in range(10):
        history = with_foreign_change(
            history, b"m", ForeignChange((ConflictingChange(manager="a", fields=(f"data.{number}",)),)), number, POLICY
        )
        history = with_revert(history, number)
    assert history is not None
    assert not history.in_conflict


def test_one_more_change_than_allowed_is_a_conflict_that_names_the_manager_and_the_field() -> None:
    history = history_of(0.0, 1.0, 2.0)
    assert not history.in_conflict
    history = with_foreign_change(history, b"m", ForeignChange((RIVALS_CHANGE,)), 3.0, POLICY)
    assert history.in_conflict
    assert history.text(DEPLOYMENT).startswith(
        "rival (Apply) repeatedly changes spec.replicas; remove it from the template"
    )


def test_the_pauses_between_reverts_double_up_to_their_cap() -> None:
    history = history_of(0.0, 1.0, 2.0)
    pauses = []
    now = 3.0
    for _ in range(6):
        history = with_foreign_change(history, b"m", ForeignChange((RIVALS_CHANGE,)), now, POLICY)
        assert history.revert_delayed(now)
        assert history.again_at(now) == history.revert_due
        pauses.append(history.revert_due - now)
        now = history.revert_due
        assert not history.revert_delayed(now)
        history = with_revert(history, now)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_a_conflict_is_over_when_the_other_leaves_a_revert_alone() -> None:
    history = history_of(0.0, 1.0, 2.0, 3.0)
    assert history.reverted_at == 4.0
    assert history.again_at(4.0) == 9.0
    assert is_relevant(history, 8.9, POLICY)
    assert not is_relevant(history, 9.0, POLICY)


def test_a_conflict_with_a_slow_manager_needs_a_longer_silence_to_be_over() -> None:
    """Otherwise the condition would come and go with every change."""
    history = history_of(0.0, 20.0, 40.0, 60.0, 81.0)
    assert history.in_conflict
    assert history.reverted_at is not None
    assert history.again_at(history.reverted_at) == history.reverted_at + 60.0


def test_a_revert_that_was_due_and_failed_schedules_no_reconcile() -> None:
    """Otherwise the operator would loop over a child that it can't apply."""
    history = with_foreign_change(history_of(0.0, 1.0, 2.0), b"m", ForeignChange((RIVALS_CHANGE,)), 3.0, POLICY)
    assert history.again_at(history.revert_due) is None
    assert history.again_at(history.revert_due - 0.1) == history.revert_due


def test_a_change_that_is_not_reverted_is_never_forgotten() -> None:
    history = with_foreign_change(history_of(0.0, 1.0, 2.0), b"m", ForeignChange((RIVALS_CHANGE,)), 3.0, POLICY)
    assert is_relevant(history, 1e9, POLICY)


def test_the_message_about_a_conflict_stays_the_same_from_change_to_change() -> None:
    texts = {history_of(*map(float, range(changes))).text(DEPLOYMENT) for changes in range(4, 40)}
    assert len(texts) == 1


def test_an_object_that_is_repeatedly_deleted_is_a_conflict() -> None:
    history = history_of(0.0, 1.0, 2.0, 3.0, change=ForeignChange())
    assert history.in_conflict
    assert "it is repeatedly deleted, or loses its label ssa-operator.dev/parent-uid" in history.text(CONFIG_MAP)


def test_the_message_about_two_operators_advises_to_divide_the_parents() -> None:
    twin = ForeignChange((ConflictingChange(manager="ssa-operator", operation="Apply", fields=("data.a",)),))
    text = history_of(0.0, 1.0, 2.0, 3.0, change=twin).text(CONFIG_MAP)
    assert text.startswith("another ssa-operator repeatedly changes data.a")
    assert "other templates" in text


def test_another_manifest_starts_without_history() -> None:
    history = with_foreign_change(
        history_of(0.0, 1.0, 2.0, 3.0), b"other", ForeignChange((RIVALS_CHANGE,)), 4.0, POLICY
    )
    assert not history.in_conflict


def conflict_of(live: LiveObject | None, now: float, before: ConflictHistory | None = None) -> ConflictHistory | None:
    """The history of a child that was applied, and that a reconcile finds as it is now."""
    identity = child().identity
    row = ChildMemory(applied=ApplyRecord(digest=b"m", applied=child()), conflict=before)
    children = AppliedChildren(
        memories=ChildMemories(by_child={identity: row}),
        live={identity: live} if live is not None else {},
        synced=lambda each: each.group_kind == CONFIG_MAP,
    )
    return observe_conflicts(children, now, POLICY).of(identity).conflict


def test_a_foreign_change_is_counted_once_however_often_the_operator_reconciles() -> None:
    changed = child(managedFields=[other_entry("rival", {"f:data": {"f:a": {}}})])
    history = conflict_of(changed, 0.0)
    assert history is not None
    assert conflict_of(changed, 1.0, history) is history
    assert len(history.changes) == 1


def test_a_change_of_thousands_of_fields_records_the_first_and_the_number_of_the_others() -> None:
    names = [f"k{at:04}" for at in range(4000)]
    before = child(managedFields=[{**own_entry(), "fieldsV1": {"f:data": {f"f:{name}": {} for name in names}}}])
    live = child(managedFields=[other_entry("rival", {"f:data": {f"f:{name}": {} for name in names}})])
    (found,) = find_field_changes(before.own_entry(), before, live)
    assert found.fields == tuple(f"data.{name}" for name in names[:RECORDED_FIELDS])
    change = ForeignChange((found,))
    expected = "data.k0000, data.k0001, data.k0002, data.k0003 and 3996 more"
    assert change.text() == f"rival (Update) changed {expected}"
    history = None
    for now in range(POLICY.allowed_changes + 1):
        history = with_foreign_change(history, b"m", change, now, POLICY)
    assert history is not None
    assert history.in_conflict
    assert history.text(CONFIG_MAP).startswith(f"rival (Update) repeatedly changes {expected}; ")


def test_an_object_as_the_last_apply_left_it_shows_no_foreign_change() -> None:
    assert conflict_of(child(), 0.0) is None


def test_an_object_that_is_being_deleted_shows_no_foreign_change_yet() -> None:
    assert conflict_of(child(deletionTimestamp=NOON, managedFields=[]), 0.0) is None


@given(reactions=st.lists(st.floats(min_value=0.001, max_value=30.0), min_size=1, max_size=60))
def test_reverts_are_bounded_and_the_operator_always_writes_last(reactions: list[float]) -> None:
    history, now, reverts = None, 0.0, []
    for reaction in reactions:
        history = with_foreign_change(history, b"m", ForeignChange((RIVALS_CHANGE,)), now, POLICY)
        assert (
            history.again_at(now) == history.revert_due if history.revert_due > now else not history.revert_delayed(now)
        )
        now = max(now, history.revert_due)
        assert not history.revert_delayed(now)
        history = with_revert(history, now)
        reverts.append(now)
        now += reaction
    immediate = POLICY.allowed_changes + 1
    # Any window has the immediate reverts, those with growing pauses, and one for each cap.
    for start in reverts:
        within = sum(1 for moment in reverts if start <= moment < start + POLICY.window)
        assert within <= immediate + 4 + POLICY.window / POLICY.backoff_cap


def test_a_change_in_another_version_is_that_of_the_last_manager_that_wrote_in_one() -> None:
    """A managedFields entry names fields in its own version, which may have another name for the field."""
    ours, lost = own_entry() | {"apiVersion": "apps/v1"}, own_entry(replicas=False) | {"apiVersion": "apps/v1"}
    before = deployment(ours)
    renamed: dict[str, Any] = {"f:spec": {"f:count": {}}}
    later = other_entry("rival", renamed, apiVersion="apps/v2") | {"time": "2026-01-01T12:00:05Z"}
    earlier = other_entry("old", renamed, apiVersion="apps/v2") | {"time": "2026-01-01T11:00:00Z"}
    same = other_entry("same", {"f:spec": {"f:paused": {}}}, apiVersion="apps/v1")

    def changes(*entries: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
        live = deployment(lost, *entries, version="8")
        found = find_field_changes(before.own_entry(), before, live)
        return [(each.manager, each.fields) for each in found]

    assert changes(later, earlier, same) == [("rival", ("spec.replicas",))]
    assert changes(earlier, same) == [("", ("spec.replicas",))]
