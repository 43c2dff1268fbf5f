"""The bucket of a parent: which of the 256 equal parts of the hash space of uids it is in.

Promises:
- The hash is the one that Kubernetes' own `shardSelector` uses (KEP-5866): FNV-1a of 64 bits over the uid.
- A bucket depends on the uid alone. It stays the same for the life of a parent, whatever the number of shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ssa_operator.objects.annotations import PREFIX

BUCKETS = 256
"""The number of buckets: the upper 8 bits of the hash."""

BUCKET_LABEL = f"{PREFIX}bucket"
"""The label of a child that holds its parent's bucket, in two hexadecimal digits."""

_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 0xFFFFFFFFFFFFFFFF


def hash_of_uid(uid: str) -> int:
    """The 64-bit FNV-1a hash of a uid (http://www.isthe.com/chongo/tech/comp/fnv/)."""
    value = _OFFSET
    for byte in uid.encode():
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


@lru_cache(maxsize=16384)
def bucket_of(uid: str) -> int:
    """The bucket of a parent with that uid, 0 to 255."""
    return hash_of_uid(uid) >> 56


def has_bucket_label(labels: Mapping[str, str], uid: str) -> bool:
    """Whether a child has the label of the bucket of its parent, which has that uid."""
    return labels.get(BUCKET_LABEL) == bucket_name(bucket_of(uid))


def bucket_name(bucket: int) -> str:
    """The value of the label: `a3`."""
    return f"{bucket:02x}"
