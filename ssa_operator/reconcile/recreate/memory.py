"""The children that were deleted to be recreated.

Promises:
- It is kept even if the reconcile fails after the deletion: the child must come back, with its generated values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child_history import NoMemory
from ssa_operator.reconcile.outcome import Outcome
from ssa_operator.reconcile.recreate.recreation import Recreation


class Recreations(NoMemory, frozen=True):
    """The deletions of objects that the operator recreates, by child."""

    by_child: Mapping[Identity, Recreation] = NOTHING

    def after_act(self, outcomes: Sequence[Outcome], /) -> Self:
        recreations: dict[Identity, Recreation] = {}
        for step in (outcome.step for outcome in outcomes):
            known = self.by_child.get(step.identity) if step.manifest is None else step.history.recreation
            if known is not None:
                recreations[step.identity] = known
        return replace(self, by_child=recreations)

    @property
    def at_rest(self) -> bool:
        return not self.by_child

    @property
    def deleted_with_values(self) -> dict[Identity, LiveObject]:
        """The objects that were deleted to be recreated and whose generated values the new ones keep."""
        return {
            identity: recreation.old
            for identity, recreation in self.by_child.items()
            if recreation.old is not None and not recreation.created
        }
