"""Makes the reports of reconciles: renders the author's status template, and sets when the next reconcile is due.

Promises:
- If the status can't be rendered at once, the Events of what was done are emitted first.
- If a promise about children needs another reconcile, or an informer has not synced, the report says when it is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from ssa_operator.informers.informer import SYNC_DEADLINE
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Rendered, StatusFields
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.plan import Plan, render_history_after
from ssa_operator.reconcile.render_turns import Postponed
from ssa_operator.reconcile.renderer import judged, render_status
from ssa_operator.reconcile.secrets.redacted_report import with_left_out
from ssa_operator.reconcile.shards.other_shards import REMEMBERED_SECONDS
from ssa_operator.reconcile.status.events import reported_verdict
from ssa_operator.reconcile.status.report import Report, due_at
from ssa_operator.reconcile.status.requests import emit_events
from ssa_operator.reconcile.status.verdict import ReadyReason, Verdict

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
    """The report with the time of the next reconcile: when a promise needs one, or when another shard's parent may
    have released an object.
    """
    now = reconcile.monotonic()
    report = after_sync(reconcile, observed, report)
    if reconcile.guessed:
        report = due_at(report, now + GUESS_PAUSE)
    if any(outcome.owner_in_other_shard for outcome in outcomes):
        report = due_at(report, now + REMEMBERED_SECONDS)
    return report


def after_sync(reconcile: Reconcile, observed: Observed, report: Report) -> Report:
    """The report with the time when a promise needs the next reconcile, or one that follows if an informer has not
    synced, because its sync may come too early to requeue the parent.
    """
    if any(not kind.synced and not kind.problem for kind in observed.children.kinds.values()):
        report = due_at(report, observed.monotonic + SYNC_DEADLINE)
    return due_at(report, reconcile.state.children.due_at(reconcile.monotonic()))
