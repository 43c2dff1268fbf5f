"""What an earlier process said of a parent's children, in the parent's status.

Promises:
- It is a hint, never a proof: somebody may have written anything there, and none of it is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ssa_operator.core.objects.identity import GroupKind, Identity, read_group_kind, read_identity
from ssa_operator.core.objects.live_object import LiveObject

KEPT_UNTIL = "kept until"
"""The words by which a child is found again that is kept until what takes its place is ready."""


def reported_kinds(parent: LiveObject) -> set[GroupKind]:
    """The kinds that an earlier process reported in the parent's status: what it made has to be found again, also
    where no template renders it now.
    """
    return {kind for entry in _reported(parent) if (kind := read_group_kind(entry)) is not None}


def kept_before(parent: LiveObject, own: Iterable[LiveObject]) -> dict[Identity, frozenset[Identity]]:
    """What an earlier process kept until something else is ready: until all others of its kind are, for all we know."""
    kinds: dict[GroupKind, set[Identity]] = {}
    for live in own:
        kinds.setdefault(live.identity.group_kind, set()).add(live.identity)
    kept = (read_identity(entry) for entry in _reported(parent) if KEPT_UNTIL in str(entry.get("message")))
    return {
        identity: frozenset(kinds.get(identity.group_kind, ())) - {identity}
        for identity in kept
        if identity is not None
    }


def reported_children(parent: LiveObject) -> list[Mapping[str, object]] | None:
    """The entries of `status.resources`; None where the status has none, or where they are not the operator's."""
    status = parent.body.get("status")
    if not isinstance(status, Mapping) or not isinstance(status.get("resources"), list):
        return None
    entries = _reported(parent)
    ours = len(entries) == len(status["resources"]) and all(
        read_identity(entry) is not None and "state" in entry for entry in entries
    )
    return entries if ours else None


def _reported(parent: LiveObject) -> list[Mapping[str, object]]:
    """The entries of `status.resources`."""
    status = parent.body.get("status")
    entries = status.get("resources") if isinstance(status, Mapping) else None
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
