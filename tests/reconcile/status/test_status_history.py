"""What a process remembers of the status that it wrote."""

from __future__ import annotations

from typing import Any

from ssa_operator.objects.json_codec import EncodedMapping
from ssa_operator.reconcile.field_conflicts.history import ConflictPolicy
from ssa_operator.reconcile.status.report import Report
from ssa_operator.reconcile.status.status_history import StatusHistory, after_match, after_write, observe_status
from ssa_operator.reconcile.status.verdict import Verdict
from tests.objects.example_objects import parent


def _written(reported: dict[str, Any], status: dict[str, Any]) -> EncodedMapping:
    """What is remembered of a written status, after a report of another one was kept."""
    verdict = Verdict(ready=True, reason="Ready", message="")
    report = Report(status=EncodedMapping(reported), verdict=verdict, children=(), complete=True)
    history = after_write(StatusHistory(report=report), status, parent(), 0.0)
    assert history.written is not None
    assert history.report is not None
    assert isinstance(history.written.desired, EncodedMapping)
    assert isinstance(history.report.status, EncodedMapping)
    assert (history.written.desired.encoded is history.report.status.encoded) is (str(reported) == str(status))
    return history.written.desired


def test_a_status_is_remembered_as_it_was_written_also_where_python_takes_its_values_for_equal() -> None:
    assert _written({"found": 1}, {"found": True})["found"] is True
    assert str(_written({"share": 1}, {"share": 1.0})["share"]) == "1.0"


def test_a_status_that_is_also_the_reported_one_is_in_memory_once() -> None:
    assert _written({"found": True}, {"found": True}) == {"found": True}


def test_a_status_of_another_operator_that_this_one_agrees_with_is_one_change_however_often_it_is_seen() -> None:
    ours, theirs = parent(status={"appliedTemplates": "ours"}), parent(status={"appliedTemplates": "theirs"})
    history = after_write(StatusHistory(), {"appliedTemplates": "ours"}, ours, 0.0)
    for moment in range(1, 9):
        history = observe_status(history, theirs, float(moment), ConflictPolicy(allowed_changes=3))
        history = after_match(history, {"appliedTemplates": "theirs"}, theirs, float(moment))
    assert history.conflict is not None
    assert len(history.conflict.changes) == 1
    assert not history.conflict.in_conflict
