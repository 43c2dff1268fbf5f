"""What a process remembers of a parent's status between two reconciles.

Promises:
- It is one frozen value. A reconcile returns the next one and changes none.
- Each foreign change of the status is counted once.
- Times are in seconds on the process's monotonic clock.
- The operator writes an overwritten status again by the rules of reconcile.field_conflicts.rules: at once for the first
  few times, then with growing pauses.
- Conditions and fields of other writers beside the operator's own are no conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.json_codec import encoded_once
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.status_diff import differs
from ssa_operator.reconcile.field_conflicts.history import (
    DIVIDE_PARENTS,
    ConflictHistory,
    ConflictPolicy,
    ForeignChange,
)
from ssa_operator.reconcile.field_conflicts.rules import (
    find_field_changes,
    is_relevant,
    with_foreign_change,
    with_revert,
)
from ssa_operator.reconcile.status.conditions import Truncation
from ssa_operator.reconcile.status.report import Report


class StatusHistory(Struct, frozen=True, kw_only=True):
    """What was reported, which status is not written yet, and which other managers write the status."""

    report: Report | None = None
    """The last report, None before the first reconcile."""
    deferred: Mapping[str, Any] | None = None
    """The status that the last reconcile left unwritten, because the children of other parents are applied first."""
    written: WrittenStatus | None = None
    """What this process wrote last."""
    conflict: ConflictHistory | None = None
    """What other managers changed in the status."""
    truncation: Truncation | None = None
    """The whole status that did not fit into the parent, None if it does."""
    observed_at: float = 0.0
    """When a reconcile last looked for foreign changes."""

    @property
    def unready(self) -> bool:
        """Whether the last report says that the parent is not ready."""
        return self.report is not None and not self.report.verdict.ready

    @property
    def paused(self) -> bool:
        """Whether the operator leaves another writer's status in place for now."""
        return self.conflict is not None and self.conflict.revert_delayed(self.observed_at)


def observe_status(history: StatusHistory, parent: LiveObject, now: float, policy: ConflictPolicy) -> StatusHistory:
    """The history with the foreign change of the status that the live parent shows."""
    written, conflict = history.written, history.conflict
    if conflict is not None and not is_relevant(conflict, now, policy):
        conflict = None
    is_reverted = conflict is None or conflict.reverted_at is not None
    if written is not None and is_reverted and _is_overwritten(written, parent):
        found = find_field_changes(written.parent.own_entry("status"), written.parent, parent, "status")
        # Changes of a status count together, whichever of its fields they are about.
        whole = ForeignChange(tuple(replace(change, fields=()) for change in found))
        conflict = with_foreign_change(conflict, b"status", whole, now, policy)
    return replace(history, conflict=conflict, observed_at=now)


def _is_overwritten(written: WrittenStatus, parent: LiveObject) -> bool:
    before = written.parent
    if parent is before or parent.body.get("status") == before.body.get("status"):
        return False
    # If the API server stores it in another form, the difference does not come from another writer.
    return differs(parent, written.desired) and not differs(before, written.desired)


def after_match(history: StatusHistory, status: Mapping[str, Any], live: LiveObject, now: float) -> StatusHistory:
    """The history after the live parent was found to have the status that the operator wants. What another operator
    wrote is not to be reverted any more then, and is no foreign change the next time.
    """
    if history.conflict is None:
        return history
    return _as_written(history, status, live, now)


def after_write(history: StatusHistory, status: Mapping[str, Any], live: LiveObject, now: float) -> StatusHistory:
    """The history after this process wrote a status; `live` is the parent that the API server returned."""
    return _as_written(replace(history, deferred=None), status, live, now)


def without_conflict(history: StatusHistory, now: float) -> StatusHistory:
    """The history after nothing was there to be written."""
    return replace(history, conflict=history.conflict and with_revert(history.conflict, now))


def _as_written(history: StatusHistory, status: Mapping[str, Any], live: LiveObject, now: float) -> StatusHistory:
    desired = encoded_once(status, history.report.status if history.report is not None else None)
    return without_conflict(replace(history, written=WrittenStatus(desired, live)), now)


def next_status_at(history: StatusHistory) -> float | None:
    """When a foreign change of the status has to be reverted, or a conflict is found to be over."""
    return history.conflict.again_at(history.observed_at) if history.conflict is not None else None


class WrittenStatus(Struct, frozen=True):
    """The status that the operator wrote last, or found as it wants it."""

    desired: Mapping[str, Any]
    """What it wanted."""
    parent: LiveObject
    """The parent with it."""


def conflict_message(history: ConflictHistory | None) -> str | None:
    """The message about a status conflict, None without one."""
    if history is None or not history.in_conflict:
        return None
    changes = history.repeated_changes()
    writers = " and ".join(dict.fromkeys(change.writer() for change in changes))
    advice = DIVIDE_PARENTS if any(change.manager == MANAGER for change in changes) else "stop it"
    return f"{writers} repeatedly overwrites this status; {advice}"
