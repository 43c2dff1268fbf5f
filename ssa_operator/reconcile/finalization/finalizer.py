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
from ssa_operator.reconcile.act import Outcomes, carry_out, judge, learn
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.finalization.requests import (
    ending_namespaces,
    without_failures_in_ending_namespaces,
)
from ssa_operator.reconcile.finalization.rules import Finalization
from ssa_operator.reconcile.idle_reports import deleting, report_existing_children
from ssa_operator.reconcile.impersonation import ANSWER_LIFETIME
from ssa_operator.reconcile.observe import observe
from ssa_operator.reconcile.orphaning.requests import leave_children, read_children_stay, release_children
from ssa_operator.reconcile.orphaning.rules import undecided_message
from ssa_operator.reconcile.parent_records.requests import save_parent_records
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.planner import plan_deletion
from ssa_operator.reconcile.prune.rules import is_owned
from ssa_operator.reconcile.secrets.redacted_report import redacted_finalization, redacted_outcomes
from ssa_operator.reconcile.status.report import Report, due_at, make_deletion_report
from ssa_operator.reconcile.status.requests import MakeReport, publish, report_on_plan, scheduled, status_may_follow


async def finalize(reconcile: Reconcile) -> Report:
    """Reconcile a parent that is being deleted. Raises ApiError, CredentialsError and Postponed."""
    observed, rendered = await observe(reconcile)
    stay = await read_children_stay(reconcile, observed)
    if stay:
        return await leave_children(reconcile)
    deletion = await plan_deletion(reconcile, observed, rendered)
    live, namespace = reconcile.parent.live, reconcile.parent.live.identity.namespace
    # Without the finalizer, the garbage collector deletes the children that have an owner reference.
    is_open = stay is None and not (
        deletion.finished and not any(is_owned(each, live.uid) for each in observed.children.own)
    )
    ends = await ending_namespaces([namespace], live, reconcile.cluster) if is_open else {}
    if is_open and not (namespace in ends and ends[namespace].takes_parent):
        verdict = replace(deleting(undecided_message(observed)), stalled=True)
        return await report_existing_children(reconcile, verdict)
    if deletion.finished:
        return await _release(reconcile, deletion)
    outcomes = await _act(reconcile, deletion)
    report = await _report(reconcile, deletion, rendered, outcomes)
    return await publish(reconcile, report)


async def _act(reconcile: Reconcile, deletion: Finalization) -> Outcomes:
    await save_parent_records(reconcile, deletion.records)
    outcomes = await carry_out(reconcile, deletion.plan)
    outcomes = await without_failures_in_ending_namespaces(outcomes, reconcile.parent.live, reconcile.cluster)
    with status_may_follow(reconcile, _make_report(reconcile, deletion, outcomes)):
        await judge(reconcile, ((outcome, outcome.live) for outcome in outcomes))
    return learn(reconcile, deletion.plan, outcomes)


async def _report(reconcile: Reconcile, deletion: Finalization, rendered: Rendered, outcomes: Outcomes) -> Report:
    report = await report_on_plan(
        reconcile, deletion.plan, rendered, outcomes, _make_report(reconcile, deletion, outcomes)
    )
    if report.verdict.stalled or deletion.needs_person or deletion.awaits_parents:
        # No event shows that a permission is granted, that the namespace of what can't be read ends, or that what the
        # parent lives in is being deleted.
        report = due_at(report, reconcile.monotonic() + ANSWER_LIFETIME)
    return scheduled(reconcile, deletion.plan.observed, outcomes, report)


def _make_report(reconcile: Reconcile, deletion: Finalization, outcomes: Outcomes) -> MakeReport:
    def make(own: StatusFields) -> Report:
        secrets = reconcile.state.secrets
        shown, shown_outcomes = redacted_finalization(deletion, secrets), redacted_outcomes(outcomes, secrets)
        return make_deletion_report(reconcile.parent.live, shown, shown_outcomes, own, reconcile.now())

    return make


async def _release(reconcile: Reconcile, deletion: Finalization) -> Report:
    """Remove the finalizer, so that the API server deletes the parent. The garbage collector deletes nothing that the
    parent lives in.
    """
    await release_children(reconcile, deletion.plan.observed.why_kept)
    await save_parent_records(reconcile, ParentRecords())
    return _make_report(reconcile, deletion, ())(StatusFields())
