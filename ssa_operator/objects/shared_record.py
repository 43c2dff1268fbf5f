"""The record on an object that several parents share (`ssa-operator.dev/apply: Shared`): its owners, and what each one
renders.

Promises:
- The record is on the object, so that every process, shard and restarted operator reads the same one.
- Any client may write the annotation: a text that is no record counts as a record without owners.
- The owners keep their order, so that the same record is always the same text.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.json_codec import decoder

SHARED_LABEL_VALUE = "shared"
"""The value of the label `ssa-operator.dev/parent-uid` of a shared object. It is the same for all owners, so that they
send the same manifest, and no label moves when one of them goes. No uid is such a text.
"""

OWNERS_ANNOTATION = f"{PREFIX}owners"
"""The annotation of a shared object that holds the record."""


class SharedRecord(msgspec.Struct, frozen=True):
    """Who owns a shared object."""

    render: str = ""
    """The digest of the manifest that the object has now."""
    owners: dict[str, str] = {}
    """The uid of each owner, with the digest of the manifest that it rendered last."""

    def __str__(self) -> str:
        return _encode(self).decode()

    def limited_to(self, uids: Container[str]) -> SharedRecord:
        """The record of these owners."""
        return SharedRecord(self.render, {uid: digest for uid, digest in self.owners.items() if uid in uids})

    def with_owner(self, uid: str, digest: str) -> SharedRecord:
        """The record with what an owner renders; a new owner is the last one."""
        return SharedRecord(self.render, {**self.owners, uid: digest})

    def others(self, uid: str) -> Mapping[str, str]:
        """The owners beside one, with what they render."""
        return {each: digest for each, digest in self.owners.items() if each != uid}


_encode = msgspec.json.Encoder().encode
_decode = decoder(SharedRecord)


def read_record(text: str | None) -> SharedRecord:
    """The record in an annotation."""
    try:
        return _decode(text.encode()) if text else SharedRecord()
    except ValueError:
        return SharedRecord()
