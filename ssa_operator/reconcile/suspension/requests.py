"""A reconcile of a suspended parent: it reports on the children, and applies and deletes nothing."""

from __future__ import annotations

from ssa_operator.objects.render_result import StatusFields
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.executor import diagnose
from ssa_operator.reconcile.observe import observe
from ssa_operator.reconcile.planner import plan_parent
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.status.report import Report, make_suspended_report
from ssa_operator.reconcile.status.reporter import after_sync, with_status_fields
from ssa_operator.reconcile.status.requests import publish
from ssa_operator.reconcile.suspension.rules import outcomes_while_suspended


async def report_suspended(reconcile: Reconcile, why: str) -> Report:
    """Report on a suspended parent; `why` is the message of `suspension_message`. Raises ApiError, CredentialsError and
    Postponed.
    """
    observed, rendered = await observe(reconcile)
    plan = await plan_parent(reconcile, observed, rendered)
    outcomes = await diagnose(reconcile, outcomes_while_suspended(plan))

    def make(own: StatusFields) -> Report:
        shown = redacted_outcomes(outcomes, reconcile.state.secrets)
        return make_suspended_report(reconcile.parent.live, shown, own, reconcile.now(), why)

    report = await with_status_fields(reconcile, plan.rendered, outcomes, make)
    return await publish(reconcile, after_sync(reconcile, plan.observed, report))
