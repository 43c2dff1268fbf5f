"""One reconcile of one parent: observe and render, plan, act, report, publish.

Promises:
- A reconcile is a straight line. It reads the cluster from caches, writes children and then the status, and returns
  what the process remembers of the parent.
- While a parent is suspended, nothing is applied or deleted. While it is being deleted, only its finalize hooks are
  applied. If it is deleted without its children (`--cascade=orphan`), nothing is applied or deleted.
- If a request fails, or a bug raises, the reconcile ends and returns what it knows by then: a child that was deleted to
  be recreated is not forgotten. The status names the bug.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.render_result import StatusFields
from ssa_operator.reconcile.cluster_access import SharedCluster
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.executor import Executor, Outcomes
from ssa_operator.reconcile.finalization.finalizer import finalize
from ssa_operator.reconcile.idle_reports import idle_verdict, report_bug, report_forbidden, report_idle
from ssa_operator.reconcile.kept_values.requests import delete_kept_values, obsolete_replicas
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observe import Observer
from ssa_operator.reconcile.orphaning.requests import leave_children
from ssa_operator.reconcile.owner_references.requests import renew_owner_references
from ssa_operator.reconcile.parent_records.lost_records import record_texts
from ssa_operator.reconcile.parent_records.requests import (
    record_before_apply,
    record_once,
    restore_parent_records,
    trim_records,
)
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.phases import Phases
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.planner import Planner
from ssa_operator.reconcile.render_turns import Postponed, let_renders_wait
from ssa_operator.reconcile.resync.requests import Repeater, with_repeated
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.status.report import Report, make_report, make_suspicion_report
from ssa_operator.reconcile.status.reporter import MakeReport, Reporter
from ssa_operator.reconcile.status.requests import OthersWait, Publisher
from ssa_operator.reconcile.suspension.requests import report_suspended
from ssa_operator.reconcile.suspension.rules import suspension_message


class Reconciled(Struct, frozen=True, kw_only=True):
    """The result of a reconcile."""

    state: ParentState
    """The state of the parent from now on."""
    report: Report | None = None
    """Its report, None if it did not come to its end."""
    error: Exception | None = None
    """What ended it: a failed request (ApiError, CredentialsError), or a bug."""
    postponed: bool = False
    """Whether it has to begin again where its renders may wait for the thread. `report` is what became of the children
    by then, None if nothing was applied.
    """


class Reconciler:
    """Reconciles parents. `claims` are the objects of all parents of all folders. `others_wait` returns whether parents
    wait that are at least as urgent as this one with these causes.
    """

    def __init__(
        self,
        cluster: SharedCluster,
        claims: ObjectClaims,
        others_wait: OthersWait = lambda *_: False,
        clock: Clock = SYSTEM,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self.observer = Observer(cluster, claims, clock)
        self._repeater = Repeater(cluster, clock)
        self._planner = Planner(cluster, claims, self.observer, clock)
        self._executor = Executor(self.observer.renderer, clock)
        self._publisher = Publisher(cluster, others_wait, clock)
        self._reporter = Reporter(self.observer.renderer, self._publisher, clock)
        self._phases = Phases(
            observer=self.observer,
            planner=self._planner,
            executor=self._executor,
            reporter=self._reporter,
            publisher=self._publisher,
            clock=clock,
        )

    async def reconcile(self, parent: Parent, state: ParentState, causes: Cause) -> Reconciled:
        """Reconcile a parent. Where other parents wait, its status may be left to `write_status`."""
        reconcile = Reconcile.begin(self._cluster, parent, state, causes)
        with reconcile.judgements.used():
            return await reconcile.steps.measured(self._reconciled(reconcile))

    async def _reconciled(self, reconcile: Reconcile) -> Reconciled:
        try:
            if await self._repeater.repeat(reconcile):
                return Reconciled(state=_with_records(reconcile), report=reconcile.state.status.report)
            if reconcile.repeated:
                let_renders_wait()
            reconcile.begin_render()
            is_first = not reconcile.state.reconciled_before
            try:
                report = await self._reconcile(reconcile)
            except ApiError as error:
                if reconcile.publishing or not (error.forbidden or error.too_large):
                    raise
                report = await report_forbidden(reconcile, error, self._phases)
            if is_first:
                await renew_owner_references(reconcile)
        except Postponed:
            return Reconciled(state=_with_records(reconcile), report=reconcile.acted, postponed=True)
        except Exception as error:  # noqa: BLE001 - the worker reports it; what this reconcile did must not be forgotten
            if not (reconcile.publishing or isinstance(error, ApiError | CredentialsError)):
                await report_bug(reconcile, error, self._phases)
            return Reconciled(state=_with_records(reconcile), error=_without_frames(error))
        return Reconciled(state=_with_records(reconcile), report=report)

    async def _reconcile(self, reconcile: Reconcile) -> Report:
        await restore_parent_records(reconcile, self._clock.monotonic())
        live, suspend_when = reconcile.parent.live, reconcile.parent.folder.settings.suspend_when
        if reconcile.parent.orphans_children and FINALIZER in live.metadata.finalizers:
            return await leave_children(reconcile, self._phases)
        if verdict := idle_verdict(reconcile):
            return await report_idle(reconcile, verdict, self._phases)
        if live.deleting:
            return await finalize(reconcile, self._phases)
        if why := await self.observer.renderer.judged(reconcile, partial(suspension_message, live, suspend_when)):
            reconcile.suspended = True
            return await report_suspended(reconcile, why, self._phases)
        inputs = self._repeater.inputs(reconcile)
        observed, rendered = await self.observer.observe(reconcile)
        plan = await self._planner.plan(reconcile, observed, rendered)
        outcomes = await self._act(reconcile, plan)
        report = await self._report(reconcile, plan, outcomes)
        report = await self._publisher.publish(reconcile, report)
        await reconcile.steps.rest()
        if inputs is not None:
            repeatable = self._repeater.repeatable(reconcile, inputs, plan, outcomes, report)
            reconcile.state = replace(reconcile.state, repeatable=repeatable)
        return report

    async def _act(self, reconcile: Reconcile, plan: Plan) -> Outcomes:
        # What is applied may wait for the readiness of what exists.
        await self._executor.judge(reconcile, ((step, step.live) for step in plan.steps))
        plan = await record_before_apply(reconcile, plan)
        outcomes = with_repeated(await self._executor.carry_out(reconcile, plan), reconcile)
        await reconcile.steps.rest()
        outcomes = await record_once(reconcile, plan.observed.records, outcomes, self._clock.now())
        with self._reporter.status_may_follow(reconcile, self._make_report(reconcile, plan, outcomes)):
            diagnosed = await self._executor.diagnose(reconcile, outcomes)
        return self._executor.learn(reconcile, plan, diagnosed)

    async def _report(self, reconcile: Reconcile, plan: Plan, outcomes: Outcomes) -> Report:
        make = self._make_report(reconcile, plan, outcomes)
        report = await self._reporter.report(reconcile, plan, plan.rendered, outcomes, make)
        obsolete = await delete_kept_values(reconcile, plan, outcomes)
        await trim_records(reconcile, plan, outcomes, obsolete, obsolete_replicas(reconcile, plan, outcomes))
        await reconcile.steps.rest()
        return self._reporter.scheduled(reconcile, plan.observed, outcomes, report)

    def _make_report(self, reconcile: Reconcile, plan: Plan, outcomes: Outcomes) -> MakeReport:
        def make(own: StatusFields) -> Report:
            shown = redacted_outcomes(outcomes, reconcile.state.secrets)
            return make_report(reconcile.parent.live, plan, shown, own, self._clock.now())

        return make

    async def warm(self, parent: Parent, state: ParentState) -> None:
        """Watch what a reconcile of the parent reads, and write nothing. Raises ApiError and CredentialsError."""
        reconcile = Reconcile.begin(self._cluster, parent, state, Cause.FIRST_LIST)
        await reconcile.steps.measured(self.observer.observe(reconcile))

    async def write_status(self, parent: Parent, state: ParentState) -> Reconciled:
        """Write the status that the last reconcile deferred."""
        reconcile = Reconcile.begin(self._cluster, parent, state, Cause.STATUS)
        return await _only_published(reconcile, self._publisher.write_status(reconcile))

    async def report_suspicion(self, parent: Parent, state: ParentState, why: str) -> Reconciled:
        """Report on a parent that is not reconciled yet, because the process died while it was."""
        reconcile = Reconcile.begin(self._cluster, parent, state, Cause.STATUS)

        async def publish() -> Report:
            report = make_suspicion_report(parent.live, why, self._clock.now())
            return await self._publisher.publish_as_it_is(reconcile, report, later=False)

        return await _only_published(reconcile, publish())


async def _only_published(reconcile: Reconcile, publishing: Awaitable[object]) -> Reconciled:
    try:
        await publishing
    except Exception as error:  # noqa: BLE001 - the worker reports it; what is known must not be forgotten
        return Reconciled(state=reconcile.state, error=_without_frames(error))
    return Reconciled(state=reconcile.state)


def _with_records(reconcile: Reconcile) -> ParentState:
    """The state with the records that the parent has now."""
    live, state = reconcile.parent.live, reconcile.state
    texts = record_texts(live)
    return state if state.records == texts else replace(state, records=texts, records_version=live.resource_version)


def _without_frames(error: Exception) -> Exception:
    """The error of a reconcile. A failed request is reported by its text, and loses the frames that led to it: after
    Python 3.11 they hold the result of the reconcile, which holds the error.
    """
    if isinstance(error, ApiError | CredentialsError):
        error.__cause__ = error.__context__ = error.__traceback__ = None
    return error
