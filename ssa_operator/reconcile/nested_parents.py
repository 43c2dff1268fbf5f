"""Limits how deep parents may be nested: templates may create parents, of their own kind or of other kinds that have a
folder, and these may create parents again, without end.

Promises:
- A parent with as many parents above it as the `maxDepth` of its folder allows creates nothing, and its condition
  names them.
  Existing children are still applied, and none is pruned because of the limit.
- While the operator does not know all parents yet, a parent that an unknown one created creates nothing.
- They follow from the label that the operator gives to children, so that a restart does not change them.
- Under `--shard`, the parents of other shards count, too, where the operator limits how deep parents are nested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Action, Child, without_creations

if TYPE_CHECKING:
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


_NAMED = 4
"""Parents that a message names, beginning with the first one."""


class Ancestors(Struct, frozen=True, kw_only=True):
    """The parents above a parent."""

    line: tuple[Identity, ...] = ()
    """From the first one to the one that created the parent."""
    missing: str = ""
    """The uid of the one that created the first one, if it is gone or not known, '' otherwise."""


NO_ANCESTORS = Ancestors()
"""Those of a parent that no other parent created."""


class OtherParent(Struct, frozen=True):
    """A parent that another shard reconciles."""

    identity: Identity
    creator: str
    """The uid of the parent that created it, '' without one."""


def ancestors(parent: LiveObject, existing: Mapping[str, Identity], creators: Mapping[str, str]) -> Ancestors:
    """The parents above a parent. `existing` are all known parents by uid, `creators` has the uid of the parent that
    created each of them.

    A parent that is above itself ends the line: any user can write the label.
    """
    found: dict[str, Identity] = {}
    uid = parent.creator_uid
    while uid in existing and uid not in found and uid != parent.uid:
        found[uid] = existing[uid]
        uid = creators.get(uid, "")
    return Ancestors(line=tuple(reversed(found.values())), missing=uid if uid not in existing else "")


def chain(line: Sequence[Identity], parent: Identity) -> str:
    """Parents that create each other, as messages show them: the first ones and the last one."""
    shown = [*map(str, line[:_NAMED])]
    if len(line) > _NAMED:
        shown.append(f"{len(line) - _NAMED} more")
    return " -> ".join((*shown, str(parent)))
