"""Records that another client removed: all at once by mistake, one of them on purpose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.parent_records.lost_records import (
    are_lost,
    record_texts,
    restored_notice,
    unknown_notice,
    were_lost,
)
from ssa_operator.reconcile.parent_records.requests import restore_parent_records
from ssa_operator.reconcile.parent_records.rules import (
    APPLIED_ANNOTATION,
    INVENTORY_ANNOTATION,
    ONCE_ANNOTATION,
    ParentRecords,
    read_parent_records,
    records_patch,
    texts_of,
)
from ssa_operator.reconcile.parent_state import ParentState
from tests.reconcile.parent_records.test_rules import RECORDS, parent, patched, recorded


@given(RECORDS)
def test_lost_records_are_put_back_as_they_were(records: ParentRecords) -> None:
    live = recorded(records)
    texts = record_texts(live)
    assert texts == texts_of(records)
    lost = parent(annotations={"a/note": "x"}, finalizers=["a/z"])
    assert are_lost(texts, lost) is (records != ParentRecords())
    assert read_parent_records(patched(lost, records_patch(lost, texts))) == records
    assert not are_lost(texts, live)


@given(RECORDS, st.sets(st.sampled_from([FINALIZER, INVENTORY_ANNOTATION, ONCE_ANNOTATION, APPLIED_ANNOTATION])))
def test_records_are_not_lost_while_one_of_them_is_there(records: ParentRecords, removed: set[str]) -> None:
    texts = record_texts(recorded(records))
    left = {name: text for name, text in texts.items() if name not in removed}
    assume(left)
    assert not are_lost(texts, patched(parent(), records_patch(parent(), left)))


def test_a_parent_that_is_being_deleted_gets_no_records_back() -> None:
    assert not are_lost({FINALIZER: ""}, parent(deletionTimestamp="2026-01-01T00:00:00Z"))


def test_a_process_without_memory_knows_a_loss_by_the_children() -> None:
    assert were_lost(parent(), has_children=True)
    assert not were_lost(parent(), has_children=False)
    assert not were_lost(parent(annotations={APPLIED_ANNOTATION: "{}"}), has_children=True)
    assert not were_lost(parent(deletionTimestamp="2026-01-01T00:00:00Z"), has_children=True)


def test_a_notice_names_what_was_lost_and_what_stays() -> None:
    notice = restored_notice({ONCE_ANNOTATION: "{}", FINALIZER: ""}, 100.0)
    assert ONCE_ANNOTATION in notice.message
    assert FINALIZER in notice.message
    assert notice.until > 100.0
    assert "ClusterRole r" in unknown_notice([Identity("rbac.authorization.k8s.io", "ClusterRole", "", "r")], 0).message


@pytest.mark.parametrize(("version", "restored"), [("90", False), ("100", True), ("110", True)])
async def test_records_of_a_later_state_than_the_parent_has_are_not_put_back(version: str, restored: bool) -> None:
    """A restore of etcd took the cluster back to before the records: what was applied once then isn't there now."""
    written = []

    class Client:
        async def merge_patch(self, *arguments: Any, **_: Any) -> LiveObject:
            written.append(arguments)
            return live

    once = {ONCE_ANNOTATION: '{"ConfigMap/default/web-once":"d1 ready"}'}
    live = parent(resourceVersion=version)
    reconcile = Reconcile(
        cluster=cast(Any, SimpleNamespace(operator_client=Client())),
        client=cast(Any, None),
        uid=live.uid,
        parent=Parent(
            live=live,
            folder=cast(Any, None),
            resource=cast(Any, None),
            writes_status=True,
            status_schema=None,
            shows_conditions=True,
            unreported="",
            cache=Cache(),
        ),
        records=ParentRecords(),
        state=ParentState(records=once, records_version="100", unrecorded_once={"ConfigMap/default/web-more": "d2"}),
        causes=Cause.PARENT,
    )
    await restore_parent_records(reconcile, 0.0)
    assert bool(written) is restored
    assert bool(reconcile.state.records_notice.message) is restored
    assert bool(reconcile.state.unrecorded_once) is restored
