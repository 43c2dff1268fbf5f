"""The reports of reconciles that apply nothing: on a parent that is refused or leaves, and after a failure.

Promises:
- While the operator impersonates accounts, nothing is applied or deleted for a cluster-scoped parent whose folder
  doesn't allow cluster scope.
- After a parent's template folder was removed, nothing is applied for it. If it is deleted and has the operator's
  finalizer, it is finalized by its records and by the last templates.
- While a record on a parent can't be read, nothing is applied or deleted for it, and it keeps the finalizer.
- The report names the children that exist, even those that an earlier process reported.
- The status names the permission that a reconcile lacks, and the bug that ended one.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.messages import MESSAGE_LIMIT, bounded
from ssa_operator.objects.render_result import StatusFields
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.failures import bug_message
from ssa_operator.reconcile.finalization.stuck_deletions import removal_advice
from ssa_operator.reconcile.impersonation import refusal
from ssa_operator.reconcile.orphaning.rules import CHILDREN_STAY
from ssa_operator.reconcile.parent_records.rules import unreadable_records_message
from ssa_operator.reconcile.render_turns import let_renders_wait
from ssa_operator.reconcile.renderer import follow_lookups, render_status
from ssa_operator.reconcile.secrets.redacted_report import redacted_error, with_left_out
from ssa_operator.reconcile.status.report import Report, make_idle_report
from ssa_operator.reconcile.status.requests import publish
from ssa_operator.reconcile.status.verdict import ReadyReason, Verdict
from ssa_operator.reconcile.watched_children import own_children, watch_recorded

log = logging.getLogger("ssa_operator")


def idle_verdict(reconcile: Reconcile) -> Verdict | None:
    """The verdict on a parent for which nothing is applied, None if something is."""
    parent = reconcile.parent
    live, settings = parent.live, parent.folder.settings
    account = reconcile.cluster.impersonate
    if account and (why := refusal(account, live.identity, cluster_scope=settings.cluster_scope)):
        return _stalled(ReadyReason.CLUSTER_SCOPED, why)
    if live.deleting and FINALIZER not in live.metadata.finalizers:
        return deleting(
            CHILDREN_STAY if parent.orphans_children else "the parent is being deleted; its children go with it"
        )
    if parent.is_abandoned and not live.deleting:
        return _stalled(ReadyReason.RENDER_FAILED, _ABANDONED.format(parent.folder.name))
    if why := unreadable_records_message(live):
        return _stalled(ReadyReason.UNREADABLE_RECORD, why)
    return None


_ABANDONED = (
    "the folder of templates {} was removed: nothing is applied any more. If the parent is deleted, this process still "
    "deletes its recorded children; after a restart, none does until the folder is back or you remove the finalizer"
)


def deleting(message: str) -> Verdict:
    """The verdict on a parent that is being deleted."""
    return Verdict(ready=False, reason=ReadyReason.DELETING.value, message=message)


def _stalled(reason: ReadyReason, message: str) -> Verdict:
    return Verdict(ready=False, reason=reason.value, message=bounded(message, MESSAGE_LIMIT), stalled=True)


async def report_idle(reconcile: Reconcile, verdict: Verdict) -> Report:
    """Report on a parent for which nothing is applied. No lookup of its manifests requeues it any more.

    Raises ApiError, CredentialsError and Postponed.
    """
    follow_lookups(reconcile, Cause.TEMPLATE, {})
    return await report_existing_children(reconcile, verdict)


async def report_existing_children(reconcile: Reconcile, verdict: Verdict) -> Report:
    """Report on the children that exist, with a verdict. Raises ApiError, CredentialsError and Postponed."""
    await watch_recorded(reconcile)
    # A status without those that an earlier process reported would hide their kinds from the next process. Other
    # objects have the label of children, too: EndpointSlices, and Secrets that keep generated values.
    children = [live for live in own_children(reconcile) if live.owned_fields()]
    own = StatusFields()
    if verdict.reason != ReadyReason.CLUSTER_SCOPED.value:  # its status template has no account to read with
        own = await render_status(reconcile, children, result=verdict.result)
    # No reconcile follows at once, which would write the status.
    reconcile.state = replace(reconcile.state, children=replace(reconcile.state.children, follows=False))
    report = make_idle_report(reconcile.parent.live, verdict, children, own, reconcile.now(), reconcile.state.secrets)
    return await publish(reconcile, with_left_out(report, own.left_out))


async def report_forbidden(reconcile: Reconcile, error: ApiError) -> Report:
    """Report on a parent whose reconcile a missing permission ended, or a parent without room for a record. Raises
    ApiError and CredentialsError.
    """
    reconcile.lacks_permission = error.forbidden
    message, before = redacted_error(error, reconcile.state.secrets), reconcile.state.status.report
    if advice := removal_advice(reconcile.parent.live):
        message = f"{bounded(message, MESSAGE_LIMIT - len(advice) - 2)}; {advice}"
    try:
        return await report_existing_children(reconcile, _stalled(ReadyReason.FORBIDDEN, message))
    except ApiError:
        if before is None or before.verdict.message != message:
            log.warning("%s: %s", reconcile.key, message)
        raise


async def report_bug(reconcile: Reconcile, bug: Exception) -> None:
    """Write a status that names the bug. It is left as it is where the same bug prevents that."""
    let_renders_wait()
    verdict = Verdict(ready=False, reason=ReadyReason.INTERNAL_ERROR.value, message=f"it {bug_message(bug)}")
    try:
        await report_existing_children(reconcile, verdict)
    except Exception:
        log.exception("%s: the status of a reconcile that met a bug could not be written", reconcile.key)
