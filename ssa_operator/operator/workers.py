"""Workers: they take parents from the queue, reconcile them, and decide when each parent is reconciled again.

Promises:
- After a retryable failure the parent is requeued with backoff and jitter; after a terminal one it waits for a change
  or its next resync.
- While many parents wait, their children are applied before their statuses are written. A status is deferred for
  MAX_STATUS_DELAY seconds at most.
- Resyncs come last and stay within the budget of applies a second, which slow renders use up, too. A reconcile that
  applies everything for another reason replaces one.
- If many parents of a folder fail for the same reason, the operator logs LOGGED_ALIKE of them in a minute. One line
  reports that there are more.
- An unexpected error costs one reconcile: it is logged with its traceback, and the parent is requeued.
- A parent whose renders take long is reconciled by workers of its own, as many as there are others: while it waits for
  the thread that renders it, no other parent waits for a worker.
- A parent that was being reconciled when the process died is reconciled by `reconcile_alone` only.
- Changes of the wall clock delay nothing: budgets and pauses use the monotonic clock.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.parents import Parent, ParentKey
from ssa_operator.kube.api.backoff import backoff
from ssa_operator.kube.api.errors import ApiError, NotLeader, Unreachable
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import Clock
from ssa_operator.objects.causes import APPLY_ALL, STATUS_ONLY, Cause
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.repeated_lines import RepeatedLines
from ssa_operator.operator.suspected_parents import AloneTurn, SuspectedParents, Version
from ssa_operator.reconcile.child import FailureReason, Result
from ssa_operator.reconcile.context import reconciling
from ssa_operator.reconcile.failures import log_bug
from ssa_operator.reconcile.impersonation import ANSWER_LIFETIME
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.reconcile.reconciler import Reconciled, Reconciler
from ssa_operator.reconcile.render_turns import SLOW, Pace, paced
from ssa_operator.reconcile.resync.rules import ResyncBudget, next_resync
from ssa_operator.reconcile.resync.unchanged import COUNTED_IN_VAIN
from ssa_operator.reconcile.retries import RateLimit, Retries, after_error, after_report
from ssa_operator.reconcile.secrets.redacted_report import redacted_error
from ssa_operator.reconcile.settings import ApplyMode
from ssa_operator.reconcile.status.report import Report
from ssa_operator.reconcile.status.requests import next_conflict_at

log = logging.getLogger("ssa_operator")

MAX_STATUS_DELAY = 10.0
"""Seconds for which a status may be deferred while other parents wait: the default interval between two resyncs."""

LOGGED_ALIKE = 100
"""Parents of a folder that the log names in a minute for the same reason. All have their own status."""

RESYNC_RENDER_SHARE = 0.1
"""The share of the process's time that resyncs may spend on slow renders."""

DENIED_RETRIES = 10.0
"""Retries a second for parents with a child that admission denies: a quota, a webhook, a policy or another plugin."""

UNEXPECTED_FAILURES = 5
"""The backoff after an unexpected error is the one after this number of failures."""


_NOT_STATUS_ONLY, _NO_RESYNC = ~STATUS_ONLY, ~(Cause.RESYNC_DUE | Cause.RESYNC)


class EndedReconcile(Struct, frozen=True, kw_only=True):
    """A reconcile that ended, for those who record what the operator does."""

    key: ParentKey
    uid: str
    causes: Cause
    seconds: float
    result: str
    """As the metric `ssa_operator_reconcile_total` has it."""
    report: Report | None = None
    """Its report with its outcomes, without a Secret's content; None if it repeated the last one or has none."""
    message: str = ""
    """Why it was not finished."""


ReconcileListener = Callable[[EndedReconcile], None]


class Workers:
    """`run` is one worker; any number of them share the queue, those of slow parents too. `folders` are the parents by
    folder name. `suspects` are the parents that come last and alone. Each of the `listeners` receives each reconcile
    that ended.
    """

    def __init__(
        self,
        queue: Queue[ParentKey],
        folders: Mapping[str, Parents],
        reconciler: Reconciler,
        metrics: Metrics,
        options: Options,
        clock: Clock,
        suspects: SuspectedParents | None = None,
        listeners: Sequence[ReconcileListener] = (),
    ) -> None:
        self._suspects = suspects
        self._listeners = listeners
        self._alone = AloneTurn()
        self._queue = queue
        self._folders = folders
        self._reconciler = reconciler
        self._metrics = metrics
        self._options = options
        self._clock = clock
        self.reconciled = asyncio.Event()
        """Set after the first reconcile."""
        self._repeated_lines = RepeatedLines(LOGGED_ALIKE)
        self._denied_retries = RateLimit(DENIED_RETRIES)
        self._slow_renders: dict[ParentKey, float] = {}
        """The seconds of the last render of parents whose render is slow."""
        self._budget: ResyncBudget[ParentKey] | None = (
            ResyncBudget(options.resync_rate) if options.resync_rate > 0 else None
        )

    async def run(self, *, slow: bool = False) -> None:
        """Reconcile the slow parents, or the others, until the queue is closed."""
        while (item := await self._queue.get(slow=slow)) is not None:
            key, causes = item
            pace = Pace(waits=slow)
            try:
                async with self._alone.beside_others():
                    held = self._suspects is not None and key in self._suspects
                    with paced(pace):
                        await self._guarded(key, self._hold(key) if held else self._process(key, causes))
                if pace.rendered and pace.waits and pace.slow != slow:
                    self._queue.set_slow(key, slow=pace.slow)
            finally:
                self._queue.done(key)

    def start(self, prepared: asyncio.Task[None] | None = None) -> list[asyncio.Task[None]]:
        """The tasks of all workers. They begin when the preparation has ended, and raise its error."""
        return [
            asyncio.create_task(self._run_after(prepared, slow=slow), name=f"{kind} {number}")
            for slow, kind in ((False, "worker"), (True, "worker of slow parents"))
            for number in range(self._options.workers)
        ]

    async def _run_after(self, prepared: asyncio.Task[None] | None, *, slow: bool) -> None:
        if prepared is not None:
            await asyncio.shield(prepared)
        await self.run(slow=slow)

    async def reconcile_alone(self, key: ParentKey) -> None:
        """Reconcile a suspect while no other parent is reconciled."""
        async with self._alone.alone():
            await self._guarded(key, self._process(key, APPLY_ALL))

    def version_of(self, key: ParentKey) -> Version | None:
        """The inputs of the parent's reconcile, None if the parent is gone."""
        parents = self._folders.get(key.folder)
        live = parents.find(key.namespace, key.name) if parents is not None else None
        if parents is None or live is None:
            return None
        return Version(live.metadata.generation or 0, parents.folder.digest)

    async def _guarded(self, key: ParentKey, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of one reconcile. A bug ends it, and the worker goes on with other parents."""
        with reconciling(key, partial(self._after_render, key)), self._recorded(key):
            try:
                await work
            except Exception as error:  # noqa: BLE001 - it is logged
                self._after_bug(key, error, NO_SECRETS)

    def _recorded(self, key: ParentKey) -> AbstractContextManager[None]:
        """Have the parent in the file of those that are being reconciled."""
        if self._suspects is None:
            return nullcontext()
        return self._suspects.recorded(key, self.version_of(key) or Version(0, ""))

    async def _hold(self, key: ParentKey) -> None:
        """Report on a suspect that is not reconciled yet."""
        assert self._suspects is not None
        self._suspects.notice_change()
        parents = self._folders.get(key.folder)
        live = parents.find(key.namespace, key.name) if parents is not None else None
        why = self._suspects.suspicion(key)
        if parents is None or live is None or not why:
            return
        done = await self._reconciler.report_suspicion(parents.parent(live), parents.state(live), why)
        state = done.state if done.error is None else self._after_error(key, done)
        parents.save_state(live, state)

    def _after_render(self, key: ParentKey, seconds: float) -> None:
        self._metrics.rendered(key.folder, seconds)
        if seconds >= SLOW:
            self._slow_renders[key] = seconds
        elif self._slow_renders:
            self._slow_renders.pop(key, None)

    def _after_bug(self, key: ParentKey, error: Exception, secrets: ParentSecrets) -> None:
        self._retry(key, UNEXPECTED_FAILURES)
        log_bug(f"{key}: the reconcile failed unexpectedly", error, reads_secrets=secrets.read)

    async def _process(self, key: ParentKey, causes: Cause) -> None:
        parents = self._folders.get(key.folder)
        live = parents.find(key.namespace, key.name) if parents is not None else None
        if parents is None or live is None:
            self._slow_renders.pop(key, None)
            self._withdraw_resync(key)
            self._queue.forget(key)
            return
        state, kind_changes = parents.state(live), parents.kind_changes
        causes = self._grant_resync(key, state, causes)
        if causes & _NOT_STATUS_ONLY:
            state = await self._reconcile(key, parents.parent(live), state, causes)
            self.reconciled.set()
        elif causes and state.status.deferred is not None:
            state = await self._write_status(key, parents.parent(live), state)
        else:
            return
        parents.save_state(live, state)
        if parents.kind_changes != kind_changes and state.status.unready:
            # The reconcile may have used an outdated kind.
            self._queue.add(key, Cause.RETRY)
        self._resync_later(key, parents, live, state)

    async def _reconcile(self, key: ParentKey, parent: Parent, state: ParentState, causes: Cause) -> ParentState:
        started, before = time.perf_counter(), state.status.report
        done = await self._reconciler.reconcile(parent, state, causes)
        if done.postponed:
            return self._postpone(key, before, done, causes)
        state = done.state
        last = state.status.report if done.report is None else done.report
        new = last if last is not before else None
        if new is not None:
            # Even if the status could not be written, because the children were applied.
            self._log(key, before, new)
        elif done.report is not None:
            self._count_unchanged(key, done.report)
        if done.report is not None:
            state = self._after_report(key, state, done.report)
        else:
            state = self._after_error(key, done, new)
        if self._suspects is not None:
            # With whatever error, it came back: it ended nothing.
            self._suspects.reconciled(key)
        seconds = time.perf_counter() - started
        self._metrics.reconcile_ended(key.folder, seconds)
        if self._listeners:
            self._tell_listeners(key, parent.live.uid, causes, seconds, done, new)
        return _without_outcomes(state)

    def _tell_listeners(
        self, key: ParentKey, uid: str, causes: Cause, seconds: float, done: Reconciled, new: Report | None
    ) -> None:
        message = ""
        if isinstance(done.error, ApiError | CredentialsError):
            message = redacted_error(done.error, done.state.secrets)
        elif done.error is not None:
            message = "it failed unexpectedly; the operator's log has the error"
        result = "error" if done.report is None else _result_of(done.report)
        ended = EndedReconcile(
            key=key, uid=uid, causes=causes, seconds=seconds, result=result, report=new, message=message
        )
        for listener in self._listeners:
            listener(ended)

    def _postpone(self, key: ParentKey, before: Report | None, done: Reconciled, causes: Cause) -> ParentState:
        """Let a worker of slow parents begin the reconcile again."""
        self._queue.set_slow(key, slow=True)
        if done.report is None:
            # The budget doesn't grant the same resync twice.
            self._queue.add(key, causes & ~(Cause.RESYNC_DUE | Cause.RESYNC) or Cause.RETRY)
            return done.state
        self._log(key, before, done.report)
        # Everything is applied; only the status is missing.
        self._queue.add(key, Cause.CHILD if causes & (APPLY_ALL | Cause.CHILD | Cause.STATUS_OVERDUE) else Cause.RETRY)
        return _without_outcomes(done.state)

    async def _write_status(self, key: ParentKey, parent: Parent, state: ParentState) -> ParentState:
        self._queue.cancel(key, Cause.STATUS_OVERDUE)
        done = await self._reconciler.write_status(parent, state)
        if done.error is not None:
            return self._after_error(key, done)
        self._requeue_at(key, next_conflict_at(done.state))
        return done.state

    def _grant_resync(self, key: ParentKey, state: ParentState, causes: Cause) -> Cause:
        """The causes, without a resync that the budget has not granted yet. The parent is requeued when it does. A
        reconcile that applies everything anyway replaces the resync.
        """
        if self._budget is None:
            return causes
        if causes & APPLY_ALL:
            self._withdraw_resync(key)
            return causes & _NO_RESYNC
        now = self._clock.monotonic()
        granted = Cause.RESYNC in causes and key in self._budget
        if Cause.RESYNC_DUE in causes:
            report = state.status.report
            applies = len(report.children) if report else 1
            # Slow renders also use up the budget; otherwise a template that always takes a second would leave no time.
            seconds = self._slow_renders.get(key, 0.0) if state.repeatable is None else 0.0
            rendering = seconds * self._options.resync_rate / RESYNC_RENDER_SHARE
            self._budget.ask(key, max(applies, math.ceil(rendering)))
            granted = granted or self._budget.turn(now) == (key, 0.0)
        if granted:
            self._budget.take(key, now)
        self._schedule_next_resync()
        others = causes & _NO_RESYNC
        return others | Cause.RESYNC if granted else others

    def _withdraw_resync(self, key: ParentKey) -> None:
        if self._budget is not None and self._budget.withdraw(key):
            self._queue.cancel(key, Cause.RESYNC)
            self._schedule_next_resync()

    def _schedule_next_resync(self) -> None:
        """Schedule the parent whose resync the budget grants next."""
        assert self._budget is not None
        now = self._clock.monotonic()
        self._metrics.resync_lag.set(self._budget.lag(now))
        turn = self._budget.turn(now)
        if turn is not None and not self._queue.is_scheduled(turn[0], Cause.RESYNC):
            self._queue.add_after(turn[0], Cause.RESYNC, turn[1])

    def _resync_later(self, key: ParentKey, parents: Parents, live: LiveObject, state: ParentState) -> None:
        pause = max(0.0, state.retries.not_before - self._clock.monotonic())
        if pause:
            self._withdraw_resync(key)
            self._queue.cancel(key, Cause.RESYNC_DUE)
        # While the budget has not granted a resync, the next one is not scheduled.
        if self._budget is not None and key not in self._budget and not self._needs_no_resync(state):
            interval = parents.folder.settings.interval or self._options.interval
            # This uses the wall clock, because the phase of a parent survives restarts.
            now = self._clock.now()
            self._queue.add_after(key, Cause.RESYNC_DUE, next_resync(live.uid, interval, now + pause) - now)

    def _needs_no_resync(self, state: ParentState) -> bool:
        """Whether a resync would change nothing: every change that a reconcile would see requeues the parent, and with
        `--apply changed` a resync applies nothing that is unchanged.
        """
        report = state.status.report
        if self._options.apply is ApplyMode.ALWAYS or state.retries.error or report is None:
            return False
        # A child without an apply record may lack the operator's label, and then no informer holds it.
        return report.complete and state.renders.rendered <= state.children.applied

    def _after_report(self, key: ParentKey, state: ParentState, report: Report) -> ParentState:
        self._count(key, _result_of(report))
        retries = self._schedule(key, state.retries, report)
        if state.status.deferred is not None:
            self._queue.add(key, Cause.STATUS)
            self._queue.add_after(key, Cause.STATUS_OVERDUE, MAX_STATUS_DELAY)
        else:
            self._queue.cancel(key, Cause.STATUS_OVERDUE)
        return replace(state, retries=retries)

    def _schedule(self, key: ParentKey, retries: Retries, report: Report) -> Retries:
        """Schedule the next reconcile that a report asks for: the retry of its children, and the time it names."""
        now = self._clock.monotonic()
        not_before = now + report.retry_after
        retries = after_report(retries, retryable=report.retryable, renewed=report.unblocked, not_before=not_before)
        if report.retryable:
            pause = self._denied_retries.pause(now) if report.denied else 0.0
            self._retry(key, retries.failed, max(report.retry_after, pause))
        else:
            self._queue.cancel(key, Cause.RETRY)
        if report.again_at is not None:
            self._queue.add_after(key, Cause.RETRY, max(0.0, report.again_at - self._clock.now()))
        self._requeue_at(key, report.due)
        return retries

    def _count(self, key: ParentKey, result: str) -> None:
        self._metrics.count_reconcile(key.folder, result)

    def _count_unchanged(self, key: ParentKey, report: Report) -> None:
        """Count the children of a resync that repeated the last one."""
        for child in report.children:
            self._metrics.count_child(key.folder, child.identity.kind, Result.UNCHANGED.value)

    def _requeue_at(self, key: ParentKey, due: float | None) -> None:
        """Requeue a parent at a moment of the monotonic clock."""
        if due is not None:
            self._queue.add_after(key, Cause.RETRY, max(0.0, due - self._clock.monotonic()))

    def _after_error(self, key: ParentKey, done: Reconciled, report: Report | None = None) -> ParentState:
        """Requeue a parent whose reconcile failed. One that was deleted or changed meanwhile has its own event.
        `report` is that of a reconcile in which only the write of the status failed.
        """
        self._count(key, "error")
        state, error = done.state, done.error
        assert error is not None
        if not isinstance(error, ApiError | CredentialsError):
            self._after_bug(key, error, state.secrets)
            return state
        retry_after, terminal, conflict = 0.0, False, False
        if isinstance(error, ApiError):
            if error.not_found:
                return state
            retry_after, terminal, conflict = error.retry_after or 0.0, error.terminal, error.conflict
        denied = isinstance(error, ApiError) and error.denied
        message = redacted_error(error, state.secrets)
        if message != state.retries.error and not conflict:
            # The reflectors log that the API server is unreachable. Not every parent repeats it.
            level = logging.DEBUG if isinstance(error, Unreachable | NotLeader) else logging.WARNING
            text = f"{key}: the reconcile was not finished: {message}"
            self._log_limited(level, text, key.folder, "an unfinished reconcile")
        logged, not_before = state.retries.error if conflict else message, self._clock.monotonic() + retry_after
        retries = state.retries
        if terminal and report is not None:
            # A CRD, for example, may refuse the status each time. The children are retried all the same.
            retries = replace(self._schedule(key, retries, report), unfinished=retries.unfinished)
            self._requeue_at(key, next_conflict_at(state))
            not_before = max(not_before, retries.not_before)
        retries = after_error(retries, logged, terminal=terminal and not denied, not_before=not_before)
        if denied:
            self._retry(key, retries.unfinished, max(retry_after, self._denied_retries.pause(self._clock.monotonic())))
        elif not terminal:
            # After a terminal error the parent waits for a change, the next resync, or what its report asks for.
            self._retry(key, retries.unfinished, retry_after)
        elif isinstance(error, ApiError) and error.forbidden:
            self._requeue_at(key, self._clock.monotonic() + ANSWER_LIFETIME)  # no event shows a new permission
        return replace(state, retries=retries)

    def _retry(self, key: ParentKey, failures: int, at_least: float = 0.0) -> None:
        self._metrics.queue_retries.inc()
        self._queue.add_after(key, Cause.RETRY, max(backoff(failures, self._clock.random()), at_least))

    def _log(self, key: ParentKey, before: Report | None, report: Report) -> None:
        for outcome in report.outcomes:
            kind = outcome.identity.kind
            self._metrics.count_child(key.folder, kind, outcome.result.value)
            failed = outcome.problem if outcome.result is Result.FAILED else None
            problem = FailureReason.CONFLICT if outcome.conflict else failed
            if problem is not None:
                self._metrics.child_failures.labels(key.folder, self._metrics.kind_label(kind), problem.value).inc()
            for warning in outcome.warnings:
                log.warning("%s: %s: the API server warns: %s", key, outcome.identity, warning)
            if outcome.counted:
                log.info("%s: %s: %s", key, outcome.identity, COUNTED_IN_VAIN)
            if outcome.result is Result.CREATED:
                log.info("%s: %s created", key, outcome.identity)
            elif outcome.result in _LOGGED_RESULTS:
                log.info("%s: %s %s: %s", key, outcome.identity, outcome.result, outcome.reason)
        verdict = report.verdict
        if report.suspended != (before is not None and before.suspended):
            log.info("%s: %s", key, "is suspended" if report.suspended else "is resumed")
        if before is None or before.verdict != verdict:
            level = logging.WARNING if verdict.stalled else logging.INFO
            text = f"{key}: Ready={verdict.ready} {verdict.reason}: {verdict.message}"
            self._log_limited(level, text, key.folder, verdict.reason if verdict.stalled else "")

    def _log_limited(self, level: int, text: str, folder: str, reason: str) -> None:
        """Log a line about a parent, unless there are too many with that reason ('': no limit)."""
        logged, omitted = self._repeated_lines.count((folder, reason), self._clock.monotonic()) if reason else (True, 0)
        if omitted == 1:
            log.log(level, "%s: further parents with %s are not logged for a minute; see their status", folder, reason)
        if logged:
            log.log(level, "%s", text)


def _result_of(report: Report) -> str:
    return "ok" if report.verdict.ready else "failed" if report.verdict.stalled else "waiting"


def _without_outcomes(state: ParentState) -> ParentState:
    """The state without its outcomes, which are logged already: with their manifests, they would take most of its
    memory.
    """
    if state.status.report is None or not state.status.report.outcomes:
        return state
    report = replace(state.status.report, outcomes=())
    return replace(state, status=replace(state.status, report=report))


_LOGGED_RESULTS = frozenset({Result.CONFIGURED, Result.RECREATED, Result.PRUNED})
