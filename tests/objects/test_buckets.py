"""The bucket of a parent: the hash is that of Go's hash/fnv, which the API server's shardSelector uses."""

from __future__ import annotations

from collections import Counter
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.buckets import bucket_name, bucket_of, has_bucket_label, hash_of_uid


@pytest.mark.parametrize(
    ("text", "hash_in_go"),
    [
        # http://www.isthe.com/chongo/src/fnv/test_fnv.c, the table of 64-bit FNV-1a.
        ("", 0xCBF29CE484222325),
        ("a", 0xAF63DC4C8601EC8C),
        ("foobar", 0x85944171F73967E8),
    ],
)
def test_the_hash_is_fnv_1a_of_64_bits(text: str, hash_in_go: int) -> None:
    assert hash_of_uid(text) == hash_in_go


@given(st.uuids())
def test_the_name_of_a_bucket_is_the_first_two_digits_of_the_hash(uid: object) -> None:
    assert bucket_name(bucket_of(str(uid))) == f"{hash_of_uid(str(uid)):016x}"[:2]
    assert has_bucket_label({"ssa-operator.dev/bucket": bucket_name(bucket_of(str(uid)))}, str(uid))


def test_the_random_uids_of_kubernetes_spread_evenly() -> None:
    random = Random(17)
    quarters = Counter(bucket_of(str(UUID(int=random.getrandbits(128), version=4))) // 64 for _ in range(10_000))
    assert all(2_300 < quarters[quarter] < 2_700 for quarter in range(4))
