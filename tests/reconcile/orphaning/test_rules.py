"""Whether a parent in deletion takes its children with it: by what is known, or by what a user decides."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.reconcile.orphaning.rules import (
    ANNOTATION,
    children_stay,
    proof_of_deletion,
    undecided_message,
)
from ssa_operator.reconcile.parent_records.rules import HOOK, ParentRecords
from tests.objects.example_objects import child, observed, parent

ROLE = Identity("rbac.authorization.k8s.io", "ClusterRole", "", "default-web")
RECORDS = ParentRecords(inventory={ROLE: 1}, has_finalizer=True)


def stay(*own: LiveObject, seen: bool | None = None, records: ParentRecords = RECORDS, **metadata: Any) -> bool | None:
    leaving = parent(deletionTimestamp="2026-01-01T00:00:00Z", **metadata)
    known = observed(*own, parent=leaving, records=records)
    return children_stay(known, seen, proof_of_deletion(known, seen))


def applied(time: str, **metadata: Any) -> LiveObject:
    """A child as an apply of that time left it."""
    entry = {"manager": MANAGER, "operation": "Apply", "time": time, "fieldsV1": {"f:data": {"f:a": {}}}}
    return child(managedFields=[entry], **metadata)


def test_what_the_process_saw_at_the_beginning_of_the_deletion_decides() -> None:
    assert stay(child(), seen=True) is True
    assert stay(seen=False) is False


def test_a_child_that_has_its_owner_reference_proves_that_it_goes_with_its_parent() -> None:
    assert stay(child(ownerReferences=[]), child("other", uid="c-2")) is False


@pytest.mark.parametrize("time", ["2026-01-01T00:00:01Z", ""], ids=["later", "none"])
def test_an_owner_reference_that_an_apply_may_have_given_back_since_the_deletion_began_proves_nothing(
    time: str,
) -> None:
    assert stay(applied(time)) is None
    assert stay(applied(time), child("other", uid="c-2")) is False


def test_an_apply_in_the_second_of_the_deletion_counts_as_older() -> None:
    assert stay(applied("2026-01-01T00:00:00Z")) is False


def test_a_child_without_its_content_proves_as_much_as_a_whole_one() -> None:
    assert stay(child().as_partial()) is False
    assert stay(applied("2026-01-01T00:00:01Z").as_partial()) is None


def test_a_child_decides_as_it_is_read_and_not_as_a_watch_showed_it_before() -> None:
    leaving = parent(deletionTimestamp="2026-01-01T00:00:00Z")
    seen = child()
    known = observed(seen, parent=leaving, records=RECORDS)
    assert proof_of_deletion(known, None) is seen
    assert children_stay(known, None, child(ownerReferences=[])) is None
    assert children_stay(known, None, None) is None


def test_no_child_is_read_if_it_decides_nothing() -> None:
    begun = ParentRecords(has_finalizer=True, once_records={f"{HOOK}Job.batch/default/bye": "done"})
    leaving = parent(deletionTimestamp="2026-01-01T00:00:00Z")
    assert proof_of_deletion(observed(child(), parent=leaving, records=RECORDS), False) is None
    assert proof_of_deletion(observed(child(), parent=leaving, records=begun), None) is None


def test_a_deletion_in_the_foreground_takes_the_children_with_it() -> None:
    assert stay(finalizers=["ssa-operator.dev/cleanup", "foregroundDeletion"]) is False


def test_a_deletion_that_has_begun_goes_on() -> None:
    begun = ParentRecords(
        inventory={ROLE: 1}, has_finalizer=True, once_records={f"{HOOK}Job.batch/default/bye": "done"}
    )
    assert stay(records=begun) is False


@pytest.mark.parametrize("own", [(), (child(ownerReferences=[]),)], ids=["no owned child", "lost references"])
def test_without_a_proof_a_user_decides(own: tuple[LiveObject, ...]) -> None:
    assert stay(*own) is None
    assert stay(*own, annotations={ANNOTATION: "Delete"}) is False
    assert stay(*own, annotations={ANNOTATION: "Orphan"}) is True
    assert stay(*own, annotations={ANNOTATION: "delete"}) is None


def test_the_message_names_the_children_and_both_commands() -> None:
    leaving = parent(deletionTimestamp="2026-01-01T00:00:00Z", annotations={ANNOTATION: "maybe"})
    message = undecided_message(observed(parent=leaving, records=RECORDS))
    assert (
        "`kubectl annotate Echo.example.com web --namespace=default --overwrite ssa-operator.dev/deletion=" in message
    )
    for part in (
        "deletion=Delete`",
        "deletion=Orphan` leaves them: ClusterRole default-web",
        "'maybe'",
    ):
        assert part in message
