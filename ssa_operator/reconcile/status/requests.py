"""The last step of a reconcile: it writes the parent's status and emits Events.

Promises:
- A status is written only when it differs, and never to a parent that was recreated meanwhile. If the API server
  refuses it, an Event reports that.
- Fields of the author's status that a CRD or a reserved name excludes are logged once, with their template line.
- A deferred status is written as it was last reported.
- A status that does not fit into its parent is written without `resources`. The whole status is not sent again after it
  was refused (`reconcile/status/truncated_status.py`).
- If another manager rewrites the status each time, the report names that manager, and the pauses between writes grow.
- The children of other parents that wait go before this parent's status. Another namespace's burst of changes does not
  defer it.
- A loss of the parent's records is named for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.backoff import earliest
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.json_codec import encode, encoded_once
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import StatusFields
from ssa_operator.objects.status_diff import differs
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.impersonation import ANSWER_LIFETIME
from ssa_operator.reconcile.parent_records.lost_records import NO_NOTICE
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.status.author_status import AuthorStatus, undeclared_fields
from ssa_operator.reconcile.status.child_status import kept_text
from ssa_operator.reconcile.status.events import events, newly_kept, status_refused, status_undeclared
from ssa_operator.reconcile.status.report import (
    Report,
    due_at,
    with_applied,
    with_crd_refusal,
    with_notice,
    with_records_notice,
    with_revision,
)
from ssa_operator.reconcile.status.status_history import (
    after_match,
    after_write,
    conflict_message,
    next_status_at,
    observe_status,
    without_conflict,
)
from ssa_operator.reconcile.status.truncated_status import fitting, truncate
from ssa_operator.schema.crd_schema import MISFIT, declared

log = logging.getLogger("ssa_operator")

LOGGED_LIMIT = 1000
"""Dropped fields that are remembered, so that each is logged once."""


async def publish(reconcile: Reconcile, report: Report) -> Report:
    """Emit Events and write the status. Where other parents wait, the status may be left to `write_status`. Raises
    ApiError if the status can't be written.
    """
    reconcile.publishing = True
    await reconcile.steps.rest()
    report = with_crd_refusal(_with_notice_of_lost_records(reconcile, report), reconcile.parent.crd_refusal)
    failed = any(outcome.result is Result.FAILED for outcome in report.outcomes)
    if reconcile.lacks_permission or (failed and reconcile.account):
        # The account may lack a permission, and no event shows that a user grants it.
        report = due_at(report, reconcile.monotonic() + ANSWER_LIFETIME)
    if reconcile.state.children.follows:
        # The next reconcile follows at once. It knows more, and writes the status.
        emit_events(reconcile, report)
        return report
    # The status waits for parents that are at least as urgent, until it is overdue.
    later = Cause.STATUS_OVERDUE not in reconcile.causes and reconcile.cluster.others_wait(
        reconcile.causes | Cause.TEMPLATE, reconcile.key
    )
    return await publish_as_it_is(reconcile, report, later=later)


def _with_notice_of_lost_records(reconcile: Reconcile, report: Report) -> Report:
    """The report that names a loss of records for a while."""
    notice = reconcile.state.records_notice
    if notice is NO_NOTICE:
        return report
    if reconcile.monotonic() >= notice.until:
        reconcile.state = replace(reconcile.state, records_notice=NO_NOTICE)
        return report
    return due_at(with_records_notice(report, notice.message), notice.until)


async def publish_as_it_is(reconcile: Reconcile, report: Report, *, later: bool) -> Report:
    """Emit Events and write the status, or with `later` leave the status to `write_status`. Raises ApiError if the
    status can't be written.
    """
    parent, now = reconcile.parent, reconcile.monotonic()
    history = observe_status(reconcile.state.status, parent.live, now, reconcile.cluster.settings.conflict_policy)
    report = with_notice(report, conflict_message(history.conflict))
    if revision := _shown_revision(parent, report):
        report = with_revision(report, revision)
    applied = reconcile.records.applied
    if applied is not None and applied.shown:
        report = with_applied(report, applied.text)
    reconcile.state = replace(reconcile.state, status=history)
    emit_events(reconcile, report)
    status = declared(report.status, parent.status_schema)
    if report.author_status.dropped or status != report.status:
        _log_dropped(reconcile, report)
    if status is not MISFIT:
        status = fitting(status, history.truncation, parent.live, reconcile.now())
    if status is MISFIT or not parent.writes_status:
        reconcile.state = replace(reconcile.state, status=without_conflict(reconcile.state.status, now))
    elif not differs(parent.live, status):
        reconcile.state = replace(reconcile.state, status=after_match(reconcile.state.status, status, parent.live, now))
    elif not history.paused:
        reconcile.state = replace(reconcile.state, status=replace(reconcile.state.status, deferred=status))
        if not later:
            await write_status(reconcile)
    due, kept = next_conflict_at(reconcile.state), reconcile.state.status.report
    assert kept is not None, "its Events are emitted first"
    reconcile.state = replace(reconcile.state, status=replace(reconcile.state.status, report=due_at(kept, due)))
    return due_at(report, due)


async def write_status(reconcile: Reconcile) -> None:
    """Write the deferred status, or what fits of it. Raises ApiError if it can't be written."""
    parent, status, now = reconcile.parent, reconcile.state.status.deferred, reconcile.monotonic()
    assert status is not None
    while True:
        try:
            live = await _write(reconcile, status)
            break
        except ApiError as error:
            known = reconcile.state.status.truncation
            left = truncate(status, known, parent.live, reconcile.now()) if error.too_large else None
            if error.terminal and not error.not_found and not (left and parent.shows_conditions):
                reconcile.cluster.recorder.emit(parent.live, (status_refused(str(error)),))
            if left is None:
                raise
            log.warning("%s: the status is written without a part of it: %s", reconcile.key, error)
            status, truncation = left
            reconcile.state = replace(reconcile.state, status=replace(reconcile.state.status, truncation=truncation))
            if not differs(parent.live, status):
                history = replace(reconcile.state.status, deferred=None)
                reconcile.state = replace(reconcile.state, status=after_match(history, status, parent.live, now))
                return
    history = after_write(reconcile.state.status, status, live, now)
    reconcile.state = replace(reconcile.state, status=history, applied=None)


async def _write(reconcile: Reconcile, status: Mapping[str, Any]) -> LiveObject:
    """Write a status. Returns the parent with it. Raises ApiError."""
    parent = reconcile.parent
    identity = parent.live.identity
    body = {
        "apiVersion": parent.resource.api_version,
        "kind": parent.resource.kind,
        # At /status, the API server does not refuse a wrong uid. The resourceVersion keeps this status from a
        # parent that was recreated under the same name.
        "metadata": {"name": identity.name, "resourceVersion": parent.live.resource_version},
        "status": status,
    }
    options = ApplyOptions(subresource="status")
    with parent.cache.writing(identity.namespace, identity.name):
        applied = await reconcile.cluster.operator_client.apply(
            parent.resource, identity.namespace, identity.name, encode(body), options
        )
        return parent.cache.written(applied.live)


def _log_dropped(reconcile: Reconcile, report: Report) -> None:
    """Log the author's fields that are not written, once for each template line and reason."""
    parent, dropped, logged = reconcile.parent, report.author_status.dropped, reconcile.cluster.logged
    if parent.writes_status:
        dropped += undeclared_fields(report.author_status, report.rendered_status, parent.status_schema)
    for each in dropped:
        key = (parent.folder.name, parent.folder.digest, str(each.location), each.reason)
        if key not in logged:
            if len(logged) >= LOGGED_LIMIT:
                logged.clear()
            logged.add(key)
            identity = parent.live.identity
            log.warning("%s (for %s)", each, identity)


def emit_events(reconcile: Reconcile, report: Report) -> None:
    """Emit Events of what is new in the report, and remember the report as the last one."""
    parent, before = reconcile.parent, reconcile.state.status.report
    new = events(before, parent.live, report, shown=parent.shows_conditions)
    for outcome, why in newly_kept(before, report):
        log.warning("%s: %s: %s", reconcile.key, outcome.identity, kept_text(why))
    if before is None and parent.unreported:
        new = (status_undeclared(parent.unreported), *new)
    reconcile.cluster.recorder.emit(parent.live, new)
    reconcile.state = replace(
        reconcile.state, status=replace(reconcile.state.status, report=_kept(report, reconcile.state))
    )


def _shown_revision(parent: Parent, report: Report) -> str:
    """The revision that the status shows; '' for a folder without rollouts. While nothing is applied, it stays."""
    before = parent.live.body.get("status")
    if parent.folder.revision and report.suspended and isinstance(before, Mapping):
        return str(before.get("revision") or "")
    return parent.folder.revision


def _kept(report: Report, state: ParentState) -> Report:
    """The report without what the status template rendered, which may be large and may hold Secrets. Its status is
    encoded, and it is the one that was written last if they are equal.
    """
    written = state.status.written
    status = encoded_once(report.status, written.desired if written is not None else None)
    return replace(report, status=status, author_status=_NO_STATUS, rendered_status=_NO_FIELDS)


_NO_STATUS, _NO_FIELDS = AuthorStatus(), StatusFields()


def next_conflict_at(state: ParentState) -> float | None:
    """When a foreign change has to be reverted, or a conflict ends."""
    return earliest(state.children.next_conflict_at, next_status_at(state.status))
