"""Bounds how deep parents may be nested: templates may create parents, of their own kind or of other kinds that have a
folder, and these create parents again, without an end.

Promises:
- A parent with MAX_DEPTH parents above it creates nothing, and its condition names them. What exists is applied all the
  same, and nothing is pruned because of the bound.
- The depth follows from the label that the operator gives to children, so that a restart does not change it. While the
  operator does not know all parents yet, a parent that an unknown one created creates nothing.
- Under `--shard`, the parents of other shards count, too.
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


class CreatedParent(Struct, frozen=True):
    """A parent that another one created."""

    identity: Identity
    creator: str
    """The uid of the other one."""


def ancestors(parent: LiveObject, existing: Mapping[str, Identity], creators: Mapping[str, str]) -> Ancestors:
    """The parents above a parent. `existing` are all known parents by uid, `creators` has the uid of the parent that
    created each of them.

    A parent that is above itself ends the line: any user can write the label.
    """
    found: dict[str, Identity] = {}
    uid = parent.parent_uid
    while uid in existing and uid not in found and uid != parent.uid:
        found[uid] = existing[uid]
        uid = creators.get(uid, "")
    return Ancestors(line=tuple(reversed(found.values())), missing=uid if uid not in existing else "")


UNKNOWN_MESSAGE = "waits: it isn't known yet how many parents are above its parent"
"""The reason of a child that is not created until all parents are known."""


def too_deep_message(line: Sequence[Identity], parent: Identity, limit: int) -> str:
    """The message about a child that is not created; it follows the child's name. `line` are the parents above."""
    return (
        f"is not created, because templates create parents that create parents: {chain(line, parent)}. {limit} parents "
        "above a parent are allowed; end the recursion in the templates, or set "
        f"`maxDepth: {len(line) + 1}` or more in the folder's _settings.yaml"
    )


def chain(line: Sequence[Identity], parent: Identity) -> str:
    """Parents that create each other, as messages show them: the first ones and the last one."""
    shown = [*map(str, line[:_NAMED])]
    if len(line) > _NAMED:
        shown.append(f"{len(line) - _NAMED} more")
    return " -> ".join((*shown, str(parent)))
