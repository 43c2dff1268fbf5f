"""One reconcile of one parent: observe and render, plan, act, report, publish.

Promises:
- A reconcile is a straight line. It reads the cluster from caches, writes children and then the status, and returns
  what the process remembers of the parent.
- While a parent is suspended, nothing is applied or deleted. While it is being deleted, only its finalize hooks are
  applied. If it is deleted without its children (`--cascade=orphan`), nothing is applied or deleted.
- While the operator impersonates accounts, nothing is applied or deleted for a cluster-scoped parent whose folder
  doesn't allow cluster scope.
- While a record on a parent can't be read, nothing is applied or deleted for it, and it keeps the finalizer.
- If a request fails, or a bug raises, the reconcile ends and returns what it knows by then: a child that was deleted to
  be recreated is not forgotten. The status names the bug.
- The children of other parents that wait go before this parent's status. Another namespace's burst of changes does not
  defer it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.informer import SYNC_DEADLINE
from ssa_operator.informers.parents import Parent, ParentKey
from ssa_operator.kube.api.backoff import earliest
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import MESSAGE_LIMIT, bounded
from ssa_operator.objects.render_result import Rendered, StatusFields
from ssa_operator.reconcile import promises
from ssa_operator.reconcile.act import act
from ssa_operator.reconcile.child_history import CarriedOut
from ssa_operator.reconcile.cluster_access import SharedCluster
from ssa_operator.reconcile.context import Stage, stage
from ssa_operator.reconcile.failures import bug_message
from ssa_operator.reconcile.finalization.deletion_cycles import pause_before_next_look
from ssa_operator.reconcile.finalization.requests import without_failures_in_ending_namespaces
from ssa_operator.reconcile.finalization.rules import Finalization, advances_deletion, was_orphaned
from ssa_operator.reconcile.finalization.stuck_deletions import removal_advice
from ssa_operator.reconcile.follow_ups.memory import FollowUps
from ssa_operator.reconcile.generated_values.requests import delete_kept_values, obsolete_replicas
from ssa_operator.reconcile.guard import ReconcileGuard
from ssa_operator.reconcile.impersonation.reviews import ANSWER_LIFETIME
from ssa_operator.reconcile.impersonation.rules import refusal
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observe import Observer, own_children
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.ordering import inputs_changed
from ssa_operator.reconcile.orphaning.requests import release_children
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.parent_records.lost_records import NO_NOTICE, record_texts
from ssa_operator.reconcile.parent_records.requests import (
    ATTEMPTS,
    read_again,
    record_before_apply,
    record_once,
    restore_parent_records,
    save_parent_records,
    trim_records,
)
from ssa_operator.reconcile.parent_records.rules import ParentRecords, unreadable_records_message
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.plan import Plan, render_history_after
from ssa_operator.reconcile.planner import Planner
from ssa_operator.reconcile.pod_failures.memory import PodChecks
from ssa_operator.reconcile.pod_failures.requests import diagnose_pods
from ssa_operator.reconcile.pod_failures.workload_event_requests import WorkloadEvents
from ssa_operator.reconcile.render_turns import Postponed, let_renders_wait
from ssa_operator.reconcile.resync.requests import Repeater, with_repeated
from ssa_operator.reconcile.secrets.redacted_report import (
    redacted_error,
    redacted_finalization,
    redacted_outcomes,
    with_left_out,
)
from ssa_operator.reconcile.settings import ReconcileSettings
from ssa_operator.reconcile.shards.other_shards import REMEMBERED_SECONDS
from ssa_operator.reconcile.status.events import children_orphaned, reported_verdict
from ssa_operator.reconcile.status.report import (
    Report,
    make_deletion_report,
    make_idle_report,
    make_report,
    make_suspended_report,
    make_suspicion_report,
    with_crd_refusal,
    with_records_notice,
)
from ssa_operator.reconcile.status.requests import Publisher
from ssa_operator.reconcile.status.verdict import ReadyReason, Verdict
from ssa_operator.reconcile.step import Step
from ssa_operator.reconcile.step_record import StepRecord
from ssa_operator.reconcile.suspension.rules import outcomes_while_suspended, suspension_message
from ssa_operator.reconcile.turn import Turn

log = logging.getLogger("ssa_operator")

GUESS_PAUSE = 1.0
"""Seconds after which a parent is reconciled again if a child waited only because an expression takes long."""

Outcomes = tuple[Outcome, ...]

_NO_FIELDS = StatusFields()


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
    wait that are at least as urgent as this one with these causes. `record` is where steps of reconciles are recorded.
    """

    def __init__(
        self,
        cluster: SharedCluster,
        claims: ObjectClaims,
        settings: ReconcileSettings,
        others_wait: Callable[[Cause, ParentKey], bool] = lambda *_: False,
        clock: Clock = SYSTEM,
        record: StepRecord | None = None,
    ) -> None:
        self._cluster = cluster
        self._claims = claims
        self.observer = Observer(cluster, claims, settings, clock, record)
        self._repeater = Repeater(cluster, settings, clock)
        self._planner = Planner(cluster, claims, self.observer, clock)
        self._publisher = Publisher(cluster, settings.conflict_policy, clock.now)
        self._workload_events = WorkloadEvents()
        self._others_wait = others_wait
        self._now = clock.now
        self._clock = clock

    async def reconcile(self, parent: Parent, state: ParentState, causes: Cause) -> Reconciled:
        """Reconcile a parent. Where other parents wait, its status may be left to `write_status`."""
        turn = Turn.begin(self._cluster, parent, state, causes)
        with turn.judgements.used():
            return await turn.steps.measured(self._reconciled(turn))

    async def _reconciled(self, turn: Turn) -> Reconciled:
        try:
            if await self._repeater.repeat(turn):
                return Reconciled(state=_with_records(turn), report=turn.state.status.report)
            if turn.repeated:
                let_renders_wait()
            turn.begin_render()
            try:
                report = await self._reconcile(turn)
            except ApiError as error:
                if turn.publishing or not (error.forbidden or error.too_large):
                    raise
                report = await self._report_forbidden(turn, error)
        except Postponed:
            return Reconciled(state=_with_records(turn), report=turn.acted, postponed=True)
        except Exception as error:  # noqa: BLE001 - the worker reports it; what this reconcile did must not be forgotten
            if not (turn.publishing or isinstance(error, ApiError | CredentialsError)):
                await self._report_bug(turn, error)
            return Reconciled(state=_with_records(turn), error=_without_frames(error))
        return Reconciled(state=_with_records(turn), report=report)

    async def warm(self, parent: Parent, state: ParentState) -> None:
        """Watch what a reconcile of the parent reads, and write nothing. Raises ApiError and CredentialsError."""
        turn = Turn.begin(self._cluster, parent, state, Cause.FIRST_LIST)
        await turn.steps.measured(self.observer.observe(turn))

    async def write_status(self, parent: Parent, state: ParentState) -> Reconciled:
        """Write the status that the last reconcile deferred."""
        turn = Turn.begin(self._cluster, parent, state, Cause.STATUS)
        try:
            await self._publisher.write_status(turn, self._clock.monotonic())
        except Exception as error:  # noqa: BLE001 - as above
            return Reconciled(state=turn.state, error=_without_frames(error))
        return Reconciled(state=turn.state)

    async def report_suspicion(self, parent: Parent, state: ParentState, why: str, *, stalled: bool) -> Reconciled:
        """Report on a parent that is not reconciled yet, because a process was held up or died while it was."""
        turn = Turn.begin(self._cluster, parent, state, Cause.STATUS)
        try:
            report = make_suspicion_report(parent.live, why, self._now(), stalled=stalled)
            await self._publisher.publish(turn, report, self._clock.monotonic(), later=False)
        except Exception as error:  # noqa: BLE001 - as above
            return Reconciled(state=turn.state, error=_without_frames(error))
        return Reconciled(state=turn.state)

    async def _reconcile(self, turn: Turn) -> Report:
        await restore_parent_records(turn, self._clock.monotonic())
        live = turn.parent.live
        if turn.parent.orphans_children and FINALIZER in live.metadata.finalizers:
            return await self._leave_children(turn)
        if why := self._refusal(turn.parent):
            return await self._report_cluster_scoped(turn, why)
        if live.deleting and FINALIZER not in live.metadata.finalizers:
            return await self._report_leaving(turn)
        if why := unreadable_records_message(live):
            return await self._report_unreadable(turn, why)
        if live.deleting:
            return await self._reconcile_deletion(turn)
        suspend_when = turn.parent.folder.settings.suspend_when
        if why := await self.observer.judged(turn, lambda: suspension_message(live, suspend_when)):
            return await self._reconcile_suspended(turn, why)
        inputs = self._repeater.inputs(turn)
        observed, rendered = await self.observer.observe(turn)
        plan = await self._planner.plan(turn, observed, rendered)
        outcomes = await self._act(turn, plan)
        report = await self._report(turn, plan, outcomes)
        report = await self._publish(turn, report)
        await turn.steps.rest()
        if inputs is not None:
            repeatable = self._repeater.repeatable(turn, inputs, plan, outcomes, report)
            turn.state = replace(turn.state, repeatable=repeatable)
        return report

    async def _reconcile_suspended(self, turn: Turn, why: str) -> Report:
        """A reconcile that reports on the children, and applies and deletes nothing."""
        observed, rendered = await self.observer.observe(turn)
        plan = await self._planner.plan(turn, observed, rendered)
        outcomes = await self._diagnose(turn, outcomes_while_suspended(plan))
        report = await self._report_suspended(turn, plan, outcomes, why)
        return await self._publish(turn, report)

    async def _reconcile_deletion(self, turn: Turn) -> Report:
        """A reconcile of a parent that is being deleted and that has the operator's finalizer."""
        observed, rendered = await self.observer.observe(turn)
        if was_orphaned(observed, rendered):
            return await self._leave_children(turn)
        deletion = await self._planner.plan_deletion(turn, observed, rendered)
        if deletion.finished:
            return await self._release(turn, deletion)
        outcomes = await self._finalize(turn, deletion)
        report = await self._report_deletion(turn, deletion, outcomes, rendered)
        return await self._publish(turn, report)

    # Act.

    async def _act(self, turn: Turn, plan: Plan) -> Outcomes:
        # What is applied may wait for the readiness of what exists.
        await self._judge(turn, ((step, step.live) for step in plan.steps))
        plan = await record_before_apply(turn, plan)
        outcomes = with_repeated(await self._carry_out(turn, plan), turn)
        await turn.steps.rest()
        outcomes = await record_once(turn, plan.observed.records, outcomes, self._now())
        with self._status_may_follow(turn, lambda: self._made_report(turn, plan, outcomes, _NO_FIELDS)):
            diagnosed = await self._diagnose(turn, outcomes)
        return self._learn(turn, plan, diagnosed)

    async def _judge(self, turn: Turn, objects: Iterable[tuple[Step, LiveObject | None]]) -> None:
        """Judge objects that have a rule of readiness of their own, so that what follows needs no time for it."""
        asked = [(step, live) for step, live in objects if live is not None and step.rule is not None]
        if asked:
            await self.observer.judged(turn, lambda: [step.readiness_of(live, self._now()) for step, live in asked])

    async def _finalize(self, turn: Turn, deletion: Finalization) -> Outcomes:
        await save_parent_records(turn, deletion.records)
        outcomes = await self._carry_out(turn, deletion.plan)
        outcomes = await without_failures_in_ending_namespaces(outcomes, turn.parent.live, self._cluster)
        with self._status_may_follow(turn, lambda: self._made_deletion_report(turn, deletion, outcomes, _NO_FIELDS)):
            await self._judge(turn, ((outcome.step, outcome.live) for outcome in outcomes))
        return self._learn(turn, deletion.plan, outcomes)

    async def _release(self, turn: Turn, deletion: Finalization) -> Report:
        """Remove the finalizer, so that the API server deletes the parent. The garbage collector deletes nothing that
        the parent lives in.
        """
        why_kept = deletion.plan.observed.why_kept
        await release_children(turn.cluster, turn.parent.live, why_kept)
        await save_parent_records(turn, ParentRecords())
        deletion = redacted_finalization(deletion, turn.state.secrets)
        return make_deletion_report(turn.parent.live, deletion, (), StatusFields(), self._now())

    async def _leave_children(self, turn: Turn) -> Report:
        """Remove the finalizer of a parent whose children stay, after the status and an Event have said so."""
        let_renders_wait()
        self._cluster.recorder.emit(turn.parent.live, (children_orphaned(_CHILDREN_STAY),))
        turn.causes |= Cause.STATUS_OVERDUE  # there is no later time to write it
        try:
            return await self._report_children_stay(turn)
        finally:
            await release_children(turn.cluster, turn.parent.live)
            await save_parent_records(turn, ParentRecords())

    async def _report_children_stay(self, turn: Turn) -> Report:
        """The report, also if the garbage collector changes the parent meanwhile: it removes its own finalizer."""
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._report_idle(turn, _deleting(_CHILDREN_STAY))
            except ApiError as error:
                now = await read_again(turn.cluster, turn.parent) if error.conflict else None
                if now is None:
                    raise
            turn.take_parent(replace(turn.parent, live=now))
        return await self._report_idle(turn, _deleting(_CHILDREN_STAY))

    async def _carry_out(self, turn: Turn, plan: Plan) -> Outcomes:
        cluster = replace(turn.cluster, guard=ReconcileGuard(turn, plan))
        with stage(Stage.ACT):
            outcomes = await act(plan, cluster, self._now())
        turn.guessed = turn.judgements.missing
        turn.state = replace(turn.state, children=promises.after_act(turn.state.children, outcomes))
        return outcomes

    async def _diagnose(self, turn: Turn, outcomes: Outcomes) -> Outcomes:
        await self._judge(turn, ((outcome.step, outcome.live) for outcome in outcomes))
        history = turn.state.children
        outcomes, checks = await diagnose_pods(
            outcomes, history[PodChecks].by_child, turn.cluster, self._workload_events, self._clock
        )
        turn.state = replace(turn.state, children=history.remember(PodChecks(checks)))
        return outcomes

    def _learn(self, turn: Turn, plan: Plan, outcomes: Outcomes) -> Outcomes:
        """Update the history of the children. Returns the outcomes without what was logged of earlier ones."""
        history, now = turn.state.children, self._now()
        follows = inputs_changed(plan.rendered, outcomes, now) or (
            turn.parent.live.deleting and advances_deletion(outcomes, now)
        )
        done = CarriedOut(
            outcomes=outcomes,
            rendered=plan.rendered,
            before=history,
            follows=follows,
            read_by=self._claims.read_by,
            now=self._clock.monotonic(),
        )
        turn.state = replace(turn.state, children=promises.after(history, done))
        return promises.news(history, outcomes)

    def _learn_plan(self, turn: Turn, plan: Plan, report: Report) -> None:
        renders = render_history_after(plan, turn.state.renders, complete=report.complete)
        turn.newly_converged = (
            renders.applied_digest is not None and renders.applied_digest != turn.state.renders.applied_digest
        )
        # Only a reconcile that comes to its end fulfils `reconcile-at`.
        turn.state = replace(turn.state, renders=renders, reconcile_at=plan.observed.reconcile_at)

    # Report.

    async def _report(self, turn: Turn, plan: Plan, outcomes: Outcomes) -> Report:
        with self._status_may_follow(turn, lambda: self._made_report(turn, plan, outcomes, _NO_FIELDS)):
            own = await self.observer.render_status(turn, _live_objects(outcomes), plan.rendered.ready_when)
            await turn.steps.rest()
            report = await self.observer.judged(turn, lambda: self._made_report(turn, plan, outcomes, own))
        await turn.steps.rest()
        self._learn_plan(turn, plan, report)
        obsolete = await delete_kept_values(turn, plan, outcomes)
        numbers = obsolete_replicas(turn, plan, outcomes)
        await trim_records(turn, plan, outcomes, obsolete, numbers)
        report = with_left_out(report, own.left_out)
        await turn.steps.rest()
        return self._scheduled(turn, plan.observed, outcomes, report)

    def _made_report(self, turn: Turn, plan: Plan, outcomes: Outcomes, own: StatusFields) -> Report:
        shown = redacted_outcomes(outcomes, turn.state.secrets)
        return make_report(turn.parent.live, plan, shown, own, self._now())

    @contextmanager
    def _status_may_follow(self, turn: Turn, report: Callable[[], Report]) -> Iterator[None]:
        """If the block can't wait for the thread, emit the Events of what was done. The reconcile that follows has the
        verdict, and writes the status. It begins as this one did: what follows from a whole reconcile is not learned.
        """
        try:
            yield
        except Postponed:
            status, live = turn.state.status, turn.parent.live
            verdict = status.report.verdict if status.report is not None else reported_verdict(live)
            turn.acted = replace(report(), verdict=verdict or _STATUS_FOLLOWS)
            self._publisher.emit_events(turn, turn.acted)
            turn.state = replace(turn.state, status=status)
            raise

    async def _report_suspended(self, turn: Turn, plan: Plan, outcomes: Outcomes, why: str) -> Report:
        own = await self.observer.render_status(turn, _live_objects(outcomes), plan.rendered.ready_when)
        shown = redacted_outcomes(outcomes, turn.state.secrets)
        live, now = turn.parent.live, self._now()
        report = await self.observer.judged(turn, lambda: make_suspended_report(live, shown, own, now, why))
        report = _after_sync(with_left_out(report, own.left_out), plan.observed)
        return _due_at(report, turn.state.children.due_at(self._clock.monotonic()))

    async def _report_deletion(
        self, turn: Turn, deletion: Finalization, outcomes: Outcomes, rendered: Rendered
    ) -> Report:
        with self._status_may_follow(turn, lambda: self._made_deletion_report(turn, deletion, outcomes, _NO_FIELDS)):
            own = await self.observer.render_status(turn, _live_objects(outcomes), rendered.ready_when)
            report = await self.observer.judged(turn, lambda: self._made_deletion_report(turn, deletion, outcomes, own))
        self._learn_plan(turn, deletion.plan, report)
        report = with_left_out(report, own.left_out)
        if report.verdict.stalled or deletion.needs_person:
            # No event shows that a permission is granted, or that the namespace of what can't be read ends.
            report = _due_at(report, self._clock.monotonic() + ANSWER_LIFETIME)
        elif deletion.awaited_ends:
            pause = pause_before_next_look(deletion.awaited_ends, self._now())
            report = _due_at(report, self._clock.monotonic() + pause)
        return self._scheduled(turn, deletion.plan.observed, outcomes, report)

    def _made_deletion_report(
        self, turn: Turn, deletion: Finalization, outcomes: Outcomes, own: StatusFields
    ) -> Report:
        secrets = turn.state.secrets
        shown, shown_outcomes = redacted_finalization(deletion, secrets), redacted_outcomes(outcomes, secrets)
        return make_deletion_report(turn.parent.live, shown, shown_outcomes, own, self._now())

    async def _report_leaving(self, turn: Turn) -> Report:
        """The report on a parent that is being deleted and that does not have the operator's finalizer."""
        self.observer.follow(turn.parent, Cause.TEMPLATE, {})
        stay = turn.parent.orphans_children
        return await self._report_idle(
            turn, _deleting(_CHILDREN_STAY if stay else "is being deleted; its children go with it")
        )

    async def _report_forbidden(self, turn: Turn, error: ApiError) -> Report:
        """The report on a parent whose reconcile a missing permission ended, or a parent without room for a record."""
        turn.lacks_permission = error.forbidden
        message, before = redacted_error(error, turn.state.secrets), turn.state.status.report
        if advice := removal_advice(turn.parent.live):
            message = f"{bounded(message, MESSAGE_LIMIT - len(advice) - 2)}; {advice}"
        try:
            return await self._report_idle(turn, _stalled(ReadyReason.FORBIDDEN, message))
        except ApiError:
            if before is None or before.verdict.message != message:
                log.warning("%s: %s", turn.key, message)
            raise

    async def _report_bug(self, turn: Turn, bug: Exception) -> None:
        """Write a status that names the bug. It is left as it is where the same bug prevents that."""
        let_renders_wait()
        verdict = Verdict(ready=False, reason=ReadyReason.INTERNAL_ERROR.value, message=f"it {bug_message(bug)}")
        try:
            await self._report_idle(turn, verdict)
        except Exception:
            log.exception("%s: the status of a reconcile that met a bug could not be written", turn.key)

    async def _report_unreadable(self, turn: Turn, why: str) -> Report:
        """The report on a parent with a record that can't be read."""
        self.observer.follow(turn.parent, Cause.TEMPLATE, {})
        return await self._report_idle(turn, _stalled(ReadyReason.UNREADABLE_RECORD, why))

    async def _report_cluster_scoped(self, turn: Turn, why: str) -> Report:
        """The report on a parent without a service account. Its status template has no account to read with."""
        self.observer.follow(turn.parent, Cause.TEMPLATE, {})
        children = await self._existing_children(turn)
        return await self._publish_idle(turn, _stalled(ReadyReason.CLUSTER_SCOPED, why), children, StatusFields())

    async def _report_idle(self, turn: Turn, verdict: Verdict) -> Report:
        """The report on a parent for which nothing is applied."""
        children = await self._existing_children(turn)
        own = await self.observer.render_status(turn, children)
        return await self._publish_idle(turn, verdict, children, own)

    async def _existing_children(self, turn: Turn) -> list[LiveObject]:
        """The children that exist, also those that an earlier process reported: a status without them would hide their
        kinds from the next process.
        """
        await self.observer.watch_recorded(turn)
        # Other objects have the label of children, too: EndpointSlices, and Secrets that keep generated values.
        return [live for live in own_children(turn) if live.owned_fields()]

    async def _publish_idle(
        self, turn: Turn, verdict: Verdict, children: Sequence[LiveObject], own: StatusFields
    ) -> Report:
        # No reconcile follows at once, which would write the status.
        turn.state = replace(turn.state, children=turn.state.children.remember(FollowUps()))
        report = make_idle_report(turn.parent.live, verdict, children, own, self._now(), turn.state.secrets)
        return await self._publish(turn, with_left_out(report, own.left_out))

    def _refusal(self, parent: Parent) -> str:
        """Why nothing is applied for a parent that can't be impersonated, '' where something may be."""
        scope = parent.folder.settings.cluster_scope
        return refusal(self._cluster.impersonate, parent.live.identity, cluster_scope=scope)

    def _scheduled(self, turn: Turn, observed: Observed, outcomes: Outcomes, report: Report) -> Report:
        """The report with the time of the next reconcile: when a promise needs one, or when another shard's parent may
        have released an object.
        """
        now = self._clock.monotonic()
        report = _after_sync(report, observed)
        if turn.guessed:
            report = _due_at(report, now + GUESS_PAUSE)
        if any(outcome.step.owner_in_other_shard for outcome in outcomes):
            report = _due_at(report, now + REMEMBERED_SECONDS)
        return _due_at(report, turn.state.children.due_at(now))

    # Publish.

    async def _publish(self, turn: Turn, report: Report) -> Report:
        turn.publishing = True
        await turn.steps.rest()
        report = with_crd_refusal(self._with_notice_of_lost_records(turn, report), turn.parent.crd_refusal)
        failed = any(outcome.result is Result.FAILED for outcome in report.outcomes)
        if turn.lacks_permission or (failed and turn.cluster.account):
            # The account may lack a permission, and no event shows that somebody grants it.
            report = _due_at(report, self._clock.monotonic() + ANSWER_LIFETIME)
        if turn.state.children[FollowUps].at_once:
            # The next reconcile follows at once. It knows more, and writes the status.
            self._publisher.emit_events(turn, report)
            return report
        # The status waits for parents that are at least as urgent, until it is overdue.
        later = Cause.STATUS_OVERDUE not in turn.causes and self._others_wait(turn.causes | Cause.TEMPLATE, turn.key)
        with stage(Stage.PUBLISH):
            return await self._publisher.publish(turn, report, self._clock.monotonic(), later=later)

    def _with_notice_of_lost_records(self, turn: Turn, report: Report) -> Report:
        """The report that names a loss of records for a while."""
        notice = turn.state.records_notice
        if notice is NO_NOTICE:
            return report
        if self._clock.monotonic() >= notice.until:
            turn.state = replace(turn.state, records_notice=NO_NOTICE)
            return report
        report = with_records_notice(report, notice.message)
        return _due_at(report, notice.until)


def _with_records(turn: Turn) -> ParentState:
    """The state with the records that the parent has now."""
    texts = record_texts(turn.parent.live)
    return turn.state if turn.state.records == texts else replace(turn.state, records=texts)


def _without_frames(error: Exception) -> Exception:
    """The error of a reconcile. A failed request is reported by its text, and loses the frames that led to it: after
    Python 3.11 they hold the result of the reconcile, which holds the error.
    """
    if isinstance(error, ApiError | CredentialsError):
        error.__cause__ = error.__context__ = error.__traceback__ = None
    return error


def _after_sync(report: Report, observed: Observed) -> Report:
    """The report with the time of the next reconcile if an informer has not synced, because its sync may come too early
    to requeue the parent.
    """
    unsynced = any(not kind.synced and not kind.problem for kind in observed.children.kinds.values())
    return _due_at(report, observed.monotonic + SYNC_DEADLINE) if unsynced else report


def _due_at(report: Report, moment: float | None) -> Report:
    """The report with another moment at which the next reconcile is due."""
    return replace(report, due=earliest(report.due, moment))


_CHILDREN_STAY = (
    "is being deleted without its children (--cascade=orphan): they stay, and no finalize hook runs; a parent that is "
    "created again under this name takes them back"
)


_STATUS_FOLLOWS = Verdict(ready=False, reason=ReadyReason.PROGRESSING.value, message="its status is rendered next")


def _deleting(message: str) -> Verdict:
    return Verdict(ready=False, reason=ReadyReason.DELETING.value, message=message)


def _stalled(reason: ReadyReason, message: str) -> Verdict:
    return Verdict(ready=False, reason=reason.value, message=bounded(message, MESSAGE_LIMIT), stalled=True)


def _live_objects(outcomes: Iterable[Outcome]) -> list[LiveObject]:
    return [outcome.live for outcome in outcomes if outcome.live is not None]
