"""When workers requeue a parent, which parents an event requeues, and which status and log lines they write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api.backoff import BACKOFF_BASE
from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import Readiness, ReadinessState
from ssa_operator.operator.event_router import EventRouter
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.repeated_lines import KINDS, WINDOW, RepeatedLines
from ssa_operator.operator.suspected_parents import ParentFile, Suspect, SuspectedParents, Version
from ssa_operator.operator.workers import DENIED_RETRIES, Workers
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.reconcile.reconciler import Reconciled, Reconciler
from ssa_operator.reconcile.settings import ApplyMode
from ssa_operator.reconcile.status.child_status import ChildStatus
from ssa_operator.reconcile.status.report import Report
from ssa_operator.reconcile.status.verdict import Verdict
from ssa_operator.rendering.folder.loaded_folders import Folder, load
from tests.kube.fakes import StillClock
from tests.objects.example_objects import PARENT_UID, parent

KEY = ParentKey("echoes.example.com", "default", "x")
STEP = Child(action=Action.KEEP, identity=Identity("", "ConfigMap", "default", "a"))
TEMPLATES = Path(__file__).parent.parent.parent / "templates"


class Scripted:
    """The parents of one folder with one parent, and a reconciler whose every reconcile returns the same report."""

    def __init__(self, folder: Folder, report: Report) -> None:
        self.folder = folder
        self.causes: list[Cause] = []
        self.known = ParentState()
        self.kind_changes = 0
        self.defers_status = False
        self.refusal: ApiError | None = None
        self.status_refusal: ApiError | None = None
        self.bug: Exception | None = None
        self.postponed: Reconciled | None = None
        self.written = 0
        self._report = report
        metadata = {"namespace": KEY.namespace, "name": KEY.name, "uid": "1"}
        self._parent = LiveObject.of({"apiVersion": "example.com/v1", "kind": "Echo", "metadata": metadata})

    def reports(self, *outcomes: Child, again_at: float | None = None) -> None:
        """From now on the report has these outcomes, and asks for a render at this moment."""
        retryable = any(outcome.retryable or outcome.denied for outcome in outcomes)
        retry_after = max((outcome.retry_after for outcome in outcomes), default=0.0)
        denied = any(outcome.denied for outcome in outcomes)
        self._report = replace(
            self._report,
            retryable=retryable,
            retry_after=retry_after,
            denied=denied,
            unblocked=denied and any(outcome.result is Result.CREATED for outcome in outcomes),
            again_at=again_at,
        )

    def find(self, namespace: str, name: str) -> LiveObject | None:
        return self._parent if (namespace, name) == (KEY.namespace, KEY.name) else None

    def state(self, _: LiveObject) -> ParentState:
        return self.known

    def save_state(self, _: LiveObject, state: ParentState) -> None:
        self.known = state

    def parent(self, live: LiveObject) -> Any:
        return live

    async def reconcile(self, _: Any, state: ParentState, causes: Cause) -> Reconciled:
        self.causes.append(causes)
        if self.postponed is not None:
            return self.postponed
        if self.bug is not None:
            return Reconciled(state=replace(state, reconcile_at="seen"), error=self.bug)
        status = replace(state.status, report=self._report, deferred={} if self.defers_status else None)
        if self.status_refusal is not None:
            return Reconciled(state=replace(state, status=status), error=self.status_refusal)
        return Reconciled(state=replace(state, status=status), report=self._report)

    async def write_status(self, _: Any, state: ParentState) -> Reconciled:
        self.written += 1
        if self.refusal is not None:
            return Reconciled(state=state, error=self.refusal)
        return Reconciled(state=replace(state, status=replace(state.status, deferred=None)))


def report(*outcomes: Child) -> Report:
    children = tuple(
        ChildStatus(
            identity=Identity("", "ConfigMap", "default", name), uid=name, readiness=Readiness(ReadinessState.CURRENT)
        )
        for name in "abcd"
    )
    verdict = Verdict(ready=True, reason="Ready", message="")
    return Report(status={}, verdict=verdict, children=children, complete=True, outcomes=outcomes)


async def reconciled(
    script: Scripted, queue: Queue[ParentKey], *causes: Cause, now: float = 1000.0, apply: ApplyMode = ApplyMode.ALWAYS
) -> None:
    """Have the parent reconciled for these causes, one after the other, and end the worker."""
    async with working(script, queue, now, apply) as reconcile:
        for cause in causes:
            await reconcile(cause)
    queue.close()


@asynccontextmanager
async def working(
    script: Scripted,
    queue: Queue[ParentKey],
    now: float = 1000.0,
    apply: ApplyMode = ApplyMode.ALWAYS,
    clock: StillClock | None = None,
) -> AsyncIterator[Callable[[Cause], Awaitable[None]]]:
    """A worker with a budget of one apply a second, whose clock stands still. The value reconciles for one cause."""
    clock = StillClock(chance=0.0) if clock is None else clock
    clock.time = now
    workers = Workers(
        queue,
        {KEY.folder: cast("Parents", script)},
        cast("Reconciler", script),
        Metrics(),
        Options(resync_rate=1.0, apply=apply),
        clock,
    )
    task = asyncio.create_task(workers.run())

    async def reconcile(cause: Cause) -> None:
        queue.add(KEY, cause)
        while queue._state._waiting or queue._state._processing:
            assert not task.done()
            await asyncio.sleep(0)

    yield reconcile
    task.cancel()
    await asyncio.wait([task])


def due(queue: Queue[ParentKey], cause: Cause) -> float:
    """The seconds after which the parent is requeued for a cause."""
    return queue._state._delayed[KEY, cause][0]


def scripted(*outcomes: Child, complete: bool = True) -> Scripted:
    return Scripted(load(TEMPLATES).folders[KEY.folder], replace(report(*outcomes), complete=complete))


async def test_a_resync_beyond_the_budget_waits_for_it() -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    await reconciled(script, queue, Cause.CHILD, Cause.RESYNC_DUE, Cause.RESYNC_DUE)
    assert script.causes == [Cause.CHILD, Cause.RESYNC]
    assert queue.is_scheduled(KEY, Cause.RESYNC)


@pytest.mark.exhaustive
async def test_a_reconcile_that_applies_everything_replaces_the_resync_that_waits_for_the_budget() -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    await reconciled(script, queue, Cause.CHILD, Cause.RESYNC_DUE, Cause.RESYNC_DUE, Cause.PARENT)
    assert script.causes[-1] == Cause.PARENT
    assert not queue.is_scheduled(KEY, Cause.RESYNC)
    assert queue.is_scheduled(KEY, Cause.RESYNC_DUE)


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("apply", "complete", "resyncs"),
    [(ApplyMode.ALWAYS, True, True), (ApplyMode.CHANGED, True, False), (ApplyMode.CHANGED, False, True)],
)
async def test_an_unchanged_parent_has_resyncs_only_if_they_apply_everything(
    apply: ApplyMode, complete: bool, resyncs: bool
) -> None:
    script, queue = scripted(complete=complete), Queue[ParentKey](lambda: 0.0)
    await reconciled(script, queue, Cause.PARENT, apply=apply)
    assert queue.is_scheduled(KEY, Cause.RESYNC_DUE) == resyncs


async def test_a_resync_together_with_a_change_of_the_parent_costs_nothing_of_the_budget() -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    await reconciled(script, queue, Cause.CHILD, Cause.PARENT | Cause.RESYNC_DUE, Cause.RESYNC_DUE)
    assert script.causes == [Cause.CHILD, Cause.PARENT, Cause.RESYNC]


async def test_no_resync_begins_within_the_pause_that_the_api_server_asked_for() -> None:
    busy = replace(STEP, result=Result.FAILED, retryable=True, retry_after=60.0)
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    async with working(script, queue) as reconcile:
        await reconcile(Cause.PARENT)
        assert due(queue, Cause.RESYNC_DUE) <= 20.0
        script.reports(busy)
        await reconcile(Cause.CHILD)
    assert due(queue, Cause.RETRY) == 60.0
    assert 60.0 <= due(queue, Cause.RESYNC_DUE) <= 80.0
    assert not queue.is_scheduled(KEY, Cause.RESYNC)


async def test_denied_children_are_retried_at_a_common_rate() -> None:
    denied = replace(STEP, result=Result.FAILED, denied=True)
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    script.reports(denied)
    pauses = []
    async with working(script, queue) as reconcile:
        for _ in range(30):
            queue.cancel(KEY, Cause.RETRY)
            script.known = ParentState()  # as if each time it was another parent
            await reconcile(Cause.PARENT)
            pauses.append(due(queue, Cause.RETRY))
    assert pauses[0] == BACKOFF_BASE
    assert pauses[-1] - pauses[-11] == pytest.approx(10 / DENIED_RETRIES)


async def test_a_failure_that_passes_is_retried_at_no_common_rate() -> None:
    failed = STEP.ended(Result.FAILED, retryable=True)
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    script.reports(failed)
    async with working(script, queue) as reconcile:
        for _ in range(30):
            queue.cancel(KEY, Cause.RETRY)
            script.known = ParentState()
            await reconcile(Cause.PARENT)
            assert due(queue, Cause.RETRY) == BACKOFF_BASE


async def test_the_pauses_of_a_denied_child_grow_and_begin_anew_once_another_child_was_created() -> None:
    denied = replace(STEP, result=Result.FAILED, denied=True)
    script, queue, clock = scripted(), Queue[ParentKey](lambda: 0.0), StillClock(chance=0.0)
    script.reports(denied)
    async with working(script, queue, clock=clock) as reconcile:
        for failures in range(6):
            queue.cancel(KEY, Cause.RETRY)
            await reconcile(Cause.CHILD)
            assert due(queue, Cause.RETRY) == BACKOFF_BASE * 2**failures
        script.reports(denied, STEP.ended(Result.CREATED))
        queue.cancel(KEY, Cause.RETRY)
        await reconcile(Cause.CHILD)
        assert due(queue, Cause.RETRY) == BACKOFF_BASE


@pytest.mark.more_cases
@pytest.mark.parametrize("deferred", [False, True])
async def test_a_denied_status_is_retried_with_growing_pauses(deferred: bool) -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    denial = ApiError("apply", ErrorStatus(code=403, reason="Forbidden", message="no", denied=True))
    script.status_refusal, script.refusal = (None, denial) if deferred else (denial, None)
    script.defers_status = deferred
    async with working(script, queue) as reconcile:
        await reconcile(Cause.PARENT)
        for failures in range(1, 5):
            queue.cancel(KEY, Cause.RETRY)
            await reconcile(Cause.STATUS_OVERDUE if deferred else Cause.CHILD)
            assert due(queue, Cause.RETRY) == BACKOFF_BASE * 2**failures


HOUR = 3600.0


@pytest.mark.exhaustive
@pytest.mark.parametrize("stepped", [-HOUR, HOUR])
async def test_a_wall_clock_that_is_set_delays_no_resync(stepped: float) -> None:
    script, queue, clock = scripted(), Queue[ParentKey](lambda: 0.0), StillClock(chance=0.0)
    async with working(script, queue, clock=clock) as reconcile:
        await reconcile(Cause.CHILD)
        await reconcile(Cause.RESYNC_DUE)  # it spends the budget of the next three seconds
        clock.stepped = stepped
        await reconcile(Cause.RESYNC_DUE)
        assert script.causes == [Cause.CHILD, Cause.RESYNC]
        assert due(queue, Cause.RESYNC) == 3.0
        await reconcile(Cause.PARENT)
        assert due(queue, Cause.RESYNC_DUE) <= 20.0


@pytest.mark.exhaustive
@pytest.mark.parametrize("stepped", [-HOUR, HOUR])
async def test_a_wall_clock_that_is_set_delays_no_retry_of_a_denied_child(stepped: float) -> None:
    denied = replace(STEP, result=Result.FAILED, denied=True)
    script, queue, clock = scripted(), Queue[ParentKey](lambda: 0.0), StillClock(chance=0.0)
    script.reports(denied)
    async with working(script, queue, clock=clock) as reconcile:
        await reconcile(Cause.PARENT)
        clock.stepped = stepped
        script.known = ParentState()
        queue.cancel(KEY, Cause.RETRY)
        await reconcile(Cause.PARENT)
    assert due(queue, Cause.RETRY) == BACKOFF_BASE


async def test_the_outcomes_of_a_reconcile_are_not_remembered() -> None:
    script, queue = scripted(STEP.ended(Result.UNCHANGED)), Queue[ParentKey](lambda: 0.0)
    await reconciled(script, queue, Cause.PARENT)
    assert script.known.status.report == report()


async def test_a_deferred_status_is_written_without_another_reconcile() -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    script.defers_status = True
    await reconciled(script, queue, Cause.PARENT)
    assert (script.causes, script.written) == ([Cause.PARENT], 1)
    assert not queue.is_scheduled(KEY, Cause.STATUS_OVERDUE)


async def test_a_reconcile_that_writes_its_status_replaces_a_deferred_one() -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    await reconciled(script, queue, Cause.STATUS | Cause.PARENT, Cause.STATUS)
    assert script.written == 0


async def test_a_deferred_status_that_cannot_be_written_is_retried() -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    script.defers_status = True
    script.refusal = ApiError("apply of Echo", ErrorStatus(code=503, reason="ServiceUnavailable", message="not now"))
    await reconciled(script, queue, Cause.PARENT)
    assert queue.is_scheduled(KEY, Cause.RETRY)


REFUSED = ApiError("apply of Echo", ErrorStatus(code=422, reason="Invalid", message="no"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("refusal", [None, REFUSED])
async def test_a_refused_status_cancels_neither_the_time_of_a_report_nor_its_retry(refusal: ApiError | None) -> None:
    for outcome, again_at, expected in (
        (STEP.ended(Result.UNCHANGED), 1060.0, 60.0),
        (replace(STEP, result=Result.FAILED, retryable=True, retry_after=7.0), None, 7.0),
    ):
        script, queue = scripted(outcome), Queue[ParentKey](lambda: 0.0)
        script.reports(outcome, again_at=again_at)
        script.status_refusal = refusal
        await reconciled(script, queue, Cause.PARENT)
        assert due(queue, Cause.RETRY) == expected


@pytest.mark.exhaustive
async def test_a_terminal_error_before_the_report_waits_for_a_change() -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    script.bug = REFUSED
    await reconciled(script, queue, Cause.PARENT)
    assert not queue.is_scheduled(KEY, Cause.RETRY)


@pytest.mark.exhaustive
async def test_a_bug_is_logged_and_retried_and_what_the_reconcile_did_is_remembered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    script.bug = RuntimeError("a bug")
    await reconciled(script, queue, Cause.PARENT)
    assert "the reconcile failed unexpectedly" in caplog.text
    assert queue.is_scheduled(KEY, Cause.RETRY)
    assert script.known.reconcile_at == "seen"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("causes", "applied", "again"),
    [
        (Cause.PARENT | Cause.RESYNC_DUE, False, Cause.PARENT),
        (Cause.CHILD, False, Cause.CHILD),
        (Cause.RESYNC, False, Cause.RETRY),
        (Cause.PARENT, True, Cause.CHILD),
        (Cause.RETRY, True, Cause.RETRY),
    ],
)
async def test_a_postponed_reconcile_begins_again_at_a_worker_of_slow_parents(
    causes: Cause, applied: bool, again: Cause
) -> None:
    script, queue = scripted(), Queue[ParentKey](lambda: 0.0)
    state = ParentState(reconcile_at="seen")
    script.postponed = Reconciled(state=state, report=report() if applied else None, postponed=True)
    async with working(script, queue):
        queue.add(KEY, Cause.RESYNC_DUE if causes is Cause.RESYNC else causes)
        assert await queue.get(slow=True) == (KEY, again)
        assert script.causes[-1] & causes
        assert script.known.reconcile_at == "seen"


@pytest.mark.parametrize("error", [REFUSED, RuntimeError("a bug")])
@pytest.mark.parametrize("written", [True, False])
async def test_a_reconcile_that_came_back_ends_the_suspicion_whatever_its_error(
    error: Exception, written: bool
) -> None:
    script, queue, file = scripted(), Queue[ParentKey](lambda: 0.0), ParentFile.open()
    file.left[0] = Suspect(key=KEY, version=Version(0, ""))
    suspects = SuspectedParents(file, Metrics())
    if written and isinstance(error, ApiError):
        script.status_refusal = error
    else:
        script.bug = error
    workers = Workers(
        queue,
        {KEY.folder: cast("Parents", script)},
        cast("Reconciler", script),
        Metrics(),
        Options(),
        StillClock(chance=0.0),
        suspects=suspects,
    )
    await workers.reconcile_alone(KEY)
    assert script.causes
    assert KEY not in suspects


ROUTED = ParentKey("echoes.example.com", "default", "web")


class Added:
    """What was added to the queue."""

    def __init__(self) -> None:
        self.keys: list[tuple[ParentKey, Cause]] = []

    def add(self, key: ParentKey, cause: Cause) -> None:
        self.keys.append((key, cause))


@pytest.mark.parametrize(
    ("namespace", "elsewhere", "requeued"),
    [("default", False, True), ("other", False, False), ("", False, False), ("other", True, True)],
)
def test_an_object_requeues_the_parent_of_its_label_only_where_that_may_have_a_child(
    namespace: str, elsewhere: bool, requeued: bool
) -> None:
    """Whoever may create objects in another namespace can give them the label."""
    queue = Added()
    folder = SimpleNamespace(settings=SimpleNamespace(cluster_scope=elsewhere))
    parents = SimpleNamespace(folder=folder, find=lambda *_: parent())
    controllers: Any = SimpleNamespace(folders={ROUTED.folder: parents})
    router = EventRouter(cast("Queue[ParentKey]", cast(Any, queue)), controllers)
    router.parent_added(parent(), ROUTED)
    router.child_changed(PARENT_UID, namespace)
    assert queue.keys == ([(ROUTED, Cause.CHILD)] if requeued else [])
    router.child_changed("another-uid", namespace)
    assert len(queue.keys) == requeued


def test_ten_thousand_parents_with_the_same_failure_are_a_hundred_lines_in_each_minute() -> None:
    lines = RepeatedLines(100)
    for minute in range(3):
        found = [lines.count("RenderFailed", minute * WINDOW + number * 0.005) for number in range(10_000)]
        assert sum(logged for logged, _ in found) == 100
        assert [omitted for _, omitted in found].count(1) == 1, "one line reports that there are more"
        assert found[-1] == (False, 9_900)


def test_lines_that_differ_do_not_omit_each_other() -> None:
    lines = RepeatedLines(1)
    assert [lines.count(number, 0.0) for number in range(5)] == [(True, 0)] * 5


def test_the_kinds_of_lines_that_are_remembered_are_bounded() -> None:
    lines = RepeatedLines(1)
    for number in range(10 * KINDS):
        lines.count(number, 0.0)
    assert len(lines._windows) == KINDS


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 100)), max_size=200))
def test_no_window_has_more_lines_than_the_limit(steps: list[tuple[str, int]]) -> None:
    lines, now, logged = RepeatedLines(3), 0.0, list[tuple[str, float]]()
    for alike, pause in steps:
        now += pause
        is_logged, omitted = lines.count(alike, now)
        assert is_logged == (omitted == 0)
        if is_logged:
            logged.append((alike, now))
    for alike in "ab":
        times = [moment for kind, moment in logged if kind == alike]
        # Two windows that follow each other overlap with any other window of their length.
        assert all(sum(start <= each < start + WINDOW for each in times) <= 6 for start in times)
