"""The Events of a reconcile, and which of them are written."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.kube.api.request import Request
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import StatusFields
from ssa_operator.objects.scalars import micro_time
from ssa_operator.objects.secret_fields import ParentSecrets, SecretFields
from ssa_operator.reconcile.child import Action, Child, FailureReason, Result
from ssa_operator.reconcile.field_conflicts.history import ConflictingChange, ForeignChange
from ssa_operator.reconcile.plan import Plan, make_plan
from ssa_operator.reconcile.secrets.redacted_report import NOT_SHOWN, redacted_outcomes
from ssa_operator.reconcile.status.event_requests import (
    HEARTBEAT,
    PARENT_LIMIT,
    QUEUE_LIMIT,
    RATE,
    SERIES_FINISH_TIME,
    Recorder,
)
from ssa_operator.reconcile.status.events import NOTE_LIMIT, Event, bounded_note, event_body, events
from ssa_operator.reconcile.status.report import Report, make_report
from tests.kube.fakes import StillClock
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
    plan = plan_of("a", "b")
    report = reported(plan, *(step.ended(Result.CREATED, message="") for step in plan.steps))
    assert emitted(report) == [("Created", "created ConfigMap default/a, ConfigMap default/b")]


def test_children_that_make_their_parent_ready_at_once_are_one_event() -> None:
    note = "created ConfigMap default/a, ConfigMap default/b; all 2 children are ready"
    assert emitted(done(Result.CREATED, "a", "b")) == [("Created", note)]
    before = done(Result.CREATED, "a")
    assert emitted(done(Result.CREATED, "b"), before=before) == [("Created", "created ConfigMap default/b")]


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
    note = "reverted ConfigMap default/a: kubectl-edit (Update) changed data.a"
    assert emitted(report, before=done(Result.UNCHANGED, "a")) == [("Repaired", note)]


def test_a_warning_of_the_api_server_is_emitted_with_its_child() -> None:
    found = emitted(done(Result.UNCHANGED, "a", warnings=("v1 Old is deprecated",)))
    assert found[0] == ("APIWarning", "ConfigMap default/a: v1 Old is deprecated")


def test_a_status_conflict_is_emitted_once() -> None:
    quiet = done(Result.UNCHANGED, "a")
    loud = replace(quiet, notice="rival repeatedly overwrites this status")
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


class _Client:
    """Keeps the bodies of the requests."""

    def __init__(self, *failures: Exception) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._failures = [*failures]

    async def send(self, request: Request) -> None:
        if self._failures:
            raise self._failures.pop(0)
        assert request.idempotent
        self.bodies.append(json.loads(request.body or b""))


class _Recorded:
    """A recorder whose clock stands still."""

    def __init__(self, *failures: Exception) -> None:
        self.client, self.clock, self.results = _Client(*failures), StillClock(), Counter[str]()
        self.rate_reached = asyncio.Event()
        self.recorder = Recorder(cast(Client, self.client), self._count, self._no_parent_waits, self.clock)

    def emit(self, event: Event, of: LiveObject | None = None, after: float = 0.0) -> None:
        self.clock.time += after
        self.recorder.emit(of or parent(), [event])

    async def drained(self) -> list[dict[str, Any]]:
        """The bodies of what is written now, and not for an end of the operator."""
        del self.client.bodies[:]
        await self.recorder._drain()
        return self.client.bodies

    def _count(self, result: str) -> None:
        self.results[result] += 1
        if self.results["written"] == RATE:
            self.rate_reached.set()

    @staticmethod
    async def _no_parent_waits() -> None:
        return


async def test_the_same_event_is_written_once_and_then_counted_at_most_once_each_heartbeat() -> None:
    recorded = _Recorded()
    recorded.emit(CREATED)
    (first,) = await recorded.drained()
    recorded.emit(CREATED, after=HEARTBEAT - 2)
    recorded.emit(CREATED, after=1)
    assert await recorded.drained() == []
    recorded.clock.time += 1
    (count,) = await recorded.drained()
    assert (first["note"], "series" in first, [*count]) == ("created a", False, ["series"])
    assert count["series"] == {"count": 3, "lastObservedTime": micro_time(recorded.clock.time - 1)}
    assert await recorded.drained() == []


async def test_an_event_that_repeats_before_it_is_written_is_one_request() -> None:
    recorded = _Recorded()
    for _ in range(5):
        recorded.emit(CREATED)
    (event,) = await recorded.drained()
    assert (event["note"], event["series"]["count"]) == ("created a", 5)


async def test_an_event_that_repeats_after_its_series_is_over_is_a_new_one() -> None:
    recorded = _Recorded()
    recorded.emit(CREATED)
    (first,) = await recorded.drained()
    recorded.emit(CREATED, after=SERIES_FINISH_TIME + 1)
    (later,) = await recorded.drained()
    assert later["metadata"]["name"] != first["metadata"]["name"]


async def test_the_last_count_of_a_series_is_written_when_it_is_over() -> None:
    recorded = _Recorded()
    recorded.emit(CREATED)
    await recorded.drained()
    recorded.emit(CREATED)
    recorded.clock.time += SERIES_FINISH_TIME + 1
    (count,) = await recorded.drained()
    assert (count["series"]["count"], await recorded.drained()) == (2, [])
    assert recorded.recorder._series == {}


@pytest.mark.parametrize("error", [ApiError("create", ErrorStatus(code=404, reason="NotFound")), TypeError()])
async def test_an_event_that_could_not_be_written_is_created_again(error: Exception) -> None:
    recorded = _Recorded(error)
    recorded.emit(CREATED)
    assert await recorded.drained() == []
    recorded.emit(CREATED)
    assert [each["note"] for each in await recorded.drained()] == ["created a"]
    assert recorded.results == {"failed": 1, "written": 1}


@pytest.mark.parametrize("stepped", [-3600.0, 3600.0])
async def test_a_wall_clock_that_is_set_neither_drops_events_nor_ends_a_series(stepped: float) -> None:
    recorded = _Recorded()
    recorded.emit(CREATED)
    recorded.clock.stepped = stepped
    recorded.emit(numbered(1), after=1)
    recorded.emit(CREATED)
    assert [each.get("series", {}).get("count") for each in await recorded.drained()] == [2, None]


def numbered(number: int) -> Event:
    return Event(reason="Changed", action="Apply", note=f"changed {number}")


async def test_many_events_wait_for_their_turns_and_warnings_come_first() -> None:
    recorded = _Recorded()
    parents = [parent(uid=str(number), name=f"web-{number}") for number in range(QUEUE_LIMIT + 5)]
    for each in parents:
        recorded.emit(CREATED, each)
    recorded.emit(FAILED)
    assert recorded.results == {"dropped": 6}
    writing = asyncio.create_task(recorded.recorder._drain())
    await recorded.rate_reached.wait()
    assert recorded.client.bodies[0]["note"] == "no"
    await recorded.recorder.close(writing)
    assert recorded.results == {"dropped": 6, "written": QUEUE_LIMIT}


def test_one_parent_has_a_part_of_the_queue() -> None:
    recorded = _Recorded()
    for number in range(100):
        recorded.emit(numbered(number))
    recorded.emit(numbered(0), parent(uid="other"))
    assert recorded.results == {"dropped": 100 - PARENT_LIMIT}


async def test_an_event_that_was_dropped_is_written_when_it_repeats() -> None:
    recorded = _Recorded()
    for number in range(QUEUE_LIMIT):
        recorded.emit(FAILED, parent(uid=str(number)))
    recorded.emit(CREATED)
    recorded.recorder._queue.clear()
    recorded.emit(CREATED)
    assert [each["note"] for each in await recorded.drained()] == ["created a"]


def test_an_event_is_about_its_only_child_unless_a_secret_gives_that_its_name() -> None:
    plan, live = plan_of("hunter2"), child("hunter2")
    outcome = plan.steps[0].ended(Result.CREATED, live=live)
    hidden = ParentSecrets(children={outcome.identity: SecretFields((("metadata", "name"),))})
    for secrets, about in ((ParentSecrets(), live), (hidden, None)):
        found = events(None, parent(), reported(plan, *redacted_outcomes([outcome], secrets)))
        (created,) = [each for each in found if each.reason == "Created"]
        assert created.about is about
        assert ("hunter2" in created.note) is (about is live)


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


def test_no_text_of_an_outcome_is_shown_whose_object_a_secret_names() -> None:
    texts: dict[str, Any] = dict.fromkeys(("reason", "why_kept", "conflict", "feedback_loop", "message"), "hunter2")
    step = replace(plan_of("a").steps[0], warnings=("hunter2",), **texts)
    secrets = ParentSecrets(children={step.identity: SecretFields((("metadata", "name"),))})
    (shown,) = redacted_outcomes([step], secrets)
    assert {*(getattr(shown, name) for name in texts), *shown.warnings} == {NOT_SHOWN}
