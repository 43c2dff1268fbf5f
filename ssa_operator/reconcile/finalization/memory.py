"""How often the Job of a finalize hook was replaced, because it had failed.

Promises:
- It is kept even if the reconcile fails later, so that the pauses between the Jobs grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.reconcile.child_history import NoMemory
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.step import Action


class HookFailures(NoMemory, frozen=True):
    """The number of failures, by hook."""

    by_child: Mapping[Identity, int] = NOTHING

    def after_act(self, outcomes: Sequence[Outcome], /) -> Self:
        replaced = [
            outcome.step.identity
            for outcome in outcomes
            if outcome.step.action is Action.RECREATE and outcome.result is Result.RECREATED
        ]
        counts = {identity: self.by_child.get(identity, 0) + 1 for identity in replaced}
        return replace(self, by_child={**self.by_child, **counts}) if counts else self

    @property
    def at_rest(self) -> bool:
        return not self.by_child
