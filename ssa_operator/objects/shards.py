"""Shards: which parents each of N operator processes reconciles, by the bucket of the uid.

Promises:
- The hash is the one that Kubernetes' own `shardSelector` uses (KEP-5866): FNV-1a of 64 bits over the uid.
- A bucket depends on the uid alone. It stays the same for the life of a parent, whatever the number of shards.
- For every N from 1 to 256, each bucket belongs to exactly one shard. A shard's buckets are contiguous, and the numbers
  of buckets of two shards differ by at most one.
- A shard's watch of children shows every child of its parents that has the right bucket label or none. So a child that
  an operator without `--shard` created does not count as missing.
- Overlaps and gaps between running shards are found by their buckets, even while their N differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from ssa_operator.objects.live_object import BUCKET_LABEL, PARENT_UID_LABEL

BUCKETS = 256
"""The number of buckets: the upper 8 bits of the hash."""


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
    return BUCKET_LABEL in labels and labels[BUCKET_LABEL] == bucket_name(bucket_of(uid))


def bucket_name(bucket: int) -> str:
    """The value of the label: `a3`."""
    return f"{bucket:02x}"


_SHARD = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)
_BITS_BELOW_BUCKET = 56


class ShardError(ValueError):
    """A text that is no shard; the error says what to write."""


class Shard(Struct, frozen=True, order=True):
    """One of `count` shards, counted from 0."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= BUCKETS:
            raise ShardError(f"the number of shards is {self.count}; it is 1 to {BUCKETS}")
        if not 0 <= self.index < self.count:
            raise ShardError(
                f"shard {self.index} of {self.count} does not exist; shards are counted from 0 to {self.count - 1}"
            )

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard that `I/N` names. Raises ShardError."""
        match = _SHARD.fullmatch(text)
        if match is None:
            hint = (
                "; Kubernetes replaces $(NAME) only for an environment variable that the container defines before it"
                if "$(" in text
                else ""
            )
            raise ShardError(f"write I/N, such as 0/4 for the first of four shards{hint}")
        return cls(int(match[1]), int(match[2]))

    @property
    def buckets(self) -> range:
        """The buckets of the shard."""
        return range(self.index * BUCKETS // self.count, (self.index + 1) * BUCKETS // self.count)

    def owns(self, uid: str) -> bool:
        """Whether the parent with that uid belongs to the shard."""
        return bucket_of(uid) in self.buckets

    @property
    def shard_selector(self) -> str:
        """The shard's parents as Kubernetes' `shardSelector` (ShardedListAndWatch, alpha in 1.36)."""
        start, stop = self.buckets.start << _BITS_BELOW_BUCKET, self.buckets.stop << _BITS_BELOW_BUCKET
        return f"shardRange(object.metadata.uid, '0x{start:016x}', '0x{stop:016x}')"

    @property
    def child_selector(self) -> str:
        """The label selector of the shard's children: those with a parent label, without those of other buckets.

        `notin` also selects children without the bucket label: an operator without `--shard` created them, and one
        that is applied once never gets the label. The client drops those of other shards' parents.
        """
        others = ",".join(bucket_name(bucket) for bucket in range(BUCKETS) if bucket not in self.buckets)
        return f"{PARENT_UID_LABEL},{BUCKET_LABEL} notin ({others})" if others else PARENT_UID_LABEL

    @property
    def range_text(self) -> str:
        """The first and the last bucket: `40-7f`."""
        return range_text(self.buckets)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def range_text(buckets: range) -> str:
    """The first and the last of some contiguous buckets: `40-7f`."""
    return f"{bucket_name(buckets.start)}-{bucket_name(buckets.stop - 1)}"


class Coverage(Struct, frozen=True, kw_only=True):
    """How some running shards cover the buckets."""

    gaps: tuple[range, ...]
    """The buckets that no shard reconciles."""
    overlaps: tuple[range, ...]
    """The buckets that several shards reconcile."""

    @property
    def text(self) -> str:
        """The gaps and overlaps in words, '' if each bucket has exactly one shard."""
        found = []
        if self.gaps:
            found.append(f"no shard reconciles the buckets {', '.join(map(range_text, self.gaps))}")
        if self.overlaps:
            found.append(f"several shards reconcile the buckets {', '.join(map(range_text, self.overlaps))}")
        return "; ".join(found)


def coverage(shards: Iterable[Shard]) -> Coverage:
    """The gaps and overlaps of some shards, whose N may differ."""
    counts = [0] * BUCKETS
    for shard in shards:
        for bucket in shard.buckets:
            counts[bucket] += 1
    return Coverage(
        gaps=_runs(count == 0 for count in counts),
        overlaps=_runs(count > 1 for count in counts),
    )


def _runs(marked: Iterable[bool]) -> tuple[range, ...]:
    """The runs of marked buckets."""
    found: list[range] = []
    for bucket, is_marked in enumerate(marked):
        if not is_marked:
            continue
        if found and found[-1].stop == bucket:
            found[-1] = range(found[-1].start, bucket + 1)
        else:
            found.append(range(bucket, bucket + 1))
    return tuple(found)
