"""The records on a parent: they read back as they were written, and a malformed record breaks nothing."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.identity import GroupKind, Identity, segment_fault
from ssa_operator.objects.kinds import KindState, kind_state
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.reconcile.apply_once import is_done, with_final_states
from ssa_operator.reconcile.parent_records.requests import _what_was_applied
from ssa_operator.reconcile.parent_records.rules import (
    ANNOTATIONS_LIMIT,
    GENERATED_VALUES_ANNOTATION,
    HELD_LIMIT,
    HELD_PRUNE_ANNOTATION,
    INVENTORY_ANNOTATION,
    NO_REVISION,
    ONCE_ANNOTATION,
    AppliedRecord,
    HeldPrune,
    ParentRecords,
    ParentRecordsError,
    RevisionRecord,
    identity_from_key,
    identity_key,
    read_parent_records,
    records_patch,
    texts_of,
    unreadable_records_message,
    with_applied,
    with_revision,
)
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.plan import make_plan
from tests.objects.example_objects import CONFIG_MAP, child, config_map, made, observed, rendered

WORD = st.text(min_size=1, max_size=12)
NAME = st.text(max_size=12).filter(lambda name: not segment_fault(name))
IDENTITIES = st.builds(Identity, st.text(max_size=12), WORD, NAME, NAME.filter(bool))
KINDS = st.builds(GroupKind, st.sampled_from(["", "apps", "a.example.com"]), st.sampled_from(["Deployment", "In"]))
RECORDS = st.builds(
    ParentRecords,
    inventory=st.dictionaries(IDENTITIES, st.integers(1, 9), max_size=6),
    once_records=st.dictionaries(WORD, st.text(max_size=12), max_size=4),
    held_prune=st.none() | st.builds(HeldPrune, st.text(max_size=12), st.frozensets(WORD, max_size=4)),
    kept_values=st.frozensets(IDENTITIES, max_size=4),
    applied=st.none()
    | st.builds(
        AppliedRecord,
        kinds=st.frozensets(KINDS, max_size=4),
        templates=st.text(max_size=12),
        incomplete=st.booleans(),
    ),
    has_finalizer=st.booleans(),
)


def parent(**metadata: Any) -> LiveObject:
    whole = {"name": "web", "namespace": "default", "uid": "u1", **metadata}
    return LiveObject.of({"apiVersion": "example.com/v1", "kind": "Echo", "metadata": whole})


def recorded(records: ParentRecords, live: LiveObject | None = None) -> LiveObject:
    """A parent, or this one, after these records were written to it."""
    live = parent() if live is None else live
    return patched(live, records_patch(live, texts_of(records)))


def patched(live: LiveObject, patch: bytes | None) -> LiveObject:
    """The live object after a merge patch."""
    if patch is None:
        return live
    body, changed = json.loads(live.raw), json.loads(patch)["metadata"]
    assert (changed.pop("uid"), changed.pop("resourceVersion")) == (live.uid, live.resource_version)
    notes = body["metadata"].get("annotations", {}) | changed.pop("annotations", {})
    body["metadata"] |= {"annotations": {name: text for name, text in notes.items() if text is not None}, **changed}
    return LiveObject.of(body)


@given(RECORDS)
def test_records_read_back_as_they_were_written(records: ParentRecords) -> None:
    live = recorded(records)
    assert read_parent_records(live) == records
    assert unreadable_records_message(live) is None


def test_a_parent_without_records_has_neither_annotations_nor_finalizer() -> None:
    assert texts_of(ParentRecords()) == {}
    assert read_parent_records(parent()) == ParentRecords()


@pytest.mark.exhaustive
@given(RECORDS, RECORDS, st.lists(st.sampled_from(["a/b", "a/c"]), unique=True))
def test_a_write_leaves_the_new_records_and_what_others_wrote(
    kept: ParentRecords, needed: ParentRecords, theirs: list[str]
) -> None:
    texts = texts_of(kept)
    notes = {"a/note": "x", **{name: text for name, text in texts.items() if name != FINALIZER}}
    own = [FINALIZER] if FINALIZER in texts else []
    live = parent(resourceVersion="7", finalizers=[*theirs, *own, "a/z"], annotations=notes)
    after = recorded(needed, live)
    assert read_parent_records(after) == needed
    assert [each for each in after.metadata.finalizers if each != FINALIZER] == [*theirs, "a/z"]
    assert after.metadata.annotations["a/note"] == "x"
    assert records_patch(after, texts_of(needed)) is None


def test_records_are_written_to_the_parent_as_it_was_read() -> None:
    live = parent(resourceVersion="7", finalizers=["a/z", FINALIZER])
    wanted = {"uid": "u1", "resourceVersion": "7", "finalizers": ["a/z"]}
    assert json.loads(records_patch(live, {}) or b"") == {"metadata": wanted}


def test_finalizers_and_annotations_of_others_are_no_records() -> None:
    theirs = parent(finalizers=["example.com/other"], annotations={"example.com/note": "x"})
    assert read_parent_records(theirs) == ParentRecords()
    assert records_patch(theirs, {}) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="lists without end"),
        "",
        "nonsense",
        "7",
        "{}",
        "[]",
        "null",
        '["a"]',
        '[{"kind":"A"}]',
        '[{"name":7}]',
    ],
)
def test_a_malformed_record_counts_as_empty(text: str) -> None:
    found = read_parent_records(
        parent(
            annotations={INVENTORY_ANNOTATION: text, ONCE_ANNOTATION: text, HELD_PRUNE_ANNOTATION: text},
            finalizers=[FINALIZER],
        )
    )
    assert found == ParentRecords(has_finalizer=True)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (INVENTORY_ANNOTATION, '[{"kind":"ClusterRole","name":"a","deletion":"Orphan"}]'),
        (INVENTORY_ANNOTATION, '[{"kind":"ClusterRole","name":"a","wave":"first"}]'),
        (INVENTORY_ANNOTATION, '{"children":[]}'),
        (INVENTORY_ANNOTATION, "[" * 100_000),
        (ONCE_ANNOTATION, '{"Job.batch/a":{"digest":"x"}}'),
        (ONCE_ANNOTATION, '["Job.batch/a"]'),
        (HELD_PRUNE_ANNOTATION, '{"reconcileAt":"","children":[],"until":"monday"}'),
        (HELD_PRUNE_ANNOTATION, '{"reconcileAt":""}'),
        (GENERATED_VALUES_ANNOTATION, "v2"),
    ],
)
def test_a_record_of_another_format_is_named_and_is_no_absent_one(annotation: str, text: str) -> None:
    message = unreadable_records_message(parent(annotations={annotation: text}))
    assert str(message).startswith(f"the annotation {annotation} can't be read")
    assert unreadable_records_message(parent(annotations={annotation: ""})) is None


def test_a_message_about_unreadable_records_has_a_limit() -> None:
    entry = [{"kind": "Job", "name": "a", "x" * 200_000: 1}]
    records = {annotation: json.dumps(entry) for annotation in (INVENTORY_ANNOTATION, GENERATED_VALUES_ANNOTATION)}
    assert len(str(unreadable_records_message(parent(annotations=records)))) < 1000


def test_a_message_about_an_unreadable_record_does_not_repeat_its_content() -> None:
    assert "hunter2" not in str(unreadable_records_message(parent(annotations={ONCE_ANNOTATION: '{"hunter2": 7}'})))


def test_children_that_were_created_later_are_deleted_first() -> None:
    first, second, third = (Identity("", "Namespace", "", name) for name in ("a", "b", "c"))
    records = ParentRecords().with_children([second, first]).with_children([first, third])
    assert records.waves == [[third], [first, second]]
    assert records.without_children([third]).waves == [[first, second]]
    assert records.without_children([first, second, third]) == ParentRecords()


def test_more_than_the_annotations_can_hold_is_an_error() -> None:
    many = ParentRecords().with_children(
        Identity("", "Namespace", "", f"n{n}" * 20) for n in range(ANNOTATIONS_LIMIT // 100)
    )
    with pytest.raises(ParentRecordsError, match="don't fit into its annotations"):
        texts_of(many)


def test_the_key_of_an_identity_is_readable() -> None:
    assert identity_key(Identity("apps", "Deployment", "default", "web")) == "Deployment.apps/default/web"
    assert identity_key(Identity("", "Namespace", "", "team")) == "Namespace/team"


def test_the_inventory_is_plain_json_that_names_every_object() -> None:
    records = ParentRecords().with_children([Identity("", "Namespace", "", "team")])
    text = texts_of(records)[INVENTORY_ANNOTATION]
    assert json.loads(text) == [{"kind": "Namespace", "name": "team", "wave": 1}]


def test_a_held_prune_records_a_limited_number_of_children() -> None:
    hold = HeldPrune.of("", [Identity("", "ConfigMap", "default", f"c{n:05}") for n in range(100_000)])
    assert len(hold.children) == HELD_LIMIT
    assert hold == HeldPrune.of("", [Identity("", "ConfigMap", "default", f"c{n:05}") for n in range(100)])
    assert read_parent_records(recorded(ParentRecords(held_prune=hold))).held_prune == hold


@pytest.mark.parametrize(
    "identity",
    [
        Identity("apps", "Deployment", "default", "web"),
        Identity("", "Namespace", "", "a.b"),
        Identity("a.b", "C", "", "e"),
    ],
)
def test_a_key_leads_back_to_its_object(identity: Identity) -> None:
    assert identity_from_key(identity_key(identity)) == identity


@pytest.mark.parametrize("word", ["", "x", "/", "//", "Job.batch", "finalize/"])
def test_a_malformed_key_of_a_once_record_names_no_object(word: str) -> None:
    kept = read_parent_records(parent(annotations={ONCE_ANNOTATION: json.dumps({word: "x"})}))
    assert not is_done(kept.once_records, "Job", "web")
    assert with_final_states(kept, "u", lambda _: None, 0.0) == kept


def test_parents_with_the_same_records_share_what_was_decoded() -> None:
    records = ParentRecords(applied=AppliedRecord(kinds=frozenset({GroupKind("apps", "Deployment")}), templates="1"))
    assert read_parent_records(recorded(records)) is read_parent_records(recorded(records))
    large = replace(records, inventory={Identity("", "Namespace", "", f"n{number}"): 1 for number in range(100)})
    assert read_parent_records(recorded(large)) == read_parent_records(recorded(large)) == large


def test_the_kinds_of_manifests_that_wait_are_recorded_with_the_first_write() -> None:
    secret, account = GroupKind("", "Secret"), GroupKind("", "ServiceAccount")
    manifest = made(config_map())
    first = with_applied(ParentRecords(), [manifest], "1", waiting={secret}, has_children=False)
    assert first.applied == AppliedRecord(kinds=frozenset({manifest.identity.group_kind, secret}), templates="1")
    # A kind that only waits is not worth a write.
    assert with_applied(first, [manifest], "1", waiting={account}, has_children=False) == first
    # Nothing is recorded for a parent of which nothing is applied.
    assert with_applied(ParentRecords(), [], "1", waiting={secret}, has_children=False) == ParentRecords()


def test_a_kind_is_recorded_as_long_as_a_child_of_it_exists() -> None:
    """Also where no template renders the kind any more, and its child is not pruned yet: the next process prunes it."""
    applied = AppliedRecord(kinds=frozenset({CONFIG_MAP}))
    kinds = {CONFIG_MAP: kind_state(True, [("", KindState(namespaced=True, synced=True))])}
    plan = make_plan(observed(child(), kinds=kinds), rendered(problems=(RenderProblem("no"),)))
    reconcile: Any = SimpleNamespace(newly_converged=False, state=ParentState())
    assert _what_was_applied(reconcile, plan, frozenset(), applied) == applied
    assert _what_was_applied(reconcile, plan, {child().identity}, applied) == AppliedRecord(kinds=frozenset())


def test_the_record_of_a_revision_says_when_the_parent_was_ready_last() -> None:
    never = ParentRecords()
    assert with_revision(never, "", ready=True) is never, "a folder without rollouts records nothing"
    one = with_revision(never, "one", ready=True)
    assert one.revision == RevisionRecord("one")
    assert not one.revision.was_ready, "a new parent proves nothing"
    two = with_revision(one, "two", ready=True)
    assert two.revision == RevisionRecord("two", "one")
    assert two.revision.was_ready
    three = with_revision(two, "three", ready=False)
    assert three.revision == RevisionRecord("three", "one")
    assert not with_revision(three, "one", ready=False).revision.was_ready
    assert with_revision(three, "three", ready=True) is three
    assert read_parent_records(recorded(three)).revision == three.revision
    assert with_revision(three, "", ready=True).revision.revision == NO_REVISION
    alone = with_revision(one, "one", ready=True, rendered=False)
    assert with_revision(alone, "one", ready=False, rendered=False) is alone
    assert with_revision(alone, "two", ready=False).revision.was_ready, "what can't be rendered was not Ready before"
    assert with_revision(one, "two", ready=True, rendered=False) == alone, "a revision is recorded that wasn't applied"
    assert with_revision(one, "", ready=True, rendered=False) == alone, "files that don't load count as no rollouts"
    assert with_revision(never, "one", ready=True, rendered=False) is never
