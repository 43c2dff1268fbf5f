"""What a process remembers of the renders of one parent. Pruning sees by it whether data or templates changed.

Promises:
- It is one frozen value. A reconcile returns the next one and changes none.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from ssa_operator.objects.identity import Identity
from ssa_operator.reconcile.parent_records.rules import HeldPrune


class RenderHistory(Struct, frozen=True, kw_only=True):
    """The template sets that rendered the parent, and what they rendered."""

    digest: str = ""
    """Names the template set of the last reconcile."""
    rendered: frozenset[Identity] = frozenset()
    """The children that this template set rendered, as far as they exist or are rendered now."""
    applied_digest: str | None = None
    """Names the template set that was last applied completely, None where this process has not done so yet."""
    applied_children: frozenset[Identity] | None = None
    """The children of that moment."""
    held_prune: HeldPrune | None = None
    """The prune that is held, also where it can't be recorded on the parent."""
    successors: Mapping[Identity, frozenset[Identity]] = field(default_factory=dict)
    """For a child that is no longer rendered, the children that must be ready before it is deleted."""
