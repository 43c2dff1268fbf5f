"""The children that change each time they are applied.

Promises:
- A change of the parent or of its templates ends every series: what the user wants is applied at once.
- Templates that read nothing of the cluster are in no loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from msgspec.structs import replace

from ssa_operator.kube.api.backoff import earliest
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.reconcile.child_history import CarriedOut, NoMemory, Observation
from ssa_operator.reconcile.feedback_loops.rules import Changes, follows_others, with_changes, without_settled
from ssa_operator.reconcile.feedback_loops.series import FeedbackLoop
from ssa_operator.reconcile.ordering import CHANGED
from ssa_operator.reconcile.resync.memory import ApplyRecords


class FeedbackLoops(NoMemory, frozen=True):
    """The feedback loops, by child."""

    by_child: Mapping[Identity, FeedbackLoop] = NOTHING

    def observed(self, seen: Observation, /) -> Self:
        return replace(self, by_child=NOTHING if seen.changed_by_user else without_settled(self.by_child, seen.now))

    def after(self, done: CarriedOut, /) -> Self:
        if not done.rendered.queries:
            return self
        records = done.before[ApplyRecords].by_child
        changed = {
            outcome.step.identity: follows_others(records.get(outcome.step.identity), outcome.step.live, outcome.live)
            for outcome in done.outcomes
            if outcome.step.history.foreign_change is None and outcome.result in CHANGED and outcome.live is not None
        }
        changes = Changes(
            changed=[*changed],
            followed=[identity for identity, followed in changed.items() if followed],
            lives=[outcome.live for outcome in done.outcomes if outcome.live is not None],
            read_by=done.read_by,
        )
        return replace(self, by_child=with_changes(self.by_child, done.rendered, changes, done.now))

    def due_at(self, now: float, /) -> float | None:
        """When a child of a loop is applied again, or a loop is over."""
        return earliest(*(each.again_at(now) for each in self.by_child.values()))

    @property
    def at_rest(self) -> bool:
        return not self.by_child
