"""Status conflicts: another writer, a second operator or a controller, overwrites the status that the operator writes.

Promises:
- The operator writes an overwritten status again by the rules of reconcile.field_conflicts.rules: at once for the first
  few times, then with growing pauses.
- Conditions and fields of other writers beside the operator's own are no conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.status_diff import differs
from ssa_operator.reconcile.field_conflicts.history import (
    DIVIDE_PARENTS,
    ConflictHistory,
    ConflictPolicy,
    ForeignChange,
)
from ssa_operator.reconcile.field_conflicts.rules import find_field_changes, is_relevant, with_foreign_change


class WrittenStatus(Struct, frozen=True):
    """The status that the operator wrote last."""

    desired: Mapping[str, Any]
    """What it wrote."""
    parent: LiveObject
    """The parent that this write returned."""


def update_status_history(
    history: ConflictHistory | None,
    written: WrittenStatus | None,
    parent: LiveObject,
    now: float,
    conflict_policy: ConflictPolicy,
) -> ConflictHistory | None:
    """The history of foreign changes of the parent's status, with the one that `parent` shows; None without any."""
    if history is not None and not is_relevant(history, now, conflict_policy):
        history = None
    if written is None or (history is not None and history.reverted_at is None):
        return history
    before = written.parent
    if parent is before:
        return history
    if parent.body.get("status") == before.body.get("status") or not differs(parent, written.desired):
        return history
    if differs(before, written.desired):
        # The API server stores the written status in another form, so the difference does not come from another writer.
        return history
    found = find_field_changes(before.own_entry("status"), before, parent, "status")
    # Changes of a status count together, whichever of its fields they are about.
    whole = ForeignChange(tuple(replace(change, fields=()) for change in found))
    return with_foreign_change(history, b"status", whole, now, conflict_policy)


def conflict_message(history: ConflictHistory | None) -> str | None:
    """The message about a status conflict, None without one."""
    if history is None or not history.in_conflict:
        return None
    changes = history.repeated_changes()
    writers = " and ".join(dict.fromkeys(change.writer() for change in changes))
    advice = DIVIDE_PARENTS if any(change.manager == MANAGER for change in changes) else "stop it"
    return f"{writers} repeatedly overwrites this status; {advice}"
