"""A reconcile of a parent that is being deleted and that has the operator's finalizer.

Promises:
- The finalizer goes when nothing keeps the parent, and its children keep no owner reference that would have the garbage
  collector delete what the parent lives in.
- A parent whose children were orphaned leaves them. While that can't be known, nothing is deleted, and a user decides.
- If no event can show that the deletion may go on, the parent is reconciled again all the same.
"""

from __future__ import annotations

from msgspec.structs import replace

from ssa_operator.objects.render_result import Rendered, StatusFields
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.executor import Outcomes
from ssa_operator.reconcile.finalization.requests import (
    ending_namespaces,
    without_failures_in_ending_namespaces,
)
from ssa_operator.reconcile.finalization.rules import Finalization
from ssa_operator.reconcile.idle_reports import deleting, report_existing_children
from ssa_operator.reconcile.impersonation.reviews import ANSWER_LIFETIME
from ssa_operator.reconcile.orphaning.requests import leave_children, read_children_stay, release_children
from ssa_operator.reconcile.orphaning.rules import undecided_message
from ssa_operator.reconcile.parent_records.requests import save_parent_records
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.phases import Phases
from ssa_operator.reconcile.prune.rules import is_owned
from ssa_operator.reconcile.secrets.redacted_report import redacted_finalization, redacted_outcomes
from ssa_operator.reconcile.status.report import Report, due_at, make_deletion_report
from ssa_operator.reconcile.status.reporter import MakeReport


async def finalize(reconcile: Reconcile, phases: Phases) -> Report:
    """Reconcile a parent that is being deleted. Raises ApiError, CredentialsError and Postponed."""
    observed, rendered = await phases.observer.observe(reconcile)
    stay = await read_children_stay(reconcile, observed)
    if stay:
        return await leave_children(reconcile, phases)
    deletion = await phases.planner.plan_deletion(reconcile, observed, rendered)
    live, namespace = reconcile.parent.live, reconcile.parent.live.identity.namespace
    # Without the finalizer, the garbage collector deletes the children that have an owner reference.
    is_open = stay is None and not (
        deletion.finished and not any(is_owned(each, live.uid) for each in observed.children.own)
    )
    ends = await ending_namespaces([namespace], live, reconcile.cluster) if is_open else {}
    if is_open and not (namespace in ends and ends[namespace].takes_parent):
        verdict = replace(deleting(undecided_message(observed)), stalled=True)
        return await report_existing_children(reconcile, verdict, phases)
    if deletion.finished:
        return await _release(reconcile, deletion, phases)
    outcomes = await _act(reconcile, deletion, phases)
    report = await _report(reconcile, deletion, rendered, outcomes, phases)
    return await phases.publisher.publish(reconcile, report)


async def _act(reconcile: Reconcile, deletion: Finalization, phases: Phases) -> Outcomes:
    await save_parent_records(reconcile, deletion.records)
    executor = phases.executor
    outcomes = await executor.carry_out(reconcile, deletion.plan)
    outcomes = await without_failures_in_ending_namespaces(outcomes, reconcile.parent.live, reconcile.cluster)
    with phases.reporter.status_may_follow(reconcile, _make_report(reconcile, deletion, outcomes, phases)):
        await executor.judge(reconcile, ((outcome.step, outcome.live) for outcome in outcomes))
    return executor.learn(reconcile, deletion.plan, outcomes)


async def _report(
    reconcile: Reconcile, deletion: Finalization, rendered: Rendered, outcomes: Outcomes, phases: Phases
) -> Report:
    report = await phases.reporter.report(
        reconcile, deletion.plan, rendered, outcomes, _make_report(reconcile, deletion, outcomes, phases)
    )
    if report.verdict.stalled or deletion.needs_person or deletion.awaits_parents:
        # No event shows that a permission is granted, that the namespace of what can't be read ends, or that what the
        # parent lives in is being deleted.
        report = due_at(report, phases.clock.monotonic() + ANSWER_LIFETIME)
    return phases.reporter.scheduled(reconcile, deletion.plan.observed, outcomes, report)


def _make_report(reconcile: Reconcile, deletion: Finalization, outcomes: Outcomes, phases: Phases) -> MakeReport:
    def make(own: StatusFields) -> Report:
        secrets = reconcile.state.secrets
        shown, shown_outcomes = redacted_finalization(deletion, secrets), redacted_outcomes(outcomes, secrets)
        return make_deletion_report(reconcile.parent.live, shown, shown_outcomes, own, phases.clock.now())

    return make


async def _release(reconcile: Reconcile, deletion: Finalization, phases: Phases) -> Report:
    """Remove the finalizer, so that the API server deletes the parent. The garbage collector deletes nothing that the
    parent lives in.
    """
    await release_children(reconcile.cluster, reconcile.parent.live, deletion.plan.observed.why_kept)
    await save_parent_records(reconcile, ParentRecords())
    return _make_report(reconcile, deletion, (), phases)(StatusFields())
