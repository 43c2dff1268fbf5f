"""The proof that a child is still what our last apply made it.

Promises:
- A manifest is proven unchanged only if it is the one that was applied last, to the same object (uid), and our own
  managedFields entry is the one that this apply returned.
- Whenever another manager changes or removes a field that we apply (by Update, by Apply, or through the scale
  subresource) the API server takes the field out of our entry, so the proof fails; a write that leaves our fields
  alone leaves the entry alone (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management;
  seen on 1.36.3).
- Another operator of our name that writes within the second of our own apply leaves us an entry that looks the same.
  So where an object's content may be another one, the values of our fields are compared too.
- Nothing is proven without an apply of this process: after a restart the first pass applies everything.
"""

from __future__ import annotations

from dataclasses import dataclass

from ssa_operator.core.objects.live_object import LiveObject, split_entry
from ssa_operator.core.objects.managed_fields import changed_fields
from ssa_operator.core.objects.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRecord:
    """What our last apply sent (`digest`), to which object (`uid`), and our managedFields entry after it."""

    digest: bytes
    uid: str
    entry: bytes


def apply_record(manifest: Manifest, applied: LiveObject) -> ApplyRecord:
    """The proof that an apply leaves behind; `applied` is the object that the API server returned."""
    return ApplyRecord(digest=manifest.digest, uid=applied.uid, entry=applied.own_entry())


def is_unchanged(manifest: Manifest, live: LiveObject, held: ApplyRecord | None, left: LiveObject | None) -> bool:
    """Whether applying the manifest now would change nothing. `left` is the object when that was last known."""
    return held is not None and held.digest == manifest.digest and is_untouched(held, left, live)


def is_same_apply(before: LiveObject, after: LiveObject) -> bool:
    """Whether an apply between these two changed nothing of ours; others may have written meanwhile, a status say."""
    if before.resource_version == after.resource_version:
        return True
    entry = before.own_entry()
    same = before.uid == after.uid and bool(entry) and entry == after.own_entry()
    return same and not changed_fields(split_entry(entry)[1], before.body, after.body)


def is_untouched(held: ApplyRecord, left: LiveObject | None, live: LiveObject) -> bool:
    """Whether nobody changed what our last apply wrote."""
    if held.uid != live.uid or not held.entry or held.entry != live.own_entry():
        return False
    if left is None or left.resource_version == live.resource_version:
        return True
    if live.metadata.generation and left.metadata.generation == live.metadata.generation:
        return True
    return not changed_fields(split_entry(held.entry)[1], left.body, live.body)
