"""What this process remembers of what others do to a parent's children and status, and of what it was warned of.

Promises:
- Each foreign change is counted once, and one that stands while a fight pauses is put back in the end.
- A new value of the parent's `reconcile-at` ends every pause.
- It is all in memory: a restart forgives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.step import Action
from ssa_operator.core.policies.backoff import earliest
from ssa_operator.core.policies.field_conflicts import (
    AppliedChildren,
    ConflictHistory,
    ConflictPolicy,
    update_histories,
    with_revert,
)
from ssa_operator.core.policies.status_conflicts import WrittenStatus, update_status_history


@dataclass(slots=True)
class Rivalry:
    """feuds: the foreign changes of each child. status: those of the parent's status; written: what we wrote there.
    warned: the API server's warnings that were told already. looked: when the last pass looked at the children and at
    the status, in seconds since the epoch.
    """

    conflict_histories: Mapping[Identity, ConflictHistory] = field(default_factory=dict)
    status: ConflictHistory | None = None
    written: WrittenStatus | None = None
    warned: Mapping[Identity, frozenset[str]] = field(default_factory=dict)
    looked: float = 0.0
    looked_at_status: float = 0.0

    def look(
        self, scene: AppliedChildren, now: float, conflict_policy: ConflictPolicy, *, renewed: bool
    ) -> Mapping[Identity, ConflictHistory]:
        """The feuds as a pass over the children finds them; `renewed` is whether `reconcile-at` has a new value."""
        histories = update_histories(self.conflict_histories, scene, now, conflict_policy)
        if renewed:
            histories = {identity: replace(history, revert_due=now) for identity, history in histories.items()}
        self.conflict_histories, self.looked = histories, now
        return histories

    def acted(self, outcomes: Sequence[Outcome], now: float) -> tuple[Outcome, ...]:
        """Take what a pass did; the outcomes are given back with only those warnings that are new."""
        done = {outcome.step.identity: outcome for outcome in outcomes}
        self.conflict_histories = {
            identity: with_revert(history, now) if _applied(done[identity]) else history
            for identity, history in self.conflict_histories.items()
            if identity in done and _is_about(history, done[identity])
        }
        warned = {identity: texts for identity, texts in self.warned.items() if identity in done}
        told = []
        for outcome in outcomes:
            known = warned.get(outcome.step.identity, frozenset())
            if outcome.warnings:
                warned[outcome.step.identity] = known | frozenset(outcome.warnings)
            fresh = tuple(text for text in outcome.warnings if text not in known)
            told.append(replace(outcome, warnings=fresh) if fresh != outcome.warnings else outcome)
        self.warned = warned
        return tuple(told)

    def look_at_status(self, parent: LiveObject, now: float, conflict_policy: ConflictPolicy) -> ConflictHistory | None:
        """The feud over the parent's status as a pass finds it."""
        self.looked_at_status = now
        self.status = update_status_history(self.status, self.written, parent, now, conflict_policy)
        return self.status

    @property
    def status_held(self) -> bool:
        """Whether the status is left as others wrote it, for now."""
        return self.status is not None and self.status.revert_delayed(self.looked_at_status)

    def status_stands(self, now: float) -> None:
        """The status is as we want it."""
        if self.status is not None:
            self.status = with_revert(self.status, now)

    def status_written(self, desired: Mapping[str, Any], left: LiveObject, now: float) -> None:
        """We wrote the status."""
        self.written = WrittenStatus(desired, left)
        self.status_stands(now)

    def again_at(self) -> float | None:
        """When something has to be put back, or is found to be over."""
        status = self.status.again_at(self.looked_at_status) if self.status is not None else None
        return earliest(status, *(history.again_at(self.looked) for history in self.conflict_histories.values()))


def _is_about(history: ConflictHistory, outcome: Outcome) -> bool:
    return outcome.step.manifest is not None and outcome.step.manifest.digest == history.digest


def _applied(outcome: Outcome) -> bool:
    return outcome.step.action is Action.APPLY and outcome.result not in (Result.FAILED, Result.WAITING)
