"""The API server's warnings that were shown already.

Promises:
- A warning of a child is shown once, as long as the child is rendered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.reconcile.child_history import CarriedOut, NoMemory
from ssa_operator.reconcile.outcome import Outcome


class ShownWarnings(NoMemory, frozen=True):
    """The warnings that were shown, by child."""

    by_child: Mapping[Identity, frozenset[str]] = NOTHING

    def after(self, done: CarriedOut, /) -> Self:
        shown: dict[Identity, frozenset[str]] = {}
        for outcome in done.outcomes:
            identity = outcome.step.identity
            texts = shown.get(identity) or self.by_child.get(identity, frozenset())
            if texts or outcome.warnings:
                shown[identity] = texts.union(outcome.warnings)
        return replace(self, by_child=shown)

    def news(self, outcomes: tuple[Outcome, ...], /) -> tuple[Outcome, ...]:
        return tuple(self._with_new(outcome) if outcome.warnings else outcome for outcome in outcomes)

    def _with_new(self, outcome: Outcome) -> Outcome:
        known = self.by_child.get(outcome.step.identity, frozenset())
        new = tuple(text for text in outcome.warnings if text not in known)
        return outcome if new == outcome.warnings else replace(outcome, warnings=new)

    @property
    def at_rest(self) -> bool:
        return not self.by_child
