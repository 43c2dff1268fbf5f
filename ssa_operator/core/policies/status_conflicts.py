"""Somebody else writes the status that we write: another operator that judges the parent differently, or a controller.

Promises:
- A status that was written over is written again, by the same rules by which a child is put back (`core/policies/field_conflicts.py`):
  at once where it happens now and then, with growing pauses where it goes on.
- Other writers' conditions and fields beside ours are no matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ssa_operator.core.objects.status_diff import differs
from ssa_operator.core.policies.field_conflicts import DIVIDE, Feud, Intrusion, Tolerance, lives, provoked, takes
from ssa_operator.core.objects.live_object import MANAGER, Live


@dataclass(frozen=True, slots=True)
class Written:
    """The status that we wrote, and the parent as that left it."""

    desired: Mapping[str, Any]
    left: Live


def rewritten(
    feud: Feud | None, written: Written | None, parent: Live, now: float, tolerance: Tolerance
) -> Feud | None:
    """The feud over a parent's status as a pass finds it; None where nobody rewrites it."""
    if feud is not None and not lives(feud, now, tolerance):
        feud = None
    if written is None or (feud is not None and feud.answered is None):
        return feud
    if parent.body.get("status") == written.left.body.get("status") or not differs(parent, written.desired):
        return feud
    if differs(written.left, written.desired):
        # The API server keeps something else of it: nobody else is to blame.
        return feud
    found = takes(written.left.own_entry("status"), written.left, parent, "status")
    # A status is one thing: who rewrites another part of it each time is no better than who rewrites the same.
    whole = Intrusion(tuple(replace(take, fields=()) for take in found))
    return provoked(feud, b"status", whole, now, tolerance)


def notice(feud: Feud | None) -> str:
    """What is said of a fight over a status, '' where there is none."""
    if feud is None or not feud.fighting:
        return ""
    rivals = feud.repeated()
    who = " and ".join(dict.fromkeys(take.who() for take in rivals))
    advice = DIVIDE if any(take.manager == MANAGER for take in rivals) else "stop that"
    return f"{who} rewrites this status again and again; {advice}"
