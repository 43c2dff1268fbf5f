"""What a parent does with an object that it shares with others, in any order of reconciles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import ManifestError
from ssa_operator.objects.shared_record import OWNERS_ANNOTATION
from ssa_operator.reconcile.child import Action, Child, FailureReason
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.shared_ownership import (
    leave_patch,
    owners_text,
    release_patch,
    vote_patch,
    with_owners,
)
from tests.objects.example_objects import (
    OTHER_UID,
    PARENT_UID,
    child,
    config_map,
    made,
    observed,
    parent,
    rendered,
)

UIDS = ("p0", "p1", "p2")


def shared(value: str = "b", **annotations: str) -> dict[str, Any]:
    """The manifest of an object that several parents share."""
    annotations = {f"ssa-operator.dev/{name}": text for name, text in annotations.items()}
    return config_map(metadata={"annotations": {"ssa-operator.dev/apply": "Shared", **annotations}}, data={"a": value})


def owner(uid: str) -> LiveObject:
    return parent(uid=uid, name=uid)


class SharedObject:
    """An object on an API server, and its parents."""

    def __init__(self) -> None:
        self.live: LiveObject | None = None
        self.version = 0

    def step(self, uid: str, value: str) -> Child:
        others = () if self.live is None else (self.live,)
        return make_plan(observed(others=others, parent=owner(uid)), rendered(shared(value))).steps[0]

    def reconcile(self, uid: str, value: str | None) -> None:
        """One reconcile of a parent that renders a value, or doesn't render the object."""
        if value is None:
            if self.live is not None and self.live.belongs_to(uid):
                self.patch(release_patch(self.live, uid))
            return
        step = self.step(uid, value)
        if step.action is Action.APPLY:
            assert step.manifest is not None
            body = dict(with_owners(step.manifest, self.live).body)
            self.write({**body, "metadata": {**body["metadata"], "uid": "c-1"}})
        elif self.live is not None and (vote := vote_patch(self.live, uid, step.vote)):
            self.patch(vote)

    def patch(self, patch: bytes | None) -> None:
        if patch is None or self.live is None:
            self.live = None
        else:
            changed = json.loads(patch)["metadata"]
            assert changed["resourceVersion"] == self.live.resource_version
            self.write({**self.live.body, "metadata": {**self.live.body["metadata"], **changed}})

    def write(self, body: dict[str, Any]) -> None:
        self.version += 1
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.version)}
        self.live = LiveObject.of(body)

    @property
    def owners(self) -> set[str]:
        return set() if self.live is None else {each.uid for each in self.live.owner_references}

    @property
    def value(self) -> str | None:
        return None if self.live is None else self.live.body["data"]["a"]


turns = st.lists(st.tuples(st.sampled_from(UIDS), st.sampled_from(["a", "b", None])), max_size=12)


@given(turns, st.permutations(UIDS))
def test_owners_that_render_alike_converge_whatever_happened_before(
    before: Sequence[tuple[str, str | None]], order: Sequence[str]
) -> None:
    common = SharedObject()
    for uid, value in before:
        common.reconcile(uid, value)
    # Two rounds: in the first one the last owner changes the object, in the second one the parents that waited join.
    for uid in (*order, *order):
        common.reconcile(uid, "c")
    assert (common.value, common.owners) == ("c", set(UIDS))
    for uid in order:
        assert common.owners >= {uid}
        common.reconcile(uid, None)
    assert common.live is None


@given(turns)
def test_a_reconcile_changes_no_other_owner_and_no_form_that_another_owner_still_renders(
    before: Sequence[tuple[str, str | None]],
) -> None:
    common, last = SharedObject(), dict[str, str | None]()
    for uid, value in before:
        owners, form = common.owners, common.value
        common.reconcile(uid, value)
        last[uid] = value
        assert common.owners - {uid} == owners - {uid}
        if any(last[each] == form for each in owners - {uid}):
            assert common.value == form


def test_the_conflict_names_both_parents_the_object_and_the_first_field_and_no_field_of_a_secret() -> None:
    common = SharedObject()
    common.reconcile(OTHER_UID, "a")
    refused = common.step(PARENT_UID, "b")
    assert (refused.action, refused.problem, refused.claimed_by_other) == (Action.REFUSE, FailureReason.CONFLICT, True)
    assert f"rendered differently by Echo default/{PARENT_UID} and by Echo default/other" in refused.reason
    assert "first difference: data.a" in refused.reason
    assert common.live is not None
    seen = observed(others=(common.live,), confidential=True)
    assert "data.a" not in make_plan(seen, rendered(shared("b"))).steps[0].reason


@pytest.mark.parametrize(("annotation", "text"), [("recreate", "Background"), ("prune", "false"), ("on", "finalize")])
def test_an_instruction_that_a_single_parent_decides_on_excludes_sharing(annotation: str, text: str) -> None:
    with pytest.raises(ManifestError, match=f"apply: Shared and ssa-operator.dev/{annotation}: .*exclude each other"):
        made(shared(**{annotation: text}))


def test_a_parent_that_leaves_its_children_is_no_owner_any_more_even_as_the_last_one() -> None:
    common = SharedObject()
    common.reconcile(OTHER_UID, "a")
    common.reconcile(PARENT_UID, "a")
    for uid, owners in ((PARENT_UID, {OTHER_UID}), (OTHER_UID, set[str]())):
        assert common.live is not None
        common.patch(leave_patch(common.live, uid))
        assert common.owners == owners
        assert common.live.shared is not None
        assert common.live.shared.owners.keys() == owners
        assert leave_patch(common.live, uid) is None
    common.reconcile(PARENT_UID, "b")
    assert (common.value, common.owners) == ("b", {PARENT_UID})


def test_the_conflict_with_an_owner_that_is_not_known_says_how_to_end_it() -> None:
    common = SharedObject()
    common.reconcile("p0", "a")
    assert common.live is not None
    metadata = {name: value for name, value in common.live.body["metadata"].items() if name != "ownerReferences"}
    live = LiveObject.of({**common.live.body, "metadata": metadata})
    text = owners_text(live, ["p0"], observed().parents)
    assert text.startswith("a parent with the uid p0 (if it no longer exists, remove the uid from the annotation")


def test_the_order_of_keys_makes_no_other_manifest_and_the_parent_makes_none() -> None:
    one, other = made(shared()), made({**dict(reversed(shared().items()))}, owner("p1"))
    assert one.shared is not None
    assert other.shared is not None
    assert one.shared.digest == other.shared.digest
    assert one.body["metadata"]["labels"]["ssa-operator.dev/parent-uid"] == "shared"
    assert [each.get("controller") for each in one.body["metadata"]["ownerReferences"]] == [None]


@pytest.mark.parametrize("text", ["", "no record", '{"owners": 3}', '{"owners": {"a": 1}}', "[" * 100_000])
def test_a_text_that_is_no_record_has_no_owners(text: str) -> None:
    live = child(labels={"ssa-operator.dev/parent-uid": "shared"}, annotations={OWNERS_ANNOTATION: text})
    assert live.parent_uids == ()
    assert make_plan(observed(others=(live,)), rendered(shared())).steps[0].action is Action.APPLY


def test_an_object_with_many_owners_stays_small_as_a_partial_object() -> None:
    record = json.dumps({"render": "d", "owners": {f"p{number}": "d" for number in range(1000)}})
    live = child(labels={"ssa-operator.dev/parent-uid": "shared"}, annotations={OWNERS_ANNOTATION: record})
    assert len(live.parent_uids) == 1000
    assert len(live.as_partial().parent_uids) == 16
