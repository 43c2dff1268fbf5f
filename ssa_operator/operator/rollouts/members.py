"""Sees a parent as a member of a rollout: by its record and its status, or as this process has reconciled it last."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import condition_of
from ssa_operator.operator.rollouts.rules import Member
from ssa_operator.reconcile.parent_records.rules import NO_REVISION, read_parent_records
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.suspension import is_suspended
from ssa_operator.rendering.folder.loaded_folders import Folder


def reconciled_member(live: LiveObject, parents: Parents, compiled: Mapping[str, Folder]) -> Member:
    """A parent as this process has reconciled it last; `compiled` has the revisions by their names."""
    state = parents.state(live)
    report, rendered = state.status.report, state.renders.digest
    member = recorded_member(live, parents.folder, reports_revision=parents.reports_revision)
    runs = compiled.get(member.runs)
    is_known = report is not None or bool(state.retries.error)
    if not is_known and parents.parent(live).shows_conditions:
        is_known = condition_of(live.body, "Ready") is None  # a new parent, which is not Ready
    return replace(
        member,
        known=is_known,
        ready=state.ready and not state.retries.error,
        stalled=report is not None and report.verdict.stalled and not report.verdict.ready,
        revision=member.runs if runs is not None and runs.digest == rendered else "",
        message=report.verdict.message if report is not None else state.retries.error,
    )


def stored_member(live: LiveObject, folder: Folder | None) -> Member:
    """A parent as its status shows it; `folder` has the setting `suspendWhen`, without it the status says it."""
    ready, stalled, suspended = (condition_of(live.body, each) for each in ("Ready", "Stalled", "Suspended"))
    status = live.body.get("status")
    reported = status if isinstance(status, Mapping) else {}
    current = reported.get("observedGeneration", live.metadata.generation) == live.metadata.generation
    member = recorded_member(live, folder, reports_revision="revision" in reported)
    return replace(
        member,
        suspended=member.suspended or (folder is None and suspended is not None and suspended.get("status") == "True"),
        known=ready is not None,
        ready=current and ready is not None and ready.get("status") == "True",
        stalled=stalled is not None and stalled.get("status") == "True",
        revision=str(reported.get("revision", "")),
        message=str(ready.get("message", "")) if ready is not None else "",
    )


def recorded_member(live: LiveObject, folder: Folder | None, *, reports_revision: bool) -> Member:
    """A parent without what its last reconcile found. What it runs is recorded on it, or in its status."""
    record, runs, status = read_parent_records(live).revision, "", live.body.get("status")
    if reports_revision and isinstance(status, Mapping):
        runs = str(status.get("revision") or (NO_REVISION if status.get("conditions") else ""))
    return Member(
        uid=live.uid,
        namespace=live.metadata.namespace,
        name=live.metadata.name,
        labels=live.metadata.labels,
        suspended=is_suspended(live, folder.settings.suspend_when if folder is not None else None),
        runs=record.revision or runs,
        ready_before=record.ready,
    )
