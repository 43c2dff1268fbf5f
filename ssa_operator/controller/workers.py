"""Workers: they take parents from the queue, run passes, and decide when each parent is looked at again.

Promises:
- A parent that failed in passing is looked at again after a backoff with jitter; one that failed for good waits for a
  change or its next tick.
- While many parents wait their children go first, and a status waits for PATIENCE at most.
- Ticks are background work: they come last and stay within the budget of applies a second; a pass that applies
  everything for another reason stands for one.
- An unforeseen error costs one pass: it is logged with its traceback, and the parent is tried again.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ssa_operator.controller.metrics import Metrics
from ssa_operator.controller.options import ApplyMode, Options
from ssa_operator.controller.queue import APPLY_ALL, STATUS_ONLY, Cause, Queue
from ssa_operator.controller.reconcile.reconciler import Reconciler
from ssa_operator.controller.watches.parent_cache import Memory, Parent
from ssa_operator.controller.watches.parents import ParentInformer, ParentKey
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning.outcome import Result
from ssa_operator.core.policies.backoff import backoff
from ssa_operator.core.policies.resync_budget import ResyncBudget, next_resync
from ssa_operator.core.redaction.secret_values import NO_SECRETS
from ssa_operator.core.status.report import Report
from ssa_operator.kube.api.errors import ApiError, Unreachable
from ssa_operator.kube.auth.credentials import CredentialsError

log = logging.getLogger("ssa_operator")

PATIENCE = 10.0
"""Seconds that a status lets others go first: as much as may pass between two ticks."""

UNEXPECTED = 5
"""A pass that failed unexpectedly is tried again after as long as one that has failed so many times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time and chance: `now` in seconds since the epoch, `jitter` in [0, 1)."""

    now: Callable[[], float]
    jitter: Callable[[], float]


class Workers:
    """`run` is one worker; any number of them share the queue. `folders` are the parents by folder name."""

    def __init__(
        self,
        queue: Queue[ParentKey],
        folders: Mapping[str, ParentInformer],
        reconciler: Reconciler,
        metrics: Metrics,
        options: Options,
        chance: Clock,
    ) -> None:
        self._queue = queue
        self._folders = folders
        self._reconciler = reconciler
        self._metrics = metrics
        self._options = options
        self._chance = chance
        self._budget: ResyncBudget[ParentKey] | None = (
            ResyncBudget(options.tick_rate) if options.tick_rate > 0 else None
        )

    async def run(self) -> None:
        """Work until the queue is closed."""
        while (item := await self._queue.get()) is not None:
            key, causes = item
            try:
                await self._look_at(key, causes)
            except Exception as error:  # noqa: BLE001 - it is told
                # A bug shows in one pass: its worker, and with it every other parent, goes on.
                self._complain(key, error)
                self._retry(key, UNEXPECTED)
            finally:
                self._queue.done(key)

    def _complain(self, key: ParentKey, error: Exception) -> None:
        parents = self._folders.get(key.folder)
        parent = parents.find(key.namespace, key.name) if parents is not None else None
        redactor = parents.memory(parent).redactor if parents is not None and parent is not None else NO_SECRETS
        if redactor:
            # Python's own messages quote values.
            trace = redactor.redact("".join(traceback.format_exception(error)))
            log.error("%s: the pass failed unexpectedly\n%s", key, trace)
        else:
            log.error("%s: the pass failed unexpectedly", key, exc_info=error)

    async def _look_at(self, key: ParentKey, causes: Cause) -> None:
        parents = self._folders.get(key.folder)
        parent = parents.find(key.namespace, key.name) if parents is not None else None
        if parents is None or parent is None:
            self._withdraw(key)
            self._queue.forget(key)
            return
        memory = parents.memory(parent)
        causes = self._granted(key, memory, causes)
        if not causes & ~STATUS_ONLY:
            if causes and memory.unwritten is not None:
                await self._write_status(key, parents.subject(parent), memory)
                self._tick_later(key, parents, parent, memory)
            return
        started, before = time.perf_counter(), memory.report
        try:
            report = await self._reconciler.reconcile(parents.subject(parent), memory, causes)
        except (ApiError, CredentialsError) as error:
            if memory.report is not None and memory.report is not before:
                # The status could not be written; what was done is done.
                self._log(key, before, memory.report)
            self._failed(key, memory, error)
        else:
            self._log(key, before, report)
            self._reported(key, memory, report)
            self._write_later(key, memory)
        if memory.report is not None:
            # What was done is told by now. With the manifests in it, it would be most of what is remembered.
            memory.report = replace(memory.report, outcomes=())
        self._metrics.pass_seconds.labels(key.folder).observe(time.perf_counter() - started)
        self._tick_later(key, parents, parent, memory)

    def _write_later(self, key: ParentKey, memory: Memory) -> None:
        """Have the status written that the pass left unwritten."""
        if memory.unwritten is not None:
            self._queue.add(key, Cause.STATUS)
            self._queue.add_after(key, Cause.STATUS_OVERDUE, PATIENCE)
        else:
            self._queue.cancel(key, Cause.STATUS_OVERDUE)

    async def _write_status(self, key: ParentKey, subject: Parent, memory: Memory) -> None:
        self._queue.cancel(key, Cause.STATUS_OVERDUE)
        try:
            again_at = await self._reconciler.write_status(subject, memory)
        except (ApiError, CredentialsError) as error:
            self._failed(key, memory, error)
        else:
            self._look_again(key, again_at)

    def _granted(self, key: ParentKey, memory: Memory, causes: Cause) -> Cause:
        """The causes without a tick that the budget doesn't grant yet; such a tick comes back when it does. A pass that
        applies everything anyway stands for the tick.
        """
        if self._budget is None:
            return causes
        if causes & APPLY_ALL:
            self._withdraw(key)
            return causes & ~(Cause.TICK | Cause.TICK_GRANTED)
        now = self._chance.now()
        granted = Cause.TICK_GRANTED in causes and key in self._budget
        if Cause.TICK in causes:
            self._budget.ask(key, len(memory.report.children) if memory.report else 1)
            granted = granted or self._budget.turn(now) == (key, 0.0)
        if granted:
            self._budget.take(key, now)
        self._call_next()
        others = causes & ~(Cause.TICK | Cause.TICK_GRANTED)
        return others | Cause.TICK_GRANTED if granted else others

    def _withdraw(self, key: ParentKey) -> None:
        if self._budget is not None:
            self._budget.withdraw(key)
            self._queue.cancel(key, Cause.TICK_GRANTED)
            self._call_next()

    def _call_next(self) -> None:
        """Have the parent looked at whose turn is next, when it comes."""
        assert self._budget is not None
        now = self._chance.now()
        self._metrics.tick_lag.set(self._budget.lag(now))
        turn = self._budget.turn(now)
        if turn is not None and not self._queue.awaits(turn[0], Cause.TICK_GRANTED):
            self._queue.add_after(turn[0], Cause.TICK_GRANTED, turn[1])

    def _tick_later(self, key: ParentKey, parents: ParentInformer, parent: LiveObject, memory: Memory) -> None:
        # A tick that the budget has not granted yet stands for the next one, too.
        if self._budget is not None and key not in self._budget and not self._at_rest(memory):
            now = self._chance.now()
            interval = parents.folder.settings.interval or self._options.interval
            self._queue.add_after(key, Cause.TICK, next_resync(parent.uid, interval, now) - now)

    def _at_rest(self, memory: Memory) -> bool:
        """Whether a tick could not find anything to do: everything that a pass looks at wakes the parent when it
        changes, and a tick applies nothing that is proven unchanged.
        """
        if self._options.apply is ApplyMode.ALWAYS or memory.trouble or memory.report is None:
            return False
        # What has no proof may be an object of somebody else's, which no watch shows.
        return memory.report.complete and memory.rendered <= memory.apply_records.keys()

    def _reported(self, key: ParentKey, memory: Memory, report: Report) -> None:
        self._metrics.passes.labels(
            key.folder, "ok" if report.verdict.ready else "failed" if report.verdict.stalled else "waiting"
        ).inc()
        memory.trouble, memory.unfinished = "", 0
        if report.retryable:
            self._retry(key, memory.failures, report.retry_after)
        else:
            self._queue.cancel(key, Cause.RETRY)
        self._look_again(key, report.again_at)

    def _look_again(self, key: ParentKey, moment: float | None) -> None:
        if moment is not None:
            self._queue.add_after(key, Cause.RETRY, max(0.0, moment - self._chance.now()))

    def _failed(self, key: ParentKey, memory: Memory, error: ApiError | CredentialsError) -> None:
        """The pass did not come to its end. A parent that went or changed meanwhile has an event of its own."""
        self._metrics.passes.labels(key.folder, "error").inc()
        retry_after = 0.0
        if isinstance(error, ApiError):
            if error.not_found:
                return
            retry_after = error.retry_after or 0.0
        words = memory.redactor.redact(str(error))
        if words != memory.trouble and not (isinstance(error, ApiError) and error.conflict):
            memory.trouble = words
            # That the API server is out of reach is said once, by the watches, and not by every parent.
            level = logging.DEBUG if isinstance(error, Unreachable) else logging.WARNING
            log.log(level, "%s: the pass was not finished: %s", key, words)
        if isinstance(error, ApiError) and error.terminal:
            # A status that the CRD refuses is refused until somebody changes something; the next tick tries it again.
            return
        memory.unfinished += 1
        self._retry(key, memory.unfinished, retry_after)

    def _retry(self, key: ParentKey, failures: int, retry_after: float = 0.0) -> None:
        self._metrics.queue_retries.inc()
        self._queue.add_after(key, Cause.RETRY, max(backoff(failures, self._chance.jitter()), retry_after))

    def _log(self, key: ParentKey, before: Report | None, report: Report) -> None:
        for outcome in report.outcomes:
            self._metrics.steps.labels(key.folder, outcome.step.identity.kind, outcome.result.value).inc()
            for warning in outcome.warnings:
                log.warning("%s: %s: the API server warns: %s", key, outcome.step.identity, warning)
            if outcome.result is Result.CREATED:
                log.info("%s: %s created", key, outcome.step.identity)
            elif outcome.result in _NEWS:
                log.info("%s: %s %s: %s", key, outcome.step.identity, outcome.result, outcome.step.reason)
        verdict = report.verdict
        if report.suspended != (before is not None and before.suspended):
            log.info("%s: %s", key, "is suspended" if report.suspended else "is resumed")
        if before is None or before.verdict != verdict:
            level = logging.WARNING if verdict.stalled else logging.INFO
            log.log(level, "%s: Ready=%s %s: %s", key, verdict.ready, verdict.reason, verdict.message)


_NEWS = frozenset({Result.CONFIGURED, Result.RECREATED, Result.PRUNED})
