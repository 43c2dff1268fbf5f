"""What is told as events, and which of them are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import StatusFields
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.plan import Plan, make_plan
from ssa_operator.core.planning.step import Action, FailureReason, Step
from ssa_operator.core.policies.field_conflicts import FieldChange, ForeignChange
from ssa_operator.core.redaction.report import redacted_report
from ssa_operator.core.redaction.secret_values import HIDDEN, Redactor
from ssa_operator.core.status.event_aggregation import (
    BURST,
    HEARTBEAT,
    LULL,
    PARENT_BURST,
    PARENT_PAUSE,
    Correlator,
    Dropped,
    Write,
)
from ssa_operator.core.status.events import NOTE_LIMIT, Event, body, bounded, events, series_body
from ssa_operator.core.status.report import Report, make_report, with_notice
from tests.core.example_objects import child, config_map, observed, parent, rendered

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z."""


def plan_of(*names: str) -> Plan:
    return make_plan(observed(), rendered(*(config_map(name) for name in names)))


def reported(plan: Plan, *outcomes: Outcome) -> Report:
    return make_report(parent(), plan, outcomes, StatusFields(), NOON)


def done(result: Result, *names: str, **fields: Any) -> Report:
    plan = plan_of(*names)
    return reported(
        plan, *(Outcome(step=step, result=result, live=child(step.identity.name), **fields) for step in plan.steps)
    )


def said(report: Report, before: Report | None = None, of: LiveObject | None = None) -> list[tuple[str, str]]:
    return [(event.reason, event.note) for event in events(before, of or parent(), report)]


def test_children_that_are_made_in_one_pass_are_one_event() -> None:
    found = said(done(Result.CREATED, "a", "b"))
    assert found[0] == ("Created", "created ConfigMap default/a, ConfigMap default/b")


def test_a_pass_that_changed_nothing_tells_nothing() -> None:
    report = done(Result.UNCHANGED, "a")
    assert said(report, before=report) == []


def test_what_a_former_process_told_is_not_told_again() -> None:
    report = done(Result.UNCHANGED, "a")
    assert said(report, of=parent(status=report.status)) == []


def test_ready_is_told_when_it_comes_and_not_when_its_words_change() -> None:
    one, two = done(Result.UNCHANGED, "a"), done(Result.UNCHANGED, "a", "b")
    assert said(one) == [("Ready", "ConfigMap default/a is ready")]
    assert said(two, before=one) == []


def test_a_failure_is_a_warning_with_the_verdicts_reason_and_words() -> None:
    plan = plan_of("a")
    failed = Outcome(step=plan.steps[0], result=Result.FAILED, message="no", problem=FailureReason.APPLY_FAILED)
    report = reported(plan, failed)
    (event,) = events(None, parent(), report)
    assert (event.reason, event.warning) == ("ApplyFailed", True)
    assert event.note.endswith("no")
    assert said(report, before=report) == []


def test_what_comes_and_goes_by_itself_is_not_told() -> None:
    plan = plan_of("a")
    waiting = Outcome(step=plan.steps[0], result=Result.WAITING, message="waits")
    assert said(reported(plan, waiting)) == []


def test_a_repair_says_who_changed_which_field() -> None:
    take = FieldChange(manager="kubectl-edit", operation="Update", fields=("data.a",))
    plan = plan_of("a")
    change = ForeignChange((take,))
    step = Step(
        action=Action.APPLY,
        identity=plan.steps[0].identity,
        reason=change.text(),
        manifest=plan.steps[0].manifest,
        foreign_change=change,
    )
    report = reported(plan, Outcome(step=step, result=Result.CONFIGURED, live=child("a")))
    assert said(report)[0] == ("Repaired", "put ConfigMap default/a back: kubectl-edit (Update) changed data.a")


def test_a_warning_of_the_api_server_is_told_of_its_child() -> None:
    found = said(done(Result.UNCHANGED, "a", warnings=("v1 Old is deprecated",)))
    assert found[0] == ("APIWarning", "ConfigMap default/a: v1 Old is deprecated")


def test_somebody_who_rewrites_the_status_is_told_once() -> None:
    quiet = done(Result.UNCHANGED, "a")
    loud = with_notice(quiet, "rival repeatedly overwrites this status")
    assert said(loud, before=quiet) == [("StatusConflict", "rival repeatedly overwrites this status")]
    assert said(loud, before=loud) == []


def test_the_event_object_is_what_the_api_server_takes() -> None:
    event = Event(reason="Created", action="Create", note="n", about=child())
    made = body(event, parent(), "pod-1", NOON)
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


def test_events_of_cluster_scoped_parents_are_in_the_namespace_default_and_have_a_legal_name() -> None:
    role = LiveObject.of(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a:b"}}
    )
    metadata = body(Event(reason="R", action="A", note=""), role, "i", NOON)["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["name"].startswith("ssa-operator.")


@given(st.text(max_size=3000))
def test_a_note_is_cut_to_the_bytes_that_the_api_server_takes(text: str) -> None:
    cut = bounded(text)
    assert len(cut.encode()) <= NOTE_LIMIT
    assert cut == text or text.startswith(cut[:-1])


CREATED = Event(reason="Created", action="Create", note="created a")
FAILED = Event(reason="ApplyFailed", action="Reconcile", note="no", warning=True)


def correlator() -> Correlator:
    return Correlator("pod-1", NOON)


def test_the_same_event_is_written_once_and_then_counted() -> None:
    found = correlator()
    first = found.tell(parent(), CREATED, NOON)
    second = found.tell(parent(), CREATED, NOON + 1)
    assert first is not None
    assert first.body is not None
    assert second is not None
    assert (second.name, second.body) == (first.name, None)
    assert second.series is not None
    assert series_body(second.series) == {"series": {"count": 2, "lastObservedTime": "2026-01-01T12:00:01.000000Z"}}


def test_a_count_is_written_at_most_once_each_heartbeat_and_at_the_end() -> None:
    found = correlator()
    writes = [found.tell(parent(), CREATED, NOON + second) for second in range(int(HEARTBEAT))]
    assert sum(1 for write in writes if write is not None) == 2
    assert list(found.due(NOON + HEARTBEAT - 1)) == []
    (end,) = found.due(NOON + HEARTBEAT - 1, end=True)
    assert end.series is not None
    assert end.series.count == HEARTBEAT


def test_an_event_that_comes_again_after_a_lull_is_a_new_one() -> None:
    found = correlator()
    first, later = found.tell(parent(), CREATED, NOON), found.tell(parent(), CREATED, NOON + LULL + 1)
    assert first is not None
    assert later is not None
    assert later.body is not None
    assert later.name != first.name


def test_an_event_that_is_gone_is_made_anew() -> None:
    found = correlator()
    first = found.tell(parent(), CREATED, NOON)
    assert first is not None
    found.forget(first.namespace, first.name)
    again = found.tell(parent(), CREATED, NOON + 1)
    assert again is not None
    assert again.body is not None


def told(found: Correlator, of: LiveObject, event: Event, now: float) -> Write | None:
    try:
        return found.tell(of, event, now)
    except Dropped:
        return None


def numbered(number: int, warning: bool = False) -> Event:
    return Event(reason="Changed", action="Apply", note=f"changed {number}", warning=warning)


def test_one_parent_has_a_small_number_of_events_and_then_one_in_a_while() -> None:
    found = correlator()
    writes = [told(found, parent(), numbered(number), NOON) for number in range(100)]
    assert sum(1 for write in writes if write is not None) == PARENT_BURST
    assert told(found, parent(), numbered(100), NOON + PARENT_PAUSE) is not None
    assert told(found, parent(), numbered(101), NOON + PARENT_PAUSE) is None


def test_a_thousand_parents_at_once_cost_a_bounded_number_of_events_and_leave_room_for_warnings() -> None:
    found = correlator()
    parents = [parent(uid=str(number), name=f"web-{number}") for number in range(1000)]
    writes = [told(found, each, CREATED, NOON) for each in parents]
    assert sum(1 for write in writes if write is not None) == BURST * 3 / 4
    warnings = [told(found, each, FAILED, NOON) for each in parents]
    assert sum(1 for write in warnings if write is not None) == BURST / 4


def test_what_changes_without_end_is_told_once_and_without_a_secrets_content() -> None:
    plan = make_plan(observed(), rendered(config_map()))
    step = replace(plan.steps[0], feedback_loop="ConfigMap default/hunter2-x changes each time")
    found = make_report(
        parent(), plan, (Outcome(step=step, result=Result.UNCHANGED, live=child()),), StatusFields(), NOON
    )
    found = redacted_report(found, Redactor(frozenset({"hunter2-x"}), str), ())
    note = f"ConfigMap default/{HIDDEN} changes each time"
    assert [(each.note, each.warning) for each in events(None, parent(), found) if each.reason == "EndlessChange"] == [
        (note, True)
    ]
    assert not [each for each in events(found, parent(), found) if each.reason == "EndlessChange"]
    assert note in found.verdict.message
