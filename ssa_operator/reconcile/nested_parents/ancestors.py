"""The parents above a parent.

Promises:
- They follow from the label that the operator gives to children, so that a restart does not change them.
- Under `--shard`, the parents of other shards count, too, where the operator limits how deep parents are nested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject

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
