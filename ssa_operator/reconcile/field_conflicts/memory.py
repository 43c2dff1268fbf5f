"""What other managers changed in the children.

Promises:
- Each foreign change is counted once. A change that stands while the operator pauses is reverted in the end.
- A new value of the parent's `reconcile-at` ends every pause.
- What others did to a child that is no longer rendered, or to another manifest's object, is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from msgspec.structs import replace

from ssa_operator.kube.api.backoff import earliest
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.reconcile.child_history import CarriedOut, ChildHistory, NoMemory
from ssa_operator.reconcile.field_conflicts.history import ConflictHistory, ConflictPolicy
from ssa_operator.reconcile.field_conflicts.rules import AppliedChildren, update_histories, with_revert
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.resync.memory import ApplyRecords
from ssa_operator.reconcile.step import Action


class Conflicts(NoMemory, frozen=True):
    """What other managers changed, by child."""

    by_child: Mapping[Identity, ConflictHistory] = NOTHING
    observed_at: float = 0.0
    """When a reconcile last looked for foreign changes."""

    def after(self, done: CarriedOut, /) -> Self:
        if not self.by_child:
            return self
        outcomes = {outcome.step.identity: outcome for outcome in done.outcomes}
        conflicts = {
            identity: with_revert(each, done.now) if _is_applied(outcomes[identity]) else each
            for identity, each in self.by_child.items()
            if identity in outcomes and _is_about(each, outcomes[identity])
        }
        return replace(self, by_child=conflicts) if conflicts else type(self)()

    def due_at(self, _: float, /) -> float | None:
        """When a foreign change has to be reverted, or a conflict is found to be over."""
        return earliest(*(each.again_at(self.observed_at) for each in self.by_child.values()))

    @property
    def at_rest(self) -> bool:
        return not any(each.in_conflict or each.reverted_at is None for each in self.by_child.values())


def observe_conflicts(
    history: ChildHistory, children: AppliedChildren, now: float, policy: ConflictPolicy, *, renewed: bool
) -> ChildHistory:
    """The history with the foreign changes that the caches show, and with the newest versions of untouched children.
    `renewed` is whether `reconcile-at` has a new value: then nothing waits for the end of a pause.
    """
    children = children.newest()
    conflicts = update_histories(history[Conflicts].by_child, children, now, policy)
    if renewed:
        conflicts = {identity: replace(each, revert_due=now) for identity, each in conflicts.items()}
    found = Conflicts(conflicts, now) if conflicts else Conflicts()
    return history.remember(ApplyRecords(children.apply_records), found)


def _is_about(history: ConflictHistory, outcome: Outcome) -> bool:
    return outcome.step.manifest is not None and outcome.step.manifest.digest == history.digest


def _is_applied(outcome: Outcome) -> bool:
    return outcome.step.action is Action.APPLY and outcome.result not in (Result.FAILED, Result.WAITING)
