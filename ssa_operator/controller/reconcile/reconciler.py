"""One pass over one parent: observe, render, plan, act, report, publish.

Promises:
- A pass is a straight line. It reads the cluster from caches, writes children and then the status, and keeps nothing
  but what it remembers of the parent: the proofs of its children and what it last reported.
- Children are not applied while their parent is being deleted or suspended.
- Where children of other parents wait, they go before a status.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ssa_operator.controller.options import Options
from ssa_operator.controller.queue import Cause
from ssa_operator.controller.reconcile.apply import act
from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.observe import Observer
from ssa_operator.controller.reconcile.parent_records import (
    record_before_apply,
    record_once,
    save_parent_records,
    trim_inventory,
)
from ssa_operator.controller.reconcile.pod_diagnosis import diagnose_pods
from ssa_operator.controller.reconcile.publish import Publisher
from ssa_operator.controller.watches.informer import SYNC_DEADLINE
from ssa_operator.controller.watches.object_claims import ObjectClaims
from ssa_operator.controller.watches.parent_cache import Memory, Parent, acted, recreated, remember
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import Rendered, StatusFields
from ssa_operator.core.planning.finalization import Circumstances, make_finalization
from ssa_operator.core.planning.observed import Observed
from ssa_operator.core.planning.ordering import CHANGED, Requeues, inputs_changed
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.plan import Plan, make_plan
from ssa_operator.core.planning.step import Action
from ssa_operator.core.planning.suspension import is_suspended, outcomes_while_suspended
from ssa_operator.core.policies import apply_once, parent_records
from ssa_operator.core.policies.backoff import earliest
from ssa_operator.core.policies.feedback_loops import with_changes, without_settled
from ssa_operator.core.policies.parent_records import FINALIZER, ParentRecords
from ssa_operator.core.redaction.report import redacted_report
from ssa_operator.core.status.report import (
    Report,
    make_deletion_report,
    make_idle_report,
    make_report,
    make_suspended_report,
)
from ssa_operator.core.status.verdict import Verdict
from ssa_operator.kube.api.errors import ApiError

log = logging.getLogger("ssa_operator")

_NAMESPACE = GroupKind("", "Namespace")


class Reconciler:
    """Runs passes. `claims` is what each parent has, across all folders; `pressed` tells whether parents wait that are
    at least as urgent as one with these causes.
    """

    def __init__(
        self,
        cluster: ClusterAccess,
        claims: ObjectClaims,
        options: Options,
        pressed: Callable[[Cause], bool] = lambda _: False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._claims = claims
        self._observer = Observer(cluster, claims, options, now)
        self._publisher = Publisher(cluster, options.conflict_policy)
        self._pressed = pressed
        self._now = now

    async def write_status(self, subject: Parent, memory: Memory) -> float | None:
        """Write the status that the last pass left unwritten; returns when somebody who rewrites it has to be looked at
        again. Raises ApiError where it can't be written.
        """
        return await self._publisher.write_status(subject, memory, self._now())

    async def reconcile(self, subject: Parent, memory: Memory, causes: Cause) -> Report:
        """One pass. Where others wait its status may be left `unwritten` (in the memory), for `write_status`.

        Raises ApiError where the status can't be written.
        """
        memory.unwritten = None
        if subject.parent.deleting and FINALIZER in subject.parent.metadata.finalizers:
            return await self._finalize(subject, memory, causes)
        if subject.parent.deleting:
            return await self._rest(subject, memory, causes)
        if is_suspended(subject.parent):
            return await self._judge_suspended(subject, memory, causes)
        records = self._records(subject, memory)
        await self._observer.watch_recorded(subject.parent, records, memory)
        rendered, unlabelled = await self._observer.render(subject, memory, causes)
        if Cause.PARENT in causes or (memory.report is not None and memory.digest != rendered.digest):
            # Somebody wants something else now: it goes through at once.
            memory.feedback_loops = {}
        memory.feedback_loops = without_settled(memory.feedback_loops, self._now())
        observed = self._observer.observe(subject, memory, causes, rendered, records)
        observed = replace(observed, unlabelled=unlabelled.found, unreadable=unlabelled.unreadable)
        plan = await self._plan(subject, observed, rendered)
        self._claims.claim(memory, subject.parent.uid, plan)
        subject, plan = await record_before_apply(self._cluster, subject, plan, records, hooks=rendered.has_hooks)
        outcomes = await act(plan, self._cluster_for(subject, memory), self._now())
        recreated(memory, outcomes)
        subject, outcomes = await record_once(self._cluster, subject, memory, records, outcomes, self._now())
        outcomes, memory.pod_checks = await diagnose_pods(outcomes, memory.pod_checks, self._cluster, self._now())
        outcomes = memory.conflicts.acted(outcomes, self._now())
        own = await self._observer.render_status(subject, memory, _lives(outcomes))
        report = make_report(subject.parent, plan, outcomes, own, self._now())
        remember(memory, plan, outcomes, report)
        report = redacted_report(report, memory.redactor, own.left_out)
        subject = await trim_inventory(self._cluster, subject, memory, plan, hooks=rendered.has_hooks)
        report = self._followed(memory, _looking_again(report, observed), rendered, outcomes)
        if memory.series.at_once:
            # The next pass knows more: it writes the status.
            self._publisher.tell(subject, memory, report)
            memory.report = report
            return report
        return await self._publish(subject, memory, causes, report)

    async def _publish(self, subject: Parent, memory: Memory, causes: Cause, report: Report) -> Report:
        # A status waits for whoever has the same reason to be looked at, or a better one, but not for ever.
        later = Cause.STATUS_OVERDUE not in causes and self._pressed(causes | Cause.TEMPLATE)
        return await self._publisher.publish(subject, memory, report, self._now(), later=later)

    async def _rest(self, subject: Parent, memory: Memory, causes: Cause) -> Report:
        """A pass over a parent that is being deleted and that our finalizer doesn't keep."""
        self._observer.use(subject, Cause.TEMPLATE, {})
        children = self._cluster.children.of(subject.parent.uid)
        own = await self._observer.render_status(subject, memory, children)
        verdict = Verdict(ready=False, reason="Deleting", message="is being deleted; its children go with it")
        report = make_idle_report(subject.parent, verdict, children, own, self._now())
        report = redacted_report(report, memory.redactor, own.left_out)
        return await self._publish(subject, memory, causes, report)

    async def _judge_suspended(self, subject: Parent, memory: Memory, causes: Cause) -> Report:
        """A pass over a suspended parent: it judges the children, and applies and deletes nothing."""
        records = self._records(subject, memory)
        await self._observer.watch_recorded(subject.parent, records, memory)
        rendered, unlabelled = await self._observer.render(subject, memory, causes)
        observed = self._observer.observe(subject, memory, causes, rendered, records)
        observed = replace(observed, unlabelled=unlabelled.found, unreadable=unlabelled.unreadable)
        plan = await self._plan(subject, observed, rendered)
        self._claims.claim(memory, subject.parent.uid, plan)
        outcomes = outcomes_while_suspended(plan)
        outcomes, memory.pod_checks = await diagnose_pods(outcomes, memory.pod_checks, self._cluster, self._now())
        own = await self._observer.render_status(subject, memory, _lives(outcomes))
        report = make_suspended_report(subject.parent, outcomes, own, self._now())
        report = _looking_again(redacted_report(report, memory.redactor, own.left_out), observed)
        return await self._publish(subject, memory, causes, report)

    def _records(self, subject: Parent, memory: Memory) -> ParentRecords:
        """What the parent has on record, with what could not be written there yet."""
        records = parent_records.read_parent_records(subject.parent)
        records = replace(
            records, once_records={**records.once_records, **memory.once}, held_prune=records.held_prune or memory.hold
        )
        return apply_once.with_final_states(records, self._cluster.children.last_seen, self._now())

    async def _plan(self, subject: Parent, observed: Observed, rendered: Rendered) -> Plan:
        """The plan, made once more where the first one tells what else has to be known."""
        plan = make_plan(observed, rendered)
        unseen = set(plan.unseen) - set(rendered.generated)
        if unseen:
            met = await self._observer.get_unlabelled(unseen)
            unlabelled, hidden = {**observed.unlabelled, **met.found}, {**observed.unreadable, **met.unreadable}
            plan = make_plan(replace(observed, unlabelled=unlabelled, unreadable=hidden), rendered)
        if plan.held and rendered.aged:
            earlier = plan.observed.outlived | self._observer.outlived(subject, plan.observed)
            plan = make_plan(replace(plan.observed, outlived=earlier), rendered)
        return plan

    async def _finalize(self, subject: Parent, memory: Memory, causes: Cause) -> Report:
        """One pass over a parent that is being deleted and that our finalizer keeps."""
        changed, earlier = False, list[Outcome]()
        while True:
            records = parent_records.read_parent_records(subject.parent)
            await self._observer.watch_recorded(subject.parent, records, memory)
            rendered, unlabelled = await self._observer.render(subject, memory, Cause.CHILD)
            observed = self._observer.observe(subject, memory, Cause.CHILD, rendered, records)
            observed = replace(observed, unlabelled=unlabelled.found, unreadable=unlabelled.unreadable)
            met = Circumstances(now=self._now(), failures=memory.hook_failures)
            finalization = make_finalization(observed, rendered, met)
            if not finalization.hooked and await self._terminating(subject.parent.identity.namespace):
                met = replace(met, terminating=subject.parent.identity.namespace)
                finalization = make_finalization(observed, rendered, met)
            plan = finalization.plan
            self._claims.claim(memory, subject.parent.uid, plan)
            if finalization.finished:
                subject = await save_parent_records(self._cluster, subject, ParentRecords())
                report = make_deletion_report(subject.parent, finalization, (), StatusFields(), self._now())
                return redacted_report(report, memory.redactor, ())
            subject = await save_parent_records(self._cluster, subject, finalization.records)
            outcomes = await act(plan, self._cluster_for(subject, memory), self._now())
            outcomes = memory.conflicts.acted(outcomes, self._now())
            acted(memory, outcomes)
            replaced = [
                each.step.identity
                for each in outcomes
                if each.step.action is Action.RECREATE and each.result is Result.RECREATED
            ]
            for identity in replaced:
                memory.hook_failures[identity] = memory.hook_failures.get(identity, 0) + 1
            # What we did ourselves wakes nobody. A change may be one that never ends: another pass may follow it, not
            # one after the other.
            stirring = (
                (Result.CREATED, Result.PRUNED) if changed else (Result.CREATED, Result.PRUNED, Result.CONFIGURED)
            )
            if not any(each.result in stirring for each in outcomes):
                break
            changed = any(each.result is Result.CONFIGURED for each in outcomes)
            earlier += [each for each in outcomes if each.result in stirring]
        own = await self._observer.render_status(subject, memory, _lives(outcomes))
        report = make_deletion_report(subject.parent, finalization, outcomes, own, self._now())
        report = replace(report, outcomes=(*earlier, *report.outcomes))
        remember(memory, plan, outcomes, report)
        report = redacted_report(report, memory.redactor, own.left_out)
        report = self._followed(memory, _looking_again(report, observed), rendered, outcomes)
        return await self._publish(subject, memory, causes, report)

    def _followed(self, memory: Memory, report: Report, rendered: Rendered, outcomes: Sequence[Outcome]) -> Report:
        """The report with the moment of the next pass, where this one changed what templates read, or something that
        changes without end has its turn.
        """
        now = self._now()
        ours = (outcome for outcome in outcomes if outcome.step.foreign_change is None)
        changed = [outcome.step.identity for outcome in ours if outcome.result in CHANGED]
        memory.feedback_loops = with_changes(memory.feedback_loops, rendered, changed, _lives(outcomes), now)
        report = replace(
            report, again_at=earliest(report.again_at, *(each.again_at(now) for each in memory.feedback_loops.values()))
        )
        memory.series = memory.series.continued if inputs_changed(rendered, outcomes, now) else Requeues()
        if not memory.series.passes:
            return report
        return replace(report, again_at=earliest(report.again_at, now + memory.series.pause))

    async def _terminating(self, namespace: str) -> bool:
        """Whether a namespace is being deleted, as far as we may know: then nothing can be made in it any more."""
        if not namespace:
            return False
        try:
            resource = await self._cluster.children.resource(_NAMESPACE, "v1")
            return (await self._cluster.client.get(resource, namespace)).deleting
        except ApiError as error:
            if not error.forbidden:
                raise
            log.debug("whether namespace %s is being deleted can't be looked at: %s", namespace, error)
            return False

    def _cluster_for(self, subject: Parent, memory: Memory) -> ClusterAccess:
        """Where the plans of one parent are carried out."""
        return replace(
            self._cluster,
            redactor=memory.redactor,
            former=subject.folder.settings.former_managers,
        )


def _looking_again(report: Report, observed: Observed) -> Report:
    """The report with the moment of the next pass where a watch is not synced: it may be by the end of this one, and
    then nobody would tell.
    """
    unsynced = any(not kind.synced and not kind.problem for kind in observed.kinds.values())
    return replace(report, again_at=earliest(report.again_at, observed.now + SYNC_DEADLINE)) if unsynced else report


def _lives(outcomes: Iterable[Outcome]) -> list[LiveObject]:
    return [outcome.live for outcome in outcomes if outcome.live is not None]
