"""Refuses the children of a parent that exceed the limit of its folder.

Promises:
- A parent has at most 1 000 children (MAX_CHILDREN), unless `maxChildren` of the folder's settings allows more.
- A manifest that would exceed the limit creates nothing, and what exists is applied all the same.
- With the children that are not pruned yet, a parent has at most UNPRUNED_FACTOR times as many.
"""

from __future__ import annotations

from collections.abc import Sequence

from ssa_operator.reconcile.child import Child, without_creations
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.prune.rules import is_prunable

UNPRUNED_FACTOR = 2
"""How many times as many children a parent may have while some of them are not pruned yet: a template may rename all of
them.
"""


def within_child_limit(observed: Observed, steps: Sequence[Child]) -> list[Child]:
    """The steps. If they create more children than the folder's settings allow, their creations are refused."""
    limit, own = observed.settings.max_children, observed.children.own
    if not any(step.creates for step in steps):
        return [*steps]
    rendered = {step.identity for step in steps}
    # Pruned children don't count, unless their kind gets new names again and again.
    staying = {
        live.identity
        for live in own
        if live.owned_fields()
        and (live.identity.group_kind in observed.memory.new_names or not is_prunable(observed, live))
    }
    count = len(rendered | staying)
    # The parent's author can delay a prune for any time, by a manifest that waits or fails.
    unpruned = len(rendered | {live.identity for live in own if live.owned_fields()})
    if count > limit:
        return without_creations(steps, _too_many(count, limit))
    if unpruned > UNPRUNED_FACTOR * limit:
        return without_creations(steps, _too_many_unpruned(unpruned, UNPRUNED_FACTOR * limit))
    return [*steps]


def _too_many(count: int, limit: int) -> str:
    return (
        f"is not created, because its parent would have {count} children, and {limit} are allowed; render fewer, or "
        f"set `maxChildren: {count}` or more in the folder's _settings.yaml"
    )


def _too_many_unpruned(count: int, limit: int) -> str:
    return (
        f"is not created, because its parent would have {count} children with those that are no longer rendered and "
        f"not pruned yet, and {limit} are allowed; repair what holds up the prune"
    )
