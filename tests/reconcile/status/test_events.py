"""The Events of a reconcile, and which of them are written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import StatusFields
from ssa_operator.objects.secret_fields import ParentSecrets, SecretFields
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.field_conflicts.history import ConflictingChange, ForeignChange
from ssa_operator.reconcile.plan import Plan, make_plan
from ssa_operator.reconcile.secrets.redacted_report import NOT_SHOWN, redacted_outcomes
from ssa_operator.reconcile.status.event_aggregation import (
    BURST,
    HEARTBEAT,
    PARENT_BURST,
    PARENT_INTERVAL,
    SERIES_FINISH_TIME,
    EventCorrelator,
    EventDropped,
    Moment,
    Write,
)
from ssa_operator.reconcile.status.events import NOTE_LIMIT, Event, bounded_note, event_body, events, series_body
from ssa_operator.reconcile.status.report import Report, make_report, with_notice
from tests.objects.example_objects import child, config_map, observed, parent, rendered

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z."""


def plan_of(*names: str) -> Plan:
    return make_plan(observed(), rendered(*(config_map(name) for name in names)))


def reported(plan: Plan, *outcomes: Child) -> Report:
    return make_report(parent(), plan, outcomes, StatusFields(), NOON)


def done(result: Result, *names: str, **fields: Any) -> Report:
    plan = plan_of(*names)
    return reported(plan, *(step.ended(result, live=child(step.identity.name), **fields) for step in plan.steps))


def emitted(report: Report, before: Report | None = None, of: LiveObject | None = None) -> list[tuple[str, str]]:
    return [(event.reason, event.note) for event in events(before, of or parent(), report)]


def test_children_that_one_reconcile_creates_are_one_event() -> None:
    found = emitted(done(Result.CREATED, "a", "b"))
    assert found[0] == ("Created", "created ConfigMap default/a, ConfigMap default/b")


def test_a_reconcile_that_changes_nothing_emits_no_event() -> None:
    report = done(Result.UNCHANGED, "a")
    assert emitted(report, before=report) == []


def test_a_verdict_that_a_former_process_reported_is_not_emitted_again() -> None:
    report = done(Result.UNCHANGED, "a")
    assert emitted(report, of=parent(status=report.status)) == []


def test_ready_is_emitted_when_the_parent_becomes_ready_and_not_when_the_message_changes() -> None:
    one, two = done(Result.UNCHANGED, "a"), done(Result.UNCHANGED, "a", "b")
    assert emitted(one) == [("Ready", "ConfigMap default/a is ready")]
    assert emitted(two, before=one) == []


def test_a_failure_is_a_warning_with_the_reason_and_message_of_the_verdict() -> None:
    plan = plan_of("a")
    failed = plan.steps[0].ended(Result.FAILED, message="no", problem=FailureReason.APPLY_FAILED)
    report = reported(plan, failed)
    (event,) = events(None, parent(), report)
    assert (event.reason, event.warning) == ("ApplyFailed", True)
    assert event.note.endswith("no")
    assert emitted(report, before=report) == []


def test_a_transient_reason_emits_no_event() -> None:
    plan = plan_of("a")
    waiting = plan.steps[0].ended(Result.WAITING, message="waits")
    assert emitted(reported(plan, waiting)) == []


def test_a_repair_names_the_manager_and_the_field() -> None:
    take = ConflictingChange(manager="kubectl-edit", operation="Update", fields=("data.a",))
    plan = plan_of("a")
    change = ForeignChange((take,))
    step = Child(
        action=Action.APPLY,
        identity=plan.steps[0].identity,
        reason=change.text(),
        manifest=plan.steps[0].manifest,
        foreign_change=change,
    )
    report = reported(plan, step.ended(Result.CONFIGURED, live=child("a")))
    assert emitted(report)[0] == ("Repaired", "reverted ConfigMap default/a: kubectl-edit (Update) changed data.a")


def test_a_warning_of_the_api_server_is_emitted_with_its_child() -> None:
    found = emitted(done(Result.UNCHANGED, "a", warnings=("v1 Old is deprecated",)))
    assert found[0] == ("APIWarning", "ConfigMap default/a: v1 Old is deprecated")


def test_a_status_conflict_is_emitted_once() -> None:
    quiet = done(Result.UNCHANGED, "a")
    loud = with_notice(quiet, "rival repeatedly overwrites this status")
    assert emitted(loud, before=quiet) == [("StatusConflict", "rival repeatedly overwrites this status")]
    assert emitted(loud, before=loud) == []


def test_the_event_object_has_the_fields_that_the_api_server_wants() -> None:
    event = Event(reason="Created", action="Create", note="n", about=child())
    made = event_body(event, parent(), "pod-1", NOON)
    metadata = made.pop("metadata")
    assert metadata["namespace"] == "default"
    assert metadata["name"].startswith("web.")
    assert made == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-01T12:00:00.000000Z",
        "reportingController": "ssa-operator",
        "reportingInstance": "pod-1",
        "type": "Normal",
        "reason": "Created",
        "action": "Create",
        "note": "n",
        "regarding": {
            "apiVersion": "example.com/v1",
            "kind": "Echo",
            "namespace": "default",
            "name": "web",
            "uid": parent().uid,
        },
        "related": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": "default",
            "name": "settings",
            "uid": "c-1",
        },
    }


def test_events_of_cluster_scoped_parents_are_in_the_namespace_default_and_have_a_valid_name() -> None:
    role = LiveObject.of(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a:b"}}
    )
    metadata = event_body(Event(reason="R", action="A", note=""), role, "i", NOON)["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["name"].startswith("ssa-operator.")


@given(st.text(max_size=3000))
def test_a_note_is_cut_to_the_bytes_that_the_api_server_allows(text: str) -> None:
    cut = bounded_note(text)
    assert len(cut.encode()) <= NOTE_LIMIT
    assert cut == text or text.startswith(cut[:-1])


CREATED = Event(reason="Created", action="Create", note="created a")
FAILED = Event(reason="ApplyFailed", action="Reconcile", note="no", warning=True)


def at(seconds: float, *, stepped: float = 0.0) -> Moment:
    """A moment; `stepped`: the seconds by which the wall clock was set."""
    return Moment(seconds + stepped, seconds)


def correlator() -> EventCorrelator:
    return EventCorrelator("pod-1", NOON)


def test_the_same_event_is_written_once_and_then_counted() -> None:
    found = correlator()
    first = found.correlate(parent(), CREATED, at(NOON))
    second = found.correlate(parent(), CREATED, at(NOON + 1))
    assert first is not None
    assert first.body is not None
    assert second is not None
    assert (second.name, second.body) == (first.name, None)
    assert second.series is not None
    assert series_body(second.series) == {"series": {"count": 2, "lastObservedTime": "2026-01-01T12:00:01.000000Z"}}


def test_a_count_is_written_at_most_once_each_heartbeat_and_at_the_end() -> None:
    found = correlator()
    writes = [found.correlate(parent(), CREATED, at(NOON + second)) for second in range(int(HEARTBEAT))]
    assert sum(1 for write in writes if write is not None) == 2
    assert list(found.due_series(NOON + HEARTBEAT - 1)) == []
    (end,) = found.due_series(NOON + HEARTBEAT - 1, end=True)
    assert end.series is not None
    assert end.series.count == HEARTBEAT


def test_an_event_that_repeats_after_its_series_is_over_is_a_new_one() -> None:
    found = correlator()
    first, later = (
        found.correlate(parent(), CREATED, at(NOON)),
        found.correlate(parent(), CREATED, at(NOON + SERIES_FINISH_TIME + 1)),
    )
    assert first is not None
    assert later is not None
    assert later.body is not None
    assert later.name != first.name


def test_an_event_that_no_longer_exists_is_created_again() -> None:
    found = correlator()
    first = found.correlate(parent(), CREATED, at(NOON))
    assert first is not None
    found.forget(first.namespace, first.name)
    again = found.correlate(parent(), CREATED, at(NOON + 1))
    assert again is not None
    assert again.body is not None


def write_of(found: EventCorrelator, of: LiveObject, event: Event, now: float) -> Write | None:
    try:
        return found.correlate(of, event, at(now))
    except EventDropped:
        return None


def numbered(number: int, warning: bool = False) -> Event:
    return Event(reason="Changed", action="Apply", note=f"changed {number}", warning=warning)


def test_one_parent_has_a_burst_of_events_and_then_one_each_interval() -> None:
    found = correlator()
    writes = [write_of(found, parent(), numbered(number), NOON) for number in range(100)]
    assert sum(1 for write in writes if write is not None) == PARENT_BURST
    assert write_of(found, parent(), numbered(100), NOON + PARENT_INTERVAL) is not None
    assert write_of(found, parent(), numbered(101), NOON + PARENT_INTERVAL) is None


@pytest.mark.parametrize("stepped", [-3600.0, 3600.0])
def test_a_wall_clock_that_is_set_neither_drops_events_nor_ends_a_series(stepped: float) -> None:
    found = correlator()
    assert found.correlate(parent(), CREATED, at(NOON)) is not None
    other = found.correlate(parent(), numbered(1), at(NOON + 1, stepped=stepped))
    assert other is not None
    assert other.body is not None
    again = found.correlate(parent(), CREATED, at(NOON + 1, stepped=stepped))
    assert again is not None
    assert again.series is not None
    assert again.series.count == 2
    assert list(found.due_series(NOON + 1)) == []
    warnings = [found.correlate(parent(uid=f"{number}"), FAILED, at(NOON + 2, stepped=stepped)) for number in range(50)]
    assert None not in warnings


def test_a_thousand_parents_at_once_cost_a_bounded_number_of_events_and_leave_room_for_warnings() -> None:
    found = correlator()
    parents = [parent(uid=str(number), name=f"web-{number}") for number in range(1000)]
    writes = [write_of(found, each, CREATED, NOON) for each in parents]
    assert sum(1 for write in writes if write is not None) == BURST * 3 / 4
    warnings = [write_of(found, each, FAILED, NOON) for each in parents]
    assert sum(1 for write in warnings if write is not None) == BURST / 4


def test_a_feedback_loop_is_emitted_once_and_without_the_name_that_a_secret_gives() -> None:
    plan = make_plan(observed(), rendered(config_map()))
    step = replace(plan.steps[0], feedback_loop="ConfigMap default/hunter2-x changes each time")
    secrets = ParentSecrets(children={step.identity: SecretFields((("metadata", "name"),))})
    outcomes = redacted_outcomes([step.ended(Result.UNCHANGED, live=child())], secrets)
    found = make_report(parent(), plan, outcomes, StatusFields(), NOON)
    assert [(each.note, each.warning) for each in events(None, parent(), found) if each.reason == "EndlessChange"] == [
        (NOT_SHOWN, True)
    ]
    assert not [each for each in events(found, parent(), found) if each.reason == "EndlessChange"]
    assert NOT_SHOWN in found.verdict.message
    assert step.identity.name not in f"{found.verdict} {found.status}"
