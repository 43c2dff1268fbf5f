"""A reconcile of a suspended parent: it reports on the children, and applies and deletes nothing."""

from __future__ import annotations

from ssa_operator.objects.render_result import StatusFields
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.phases import Phases
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.status.report import Report, make_suspended_report
from ssa_operator.reconcile.suspension.rules import outcomes_while_suspended


async def report_suspended(reconcile: Reconcile, why: str, phases: Phases) -> Report:
    """Report on a suspended parent; `why` is the message of `suspension_message`. Raises ApiError, CredentialsError and
    Postponed.
    """
    observed, rendered = await phases.observer.observe(reconcile)
    plan = await phases.planner.plan(reconcile, observed, rendered)
    outcomes = await phases.executor.diagnose(reconcile, outcomes_while_suspended(plan))

    def make(own: StatusFields) -> Report:
        shown = redacted_outcomes(outcomes, reconcile.state.secrets)
        return make_suspended_report(reconcile.parent.live, shown, own, phases.clock.now(), why)

    report = await phases.reporter.with_status_fields(reconcile, plan.rendered, outcomes, make)
    return await phases.publisher.publish(reconcile, phases.reporter.after_sync(reconcile, plan.observed, report))
