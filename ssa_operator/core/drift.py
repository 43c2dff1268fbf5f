"""The proof that a child is still what our last apply made it.

Promises:
- A manifest is proven unchanged only if it is the one that was applied last, to the same object (uid), and our own
  managedFields entry is the one that this apply returned.
- Whenever another manager changes or removes a field that we apply (by Update, by Apply, or through the scale
  subresource) the API server takes the field out of our entry, so the proof fails; a write that leaves our fields
  alone leaves the entry alone (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management;
  seen on 1.36.3).
- Nothing is proven without an apply of this process: after a restart the first pass applies everything.
"""

from __future__ import annotations

from dataclasses import dataclass

from ssa_operator.core.live import Live
from ssa_operator.core.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What our last apply sent (`digest`), to which object (`uid`), and our managedFields entry after it."""

    digest: bytes
    uid: str
    entry: bytes


def proof(manifest: Manifest, applied: Live) -> Proof:
    """The proof that an apply leaves behind; `applied` is the object that the API server returned."""
    return Proof(digest=manifest.digest, uid=applied.uid, entry=applied.own_entry())


def proven(manifest: Manifest, live: Live, held: Proof | None) -> bool:
    """Whether applying the manifest now would change nothing."""
    return (
        held is not None
        and held.digest == manifest.digest
        and held.uid == live.uid
        and bool(held.entry)
        and held.entry == live.own_entry()
    )
