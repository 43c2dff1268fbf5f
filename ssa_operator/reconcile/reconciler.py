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
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.render_result import StatusFields
from ssa_operator.reconcile.act import Outcomes, carry_out, diagnose, judge, learn
from ssa_operator.reconcile.current_reconcile import Reconcile, SharedCluster
from ssa_operator.reconcile.finalization.finalizer import finalize
from ssa_operator.reconcile.idle_reports import idle_verdict, report_bug, report_forbidden, report_idle
from ssa_operator.reconcile.kept_values import delete_kept_values, obsolete_replicas
from ssa_operator.reconcile.observe import observe
from ssa_operator.reconcile.orphaning.requests import leave_children
from ssa_operator.reconcile.owner_references import renew_owner_references
from ssa_operator.reconcile.parent_records.lost_records import record_texts
from ssa_operator.reconcile.parent_records.requests import (
    record_before_apply,
    record_once,
    restore_parent_records,
    trim_records,
)
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.planner import plan_parent
from ssa_operator.reconcile.render_turns import Postponed, let_renders_wait
from ssa_operator.reconcile.renderer import judged
from ssa_operator.reconcile.resync.requests import repeat_resync, repeatable_resync, resync_inputs, with_repeated
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.status.report import Report, make_report, make_suspicion_report
from ssa_operator.reconcile.status.requests import (
    MakeReport,
    publish,
    publish_as_it_is,
    report_on_plan,
    scheduled,
    status_may_follow,
    write_status,
)
from ssa_operator.reconcile.suspension import report_suspended, suspension_message


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
    """Reconciles parents of one cluster."""

    def __init__(self, cluster: SharedCluster) -> None:
        self._cluster = cluster

    async def reconcile(self, parent: Parent, state: ParentState, causes: Cause) -> Reconciled:
        """Reconcile a parent. Where other parents wait, its status may be left to `write_status`."""
        reconcile = Reconcile.begin(self._cluster, parent, state, causes)
        with reconcile.judgements.used():
            return await reconcile.steps.measured(_reconciled(reconcile))

    async def warm(self, parent: Parent, state: ParentState) -> None:
        """Watch what a reconcile of the parent reads, and write nothing. Raises ApiError and CredentialsError."""
        reconcile = Reconcile.begin(self._cluster, parent, state, Cause.FIRST_LIST)
        await reconcile.steps.measured(observe(reconcile))

    async def write_status(self, parent: Parent, state: ParentState) -> Reconciled:
        """Write the status that the last reconcile deferred."""
        reconcile = Reconcile.begin(self._cluster, parent, state, Cause.STATUS)
        return await _only_published(reconcile, write_status(reconcile))

    async def report_suspicion(self, parent: Parent, state: ParentState, why: str) -> Reconciled:
        """Report on a parent that is not reconciled yet, because the process died while it was."""
        reconcile = Reconcile.begin(self._cluster, parent, state, Cause.STATUS)
        report = make_suspicion_report(parent.live, why, self._cluster.clock.now())
        return await _only_published(reconcile, publish_as_it_is(reconcile, report, later=False))


async def _reconciled(reconcile: Reconcile) -> Reconciled:
    try:
        if await repeat_resync(reconcile):
            return Reconciled(state=_with_records(reconcile), report=reconcile.state.status.report)
        if reconcile.repeated:
            let_renders_wait()
        reconcile.begin_render()
        is_first = not reconcile.state.reconciled_before
        try:
            report = await _reconcile(reconcile)
        except ApiError as error:
            if reconcile.publishing or not (error.forbidden or error.too_large):
                raise
            report = await report_forbidden(reconcile, error)
        if is_first:
            await renew_owner_references(reconcile)
    except Postponed:
        return Reconciled(state=_with_records(reconcile), report=reconcile.acted, postponed=True)
    except Exception as error:  # noqa: BLE001 - the worker reports it; what this reconcile did must not be forgotten
        if not (reconcile.publishing or isinstance(error, ApiError | CredentialsError)):
            await report_bug(reconcile, error)
        return Reconciled(state=_with_records(reconcile), error=_without_frames(error))
    return Reconciled(state=_with_records(reconcile), report=report)


async def _reconcile(reconcile: Reconcile) -> Report:
    await restore_parent_records(reconcile, reconcile.monotonic())
    live, suspend_when = reconcile.parent.live, reconcile.parent.folder.settings.suspend_when
    if reconcile.parent.orphans_children and FINALIZER in live.metadata.finalizers:
        return await leave_children(reconcile)
    if verdict := idle_verdict(reconcile):
        return await report_idle(reconcile, verdict)
    if live.deleting:
        return await finalize(reconcile)
    if why := await judged(reconcile, partial(suspension_message, live, suspend_when)):
        reconcile.suspended = True
        return await report_suspended(reconcile, why)
    inputs = resync_inputs(reconcile)
    observed, rendered = await observe(reconcile)
    plan = await plan_parent(reconcile, observed, rendered)
    outcomes = await _act(reconcile, plan)
    report = await publish(reconcile, await _report(reconcile, plan, outcomes))
    await reconcile.steps.rest()
    if inputs is not None:
        repeatable = await repeatable_resync(reconcile, inputs, plan, outcomes, report)
        reconcile.state = replace(reconcile.state, repeatable=repeatable)
    return report


async def _act(reconcile: Reconcile, plan: Plan) -> Outcomes:
    # What is applied may wait for the readiness of what exists.
    await judge(reconcile, ((step, step.live) for step in plan.steps))
    plan = await record_before_apply(reconcile, plan)
    outcomes = with_repeated(await carry_out(reconcile, plan), reconcile)
    await reconcile.steps.rest()
    outcomes = await record_once(reconcile, plan.observed.records, outcomes, reconcile.now())
    with status_may_follow(reconcile, _make_report(reconcile, plan, outcomes)):
        diagnosed = await diagnose(reconcile, outcomes)
    return learn(reconcile, plan, diagnosed)


async def _report(reconcile: Reconcile, plan: Plan, outcomes: Outcomes) -> Report:
    make = _make_report(reconcile, plan, outcomes)
    report = await report_on_plan(reconcile, plan, plan.rendered, outcomes, make)
    obsolete = await delete_kept_values(reconcile, plan, outcomes)
    await trim_records(reconcile, plan, outcomes, obsolete, obsolete_replicas(reconcile, plan, outcomes))
    await reconcile.steps.rest()
    return scheduled(reconcile, plan.observed, outcomes, report)


def _make_report(reconcile: Reconcile, plan: Plan, outcomes: Outcomes) -> MakeReport:
    def make(own: StatusFields) -> Report:
        shown = redacted_outcomes(outcomes, reconcile.state.secrets)
        return make_report(reconcile.parent.live, plan, shown, own, reconcile.now())

    return make


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
