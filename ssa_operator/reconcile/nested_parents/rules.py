"""Limits how deep parents may be nested: templates may create parents, of their own kind or of other kinds that have a
folder, and these may create parents again, without end.

Promises:
- A parent with as many parents above it as the `maxDepth` of its folder allows creates nothing, and its condition
  names them.
  Existing children are still applied, and none is pruned because of the limit.
- While the operator does not know all parents yet, a parent that an unknown one created creates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.reconcile.child import Action, Child, without_creations
from ssa_operator.reconcile.nested_parents.ancestors import chain
from ssa_operator.reconcile.observed import Observed

_UNKNOWN = "waits: it isn't known yet how many parents are above its parent"


def within_depth(observed: Observed, steps: Sequence[Child]) -> list[Child]:
    """The steps. Below too many parents their creations are refused; while it is not known how many, they wait."""
    above = observed.parents.ancestors
    if len(above.line) >= observed.settings.max_depth:
        return without_creations(steps, _too_deep(above.line, observed.parent.identity, observed.settings.max_depth))
    if above.missing and not observed.parents.all_parents_known:
        return [replace(step, action=Action.WAIT, reason=_UNKNOWN) if step.creates else step for step in steps]
    return [*steps]


def _too_deep(line: Sequence[Identity], parent: Identity, limit: int) -> str:
    return (
        f"is not created, because templates create parents that create parents: {chain(line, parent)}. {limit} parents "
        "above a parent are allowed; end the recursion in the templates, or set "
        f"`maxDepth: {len(line) + 1}` or more in the folder's _settings.yaml"
    )
