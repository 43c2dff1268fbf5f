"""Reads an earlier process's report on a parent's children from the parent's status.

Promises:
- The status is a hint, not a proof, because any client may have written it. None of its content causes an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct

from ssa_operator.objects.identity import GroupKind, Identity, identity_of, read_group_kind, read_identity
from ssa_operator.objects.json_codec import decoder
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.parent_records.rules import read_parent_records

KEPT_UNTIL = "kept until"
"""The words in the message of a child that is kept until its successor is ready. They are how the next process finds
it.
"""


def reported_kinds(parent: LiveObject) -> set[GroupKind]:
    """The kinds of the children in the parent's status. Their objects must be found even if no template renders
    them now.
    """
    return {kind for entry in _reported(parent) if (kind := read_group_kind(entry)) is not None}


def reported_successors(parent: LiveObject, own: Iterable[LiveObject]) -> dict[Identity, frozenset[Identity]]:
    """The successors of each child that an earlier process kept until they are ready. The status doesn't name all of
    them, so all children count: those that are kept with it are not rendered, and succeed nothing.
    """
    kept = (read_identity(entry) for entry in _reported(parent) if KEPT_UNTIL in str(entry.get("message")))
    all_children = frozenset(live.identity for live in own)
    return {identity: all_children for identity in kept if identity is not None}


def reported_children(parent: LiveObject) -> list[Mapping[str, object]] | None:
    """The entries of `status.resources`; None if the status has none, or if the operator did not write them."""
    status = parent.body.get("status")
    if not isinstance(status, Mapping) or not isinstance(status.get("resources"), list):
        return None
    entries = _reported(parent)
    ours = len(entries) == len(status["resources"]) and all(
        read_identity(entry) is not None and "state" in entry for entry in entries
    )
    return entries if ours else None


class _Entry(Struct, frozen=True):
    kind: str
    name: str
    group: str = ""
    namespace: str = ""


class _Status(Struct, frozen=True):
    resources: list[_Entry] = []


class _StatusHead(Struct, frozen=True):
    status: _Status = _Status()


_decode_status = decoder(_StatusHead)


@lru_cache(maxsize=256)
def named_children(parent: LiveObject) -> frozenset[Identity]:
    """The children that the inventory and the status of a parent name. The rest of it stays encoded: after a start, the
    first lists of children ask for those of all parents.
    """
    inventory = read_parent_records(parent).inventory
    try:
        entries = _decode_status(parent.raw).status.resources
    except msgspec.ValidationError:  # not as the operator writes it
        return frozenset((*inventory, *filter(None, map(read_identity, _reported(parent)))))
    found = (identity_of(GroupKind(each.group, each.kind), each.namespace, each.name) for each in entries)
    return frozenset((*inventory, *filter(None, found)))


def _reported(parent: LiveObject) -> list[Mapping[str, object]]:
    """The entries of `status.resources` that are mappings."""
    status = parent.body.get("status")
    entries = status.get("resources") if isinstance(status, Mapping) else None
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
