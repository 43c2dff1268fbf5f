"""The kinds whose children get other names again and again.

Promises:
- A change of the parent or of its templates ends every series: what the user wants is applied at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from msgspec.structs import replace

from ssa_operator.kube.api.backoff import earliest
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.reconcile.child_history import CarriedOut, NoMemory, Observation
from ssa_operator.reconcile.outcome import Result
from ssa_operator.reconcile.renames.rename_series import RenameSeries
from ssa_operator.reconcile.renames.rules import with_created, without_settled_names
from ssa_operator.reconcile.resync.memory import ApplyRecords
from ssa_operator.reconcile.step import Action


class Renames(NoMemory, frozen=True):
    """The series of new names, by kind."""

    by_kind: Mapping[GroupKind, RenameSeries] = NOTHING

    def observed(self, seen: Observation, /) -> Self:
        return replace(self, by_kind=NOTHING if seen.changed_by_user else without_settled_names(self.by_kind, seen.now))

    def after(self, done: CarriedOut, /) -> Self:
        known = done.before[ApplyRecords].by_child
        created = [
            outcome.step.identity
            for outcome in done.outcomes
            if outcome.result is Result.CREATED and outcome.step.identity not in known
        ]
        if not created:
            return self
        rendered = {outcome.step.identity for outcome in done.outcomes if outcome.step.location is not None}
        pruned = {outcome.step.identity for outcome in done.outcomes if outcome.step.action is Action.PRUNE}
        unrendered = (pruned | known.keys()) - rendered
        return replace(self, by_kind=with_created(self.by_kind, created, unrendered, done.now))

    def due_at(self, now: float, /) -> float | None:
        """When a child with another name is created, or a series is over."""
        return earliest(*(each.again_at(now) for each in self.by_kind.values()))

    @property
    def at_rest(self) -> bool:
        return not self.by_kind
