"""What the API server refuses of the children's manifests, although these are not at fault.

Promises:
- It is remembered as long as the child is rendered and exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.reconcile.child_history import CarriedOut, NoMemory
from ssa_operator.reconcile.refusals.known_refusals import KnownRefusal


class Refusals(NoMemory, frozen=True):
    """What is refused, by child."""

    by_child: Mapping[Identity, KnownRefusal] = NOTHING

    def after(self, done: CarriedOut, /) -> Self:
        steps = (each.step for each in done.outcomes if each.step.manifest is not None and each.live is not None)
        return replace(self, by_child={step.identity: known for step in steps if (known := step.history.refusal)})

    @property
    def at_rest(self) -> bool:
        return not any(known.kept or known.admission for known in self.by_child.values())
