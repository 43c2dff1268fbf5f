"""What an earlier process said of a parent's children, in the parent's status.

Promises:
- It is a hint, never a proof: somebody may have written anything there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ssa_operator.core.identity import GroupKind, Identity
from ssa_operator.core.live import Live

KEPT_UNTIL = "kept until"
"""The words by which a child is found again that is kept until what takes its place is ready."""


def reported_kinds(parent: Live) -> set[GroupKind]:
    """The kinds that an earlier process reported in the parent's status: what it made has to be found again, also
    where no template renders it now.
    """
    return {GroupKind(entry.get("group", ""), entry["kind"]) for entry in _reported(parent)}


def kept_before(parent: Live, own: Iterable[Live]) -> dict[Identity, frozenset[Identity]]:
    """What an earlier process kept until something else is ready: until all others of its kind are, for all we know."""
    kinds: dict[GroupKind, set[Identity]] = {}
    for live in own:
        kinds.setdefault(live.identity.group_kind, set()).add(live.identity)
    kept = (
        Identity(entry.get("group", ""), entry["kind"], entry.get("namespace", ""), entry.get("name", ""))
        for entry in _reported(parent)
        if KEPT_UNTIL in entry.get("message", "")
    )
    return {identity: frozenset(kinds.get(identity.group_kind, ())) - {identity} for identity in kept}


def _reported(parent: Live) -> list[Mapping[str, str]]:
    """The entries of `status.resources`."""
    status = parent.body.get("status")
    entries = status.get("resources") if isinstance(status, Mapping) else None
    found = entries if isinstance(entries, list) else []
    return [entry for entry in found if isinstance(entry, Mapping) and isinstance(entry.get("kind"), str)]
