"""Somebody else writes the status that we write: another operator that judges the parent differently, or a controller.

Promises:
- A status that was written over is written again, by the rules of core.policies.field_conflicts:
  at once where it happens now and then, with growing pauses where it goes on.
- Other writers' conditions and fields beside ours are no matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ssa_operator.core.objects.live_object import MANAGER, LiveObject
from ssa_operator.core.objects.status_diff import differs
from ssa_operator.core.policies.field_conflicts import (
    DIVIDE,
    ConflictHistory,
    ConflictPolicy,
    ForeignChange,
    field_takeovers,
    is_relevant,
    with_foreign_change,
)


@dataclass(frozen=True, slots=True)
class WrittenStatus:
    """The status that we wrote, and the parent as that left it."""

    desired: Mapping[str, Any]
    left: LiveObject


def update_status_history(
    history: ConflictHistory | None,
    written: WrittenStatus | None,
    parent: LiveObject,
    now: float,
    conflict_policy: ConflictPolicy,
) -> ConflictHistory | None:
    """The feud over a parent's status as a pass finds it; None where nobody rewrites it."""
    if history is not None and not is_relevant(history, now, conflict_policy):
        history = None
    if written is None or (history is not None and history.answered is None):
        return history
    if parent.body.get("status") == written.left.body.get("status") or not differs(parent, written.desired):
        return history
    if differs(written.left, written.desired):
        # The API server keeps something else of it: nobody else is to blame.
        return history
    found = field_takeovers(written.left.own_entry("status"), written.left, parent, "status")
    # A status is one thing: who rewrites another part of it each time is no better than who rewrites the same.
    whole = ForeignChange(tuple(replace(take, fields=()) for take in found))
    return with_foreign_change(history, b"status", whole, now, conflict_policy)


def conflict_message(history: ConflictHistory | None) -> str:
    """What is said of a fight over a status, '' where there is none."""
    if history is None or not history.in_conflict:
        return ""
    rivals = history.repeated()
    who = " and ".join(dict.fromkeys(take.who() for take in rivals))
    advice = DIVIDE if any(take.manager == MANAGER for take in rivals) else "stop that"
    return f"{who} rewrites this status again and again; {advice}"
