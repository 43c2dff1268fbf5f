"""The last steps of a reconcile: it makes the report, emits Events and writes the parent's status.

Promises:
- A status is written only when it differs, and never to a parent that was recreated meanwhile. If the API server
  refuses it, an Event reports that. One that does not fit into its parent is written without a part of it.
- A deferred status is written as it was last reported. The children of other parents that wait go before it. Another
  namespace's burst of changes does not defer it. If it can't be rendered at once, the Events of what was done go first.
- Fields of the author's status that a CRD or a reserved name excludes are logged once, with their template line.
- If another manager rewrites the status each time, the report names that manager, and the pauses between writes grow.
- If a promise about children needs another reconcile, or an informer has not synced, the report says when it is due.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from ssa_operator.informers.informer import SYNC_DEADLINE
from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.backoff import earliest
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import EncodedMapping, encode, encoded_once
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Rendered, StatusFields
from ssa_operator.objects.status_diff import differs
from ssa_operator.reconcile.child import Child, Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.impersonation import ANSWER_LIFETIME
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.parent_records.lost_records import NO_NOTICE
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.plan import Plan, render_history_after
from ssa_operator.reconcile.render_turns import Postponed
from ssa_operator.reconcile.renderer import judged, render_status
from ssa_operator.reconcile.secrets.redacted_report import with_left_out
from ssa_operator.reconcile.shards.other_shards import REMEMBERED_SECONDS
from ssa_operator.reconcile.status.author_status import AuthorStatus, undeclared_fields
from ssa_operator.reconcile.status.child_status import kept_text
from ssa_operator.reconcile.status.conditions import fitting, truncate
from ssa_operator.reconcile.status.events import Event, events, newly_kept, reported_verdict
from ssa_operator.reconcile.status.report import Report, due_at, with_remark
from ssa_operator.reconcile.status.status_history import (
    StatusHistory,
    after_match,
    after_write,
    conflict_message,
    next_status_at,
    observe_status,
    without_conflict,
)
from ssa_operator.reconcile.status.verdict import ReadyReason, Verdict
from ssa_operator.schema.crd_schema import MISFIT, declared
from ssa_operator.schema.operator_fields import APPLIED_FIELD

log = logging.getLogger("ssa_operator")

LOGGED_LIMIT = 1000
"""Dropped fields that are remembered, so that each is logged once."""

GUESS_PAUSE = 1.0
"""Seconds after which a parent is reconciled again if a child waited only because an expression takes long."""

MakeReport = Callable[[StatusFields], Report]
"""Makes the report with the fields of the author's status template."""

_STATUS_FOLLOWS = Verdict(ready=False, reason=ReadyReason.PROGRESSING.value, message="its status is rendered next")


async def report_on_plan(
    reconcile: Reconcile, plan: Plan, rendered: Rendered, outcomes: Sequence[Child], make: MakeReport
) -> Report:
    """The report after a plan was carried out. `rendered` is the whole render. Raises Postponed."""
    with status_may_follow(reconcile, make):
        report = await with_status_fields(reconcile, rendered, outcomes, make)
    await reconcile.steps.rest()
    needs, history = reconcile.state.needs, reconcile.state.renders
    known = frozenset[Identity]() if needs is None else needs.objects
    renders = render_history_after(plan, history, complete=report.complete, known=known)
    reconcile.newly_converged = renders.applied_digest is not None and renders.applied_digest != history.applied_digest
    # Only a reconcile that comes to its end fulfils `reconcile-at`.
    reconcile.state = replace(reconcile.state, renders=renders, reconcile_at=plan.observed.reconcile_at)
    return report


async def with_status_fields(
    reconcile: Reconcile, rendered: Rendered, outcomes: Iterable[Child], make: MakeReport
) -> Report:
    """The report with the fields of the author's status template. Raises Postponed."""
    children = [outcome.live for outcome in outcomes if outcome.live is not None]
    templates = reconcile.parent.folder.templates
    result = None
    if templates is not None and templates.reads_result:
        result = (await judged(reconcile, lambda: make(StatusFields()))).verdict.result
    own = await render_status(reconcile, children, rendered.ready_when, result)
    await reconcile.steps.rest()
    report = await judged(reconcile, lambda: make(own))
    return with_left_out(report, own.left_out)


@contextmanager
def status_may_follow(reconcile: Reconcile, make: MakeReport) -> Iterator[None]:
    """If the block can't wait for the thread, emit the Events of what was done. The reconcile that follows has the
    verdict, and writes the status. It begins as this one did: what follows from a whole reconcile is not learned.
    """
    try:
        yield
    except Postponed:
        status, live = reconcile.state.status, reconcile.parent.live
        verdict = status.report.verdict if status.report is not None else reported_verdict(live)
        reconcile.acted = replace(make(StatusFields()), verdict=verdict or _STATUS_FOLLOWS)
        emit_events(reconcile, reconcile.acted)
        reconcile.state = replace(reconcile.state, status=status)
        raise


def scheduled(reconcile: Reconcile, observed: Observed, outcomes: Sequence[Child], report: Report) -> Report:
    """The report with the time of the next reconcile: when a promise needs one, when an informer has to have synced,
    because its sync may come too early to requeue the parent, or when another shard's parent may have released an
    object.
    """
    now = reconcile.monotonic()
    report = due_at(report, reconcile.state.children.due_at(now))
    if any(not kind.synced and not kind.problem for kind in observed.children.kinds.values()):
        report = due_at(report, observed.monotonic + SYNC_DEADLINE)
    if reconcile.guessed:
        report = due_at(report, now + GUESS_PAUSE)
    if any(outcome.owner_in_other_shard for outcome in outcomes):
        report = due_at(report, now + REMEMBERED_SECONDS)
    return report


async def publish(reconcile: Reconcile, report: Report) -> Report:
    """Emit Events and write the status. Where other parents wait, the status may be left to `write_status`. Raises
    ApiError if the status can't be written.
    """
    reconcile.publishing = True
    await reconcile.steps.rest()
    notice = reconcile.state.records_notice
    if notice is not NO_NOTICE and reconcile.monotonic() >= notice.until:
        reconcile.state = replace(reconcile.state, records_notice=NO_NOTICE)
    elif notice is not NO_NOTICE:
        report = replace(with_remark(report, notice.message), records_notice=notice.message)
        report = due_at(report, notice.until)
    if refusal := reconcile.parent.crd_refusal:
        report = with_remark(report, f"its CRD is not applied: {refusal}")
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


async def publish_as_it_is(reconcile: Reconcile, report: Report, *, later: bool) -> Report:
    """Emit Events and write the status, or with `later` leave the status to `write_status`. Raises ApiError if the
    status can't be written.
    """
    parent, now = reconcile.parent, reconcile.monotonic()
    history = observe_status(reconcile.state.status, parent.live, now, reconcile.cluster.settings.conflict_policy)
    conflict, applied = conflict_message(history.conflict), reconcile.records.applied
    report = with_remark(report, conflict)
    shown = dict(report.status)
    if revision := _shown_revision(parent, report):
        shown["revision"] = revision
    if applied is not None and applied.shown:
        shown[APPLIED_FIELD] = applied.text
    report = replace(report, status=shown, notice=conflict)
    _remember(reconcile, history)
    kept = emit_events(reconcile, report)
    status = declared(shown, parent.status_schema)
    if status == shown:
        status = shown
    if report.author_status.dropped or status is not shown:
        _log_dropped(reconcile, report)
    if status is not MISFIT:
        status = fitting(status, history.truncation, parent.live, reconcile.now())
    if status is MISFIT or not parent.writes_status:
        _remember(reconcile, without_conflict(reconcile.state.status, now))
    elif not differs(parent.live, status):
        _remember(reconcile, after_match(reconcile.state.status, status, parent.live, now))
    elif not history.paused:
        _remember(reconcile, deferred=kept.status if status is shown else EncodedMapping(status))
        if not later:
            await write_status(reconcile)
    due = next_conflict_at(reconcile.state)
    _remember(reconcile, report=due_at(kept, due))
    return due_at(report, due)


def _remember(reconcile: Reconcile, history: StatusHistory | None = None, **changes: Any) -> None:
    """Remember a history of the status, or these changes of it."""
    status = reconcile.state.status if history is None else history
    reconcile.state = replace(reconcile.state, status=replace(status, **changes) if changes else status)


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
                # The status itself can't report that.
                event = _status_event("StatusRefused", f"the status can't be written: {error}")
                reconcile.cluster.recorder.emit(parent.live, (event,))
            if left is None:
                raise
            log.warning("%s: the status is written without a part of it: %s", reconcile.key, error)
            status, truncation = left
            _remember(reconcile, truncation=truncation)
            if not differs(parent.live, status):
                _remember(reconcile, after_match(reconcile.state.status, status, parent.live, now), deferred=None)
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


def emit_events(reconcile: Reconcile, report: Report) -> Report:
    """Emit Events of what is new in the report, and remember it as the last one: without what the status template
    rendered, which may be large and may hold Secrets, and with the status encoded. Returns what is remembered.
    """
    parent, before, written = reconcile.parent, reconcile.state.status.report, reconcile.state.status.written
    new = events(before, parent.live, report, shown=parent.shows_conditions)
    for outcome, why in newly_kept(before, report):
        log.warning("%s: %s: %s", reconcile.key, outcome.identity, kept_text(why))
    if before is None and parent.unreported:
        new = (_status_event("StatusNotDeclared", parent.unreported), *new)
    reconcile.cluster.recorder.emit(parent.live, new)
    status = encoded_once(report.status, written.desired if written is not None else None)
    kept = replace(report, status=status, author_status=_NO_STATUS, rendered_status=_NO_FIELDS)
    _remember(reconcile, report=kept)
    return kept


def _status_event(reason: str, note: str) -> Event:
    return Event(reason=reason, action="WriteStatus", note=note, warning=True)


_NO_STATUS, _NO_FIELDS = AuthorStatus(), StatusFields()


def _shown_revision(parent: Parent, report: Report) -> str:
    """The revision that the status shows; '' for a folder without rollouts. While nothing is applied, it stays."""
    before = parent.live.body.get("status")
    if parent.folder.revision and report.suspended and isinstance(before, Mapping):
        return str(before.get("revision") or "")
    return parent.folder.revision


def next_conflict_at(state: ParentState) -> float | None:
    """When a foreign change has to be reverted, or a conflict ends."""
    return earliest(state.children.next_conflict_at, next_status_at(state.status))
