"""Whether a child is unchanged since the operator's last apply, by the child's managedFields.

Promises:
- A manifest counts as unchanged only if it is the one that was applied last, to the same object (uid), and the
  operator's managedFields entry is the one that this apply returned.
- When another manager changes or removes a field that the operator applies (by Update, by Apply, or through the scale
  subresource), the API server removes the field from the operator's entry, so the manifest no longer counts as
  unchanged. A write that leaves the operator's fields alone leaves the entry alone
  (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management; seen on 1.36.3).
- Another operator with the same field manager that writes within the second of the apply leaves an entry that looks the
  same. So if the object's content may differ, the operator compares the values of its fields, too.
- The owners of an object that several parents share are no values: they change when another parent applies it.
- The values of two versions of an object are not compared: an API server that converts may write a field under another
  name.
- An apply that changed nothing but generation and managedFields times, and that the API server counted as a change
  nevertheless, is not repeated while the object has the version that this apply left. Any later change of any field by
  any client ends that.
- Without an apply by this process no manifest counts as unchanged: after a restart the first reconcile applies
  everything.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.field_set import changed_fields, lost_fields
from ssa_operator.objects.live_object import LiveObject, split_entry
from ssa_operator.objects.managed_fields import names_owners
from ssa_operator.objects.manifest import Manifest

COUNTED_IN_VAIN = (
    "the API server counts each apply as a change, though nothing changes; no resync repeats it while the object stays "
    "as it is; `ssa-operator check` finds empty lists and mappings that cause this"
)
"""What the operator logs once of such an object."""


class ApplyRecord(Struct, frozen=True, kw_only=True):
    """What the operator's last apply of a manifest sent and left behind."""

    digest: bytes
    """The digest of the manifest."""
    applied: LiveObject
    """The object that the apply returned, or a later version with the same entry of the operator in managedFields."""

    counted_version: str = ""
    """The resourceVersion that an apply of the manifest left which changed nothing, and which the API server counted as
    a change; '' without one.
    """

    @property
    def uid(self) -> str:
        """The uid of the object."""
        return self.applied.uid

    @property
    def own_entry(self) -> bytes:
        """The operator's managedFields entry after the apply, as `LiveObject.own_entry` returns it."""
        return self.applied.own_entry()


def apply_record(manifest: Manifest, applied: LiveObject) -> ApplyRecord:
    """The record of an apply; `applied` is the object that the API server returned."""
    return ApplyRecord(digest=manifest.digest, applied=applied)


def is_unchanged(manifest: Manifest, live: LiveObject, record: ApplyRecord | None) -> bool:
    """Whether applying the manifest now would change nothing."""
    return record is not None and record.digest == manifest.digest and is_untouched(record, live)


def is_counted_in_vain(live: LiveObject, record: ApplyRecord | None) -> bool:
    """Whether applying the recorded manifest again would only give the object another version."""
    return record is not None and record.uid == live.uid and record.counted_version == live.resource_version


def is_counted_as_change(before: LiveObject, after: LiveObject) -> bool:
    """Whether an apply between these two versions changed nothing, and gave the object another version nevertheless.

    The API server drops the empty list of a NetworkPolicy, for example, and compares the object without it with the
    manifest: each apply raises the generation. A change by others that the apply reverted would raise it twice.
    """
    return (
        before.uid == after.uid
        and before.resource_version != after.resource_version
        and after.metadata.generation - before.metadata.generation <= 1
        and _owners(before) == _owners(after)
        and is_same_content(before, after)
    )


def _owners(live: LiveObject) -> list[tuple[str, str, str, bytes]]:
    """The managedFields of an object, without their times."""
    return [(each.manager, each.operation, each.subresource, bytes(each.fields_v1)) for each in live.managed_fields]


def is_same_apply(before: LiveObject, after: LiveObject) -> bool:
    """Whether an apply between these two versions changed none of the operator's fields. Others may have written
    meanwhile, for example the status.
    """
    if before.resource_version == after.resource_version:
        return True
    entry = before.own_entry()
    same = before.uid == after.uid and bool(entry) and entry == after.own_entry()
    return same and not _differs(entry, before, after)


def is_same_content(before: LiveObject, after: LiveObject) -> bool:
    """Whether a dry run of an apply would change nothing but the managedFields. Its answer has the resourceVersion of
    the object that it was tried on.
    """
    return _content(before) == _content(after)


def _content(live: LiveObject) -> dict[str, Any]:
    metadata = {key: value for key, value in live.body["metadata"].items() if key not in _BOOKKEEPING}
    return {**live.body, "metadata": metadata}


_BOOKKEEPING = frozenset({"managedFields", "resourceVersion", "generation"})


def is_untouched(record: ApplyRecord, live: LiveObject) -> bool:
    """Whether all fields that the recorded apply wrote still have its values."""
    applied = record.applied
    if is_untouched_by_version(applied, live):
        return True
    if applied.shared is not None and live.shared is not None:
        return _is_untouched_but_for_owners(applied, live)
    return _has_entry_of(applied, live) and not _differs(applied.own_entry(), applied, live)


def _is_untouched_but_for_owners(applied: LiveObject, live: LiveObject) -> bool:
    """Whether all fields of an object that several parents share still have their values. Each of its owners applies it
    with the same field manager, and changes the time of the entry, and the owners.
    """
    before, now = split_entry(applied.own_entry())[1], split_entry(live.own_entry())[1]
    if applied.uid != live.uid or not before or not now:
        return False
    changed = [*lost_fields(before, now)]
    if applied.version == live.version:
        changed += changed_fields(before, applied.body, live.body)
    return all(map(names_owners, changed))


def is_untouched_by_version(applied: LiveObject, live: LiveObject) -> bool:
    """The same, as far as it follows from the versions and from the operator's entry of managedFields."""
    if not _has_entry_of(applied, live):
        return False
    if applied.resource_version == live.resource_version:
        return True
    return bool(live.metadata.generation) and applied.metadata.generation == live.metadata.generation


def _has_entry_of(applied: LiveObject, live: LiveObject) -> bool:
    """Whether the operator's entry of managedFields is that of another state of the same object."""
    if applied.uid != live.uid:
        return False
    entry = applied.own_entry()
    return bool(entry) and (applied is live or entry == live.own_entry())


def with_newest(record: ApplyRecord, live: LiveObject) -> ApplyRecord:
    """The record with the newest version of an object whose fields had to be compared, if it is untouched: so they are
    compared once.
    """
    if is_untouched_by_version(record.applied, live) or not is_untouched(record, live):
        return record
    return replace(record, applied=live)


def _differs(entry: bytes, one: LiveObject, other: LiveObject) -> bool:
    """Whether a field of an entry has another value in two states of an object, as far as they can be compared."""
    return one.version == other.version and bool(changed_fields(split_entry(entry)[1], one.body, other.body))
