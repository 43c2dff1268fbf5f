"""The bucket of a parent: the hash is that of Go's hash/fnv, which the API server's shardSelector uses."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.shards import (
    BUCKETS,
    Shard,
    ShardError,
    bucket_name,
    bucket_of,
    coverage,
    has_bucket_label,
    hash_of_uid,
)


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


COUNTS = st.integers(1, BUCKETS)


def shards_of(count: int) -> list[Shard]:
    return [Shard(index, count) for index in range(count)]


def test_every_bucket_belongs_to_exactly_one_of_n_shards() -> None:
    for count in range(1, BUCKETS + 1):
        shards = shards_of(count)
        assert [bucket for shard in shards for bucket in shard.buckets] == list(range(BUCKETS))
        sizes = {len(shard.buckets) for shard in shards}
        assert max(sizes) - min(sizes) <= 1
        assert coverage(shards).text == ""


@given(st.uuids(), COUNTS)
def test_every_parent_belongs_to_exactly_one_shard(uid: object, count: int) -> None:
    assert sum(shard.owns(str(uid)) for shard in shards_of(count)) == 1


@given(COUNTS, st.data())
def test_a_child_selector_selects_its_buckets_and_children_without_a_bucket(count: int, data: st.DataObject) -> None:
    shard = Shard(data.draw(st.integers(0, count - 1)), count)
    excluded = set(re.findall(r"[0-9a-f]{2}(?=[,)])", shard.child_selector.partition("notin")[2]))
    assert excluded == {bucket_name(bucket) for bucket in range(BUCKETS) if bucket not in shard.buckets}
    # The whole URL of a watch stays far below the 8 KiB that proxies allow.
    assert len(shard.child_selector) < 1024


@pytest.mark.parametrize(
    ("shard", "selector"),
    [
        (Shard(0, 1), "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')"),
        (Shard(1, 4), "shardRange(object.metadata.uid, '0x4000000000000000', '0x8000000000000000')"),
        (Shard(3, 4), "shardRange(object.metadata.uid, '0xc000000000000000', '0x10000000000000000')"),
    ],
)
def test_the_shard_selector_is_the_one_that_kubernetes_documents(shard: Shard, selector: str) -> None:
    assert shard.shard_selector == selector


@given(COUNTS, st.data())
def test_a_shard_is_parsed_as_it_is_written(count: int, data: st.DataObject) -> None:
    shard = Shard(data.draw(st.integers(0, count - 1)), count)
    assert Shard.parse(str(shard)) == shard


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3", "write I/N"),
        ("a/4", "write I/N"),
        ("-1/4", "write I/N"),
        ("1/4 ", "write I/N"),
        ("٣/4", "write I/N"),
        ("$(POD_INDEX)/4", "environment variable"),
        ("4/4", "counted from 0 to 3"),
        ("0/0", "it is 1 to 256"),
        ("0/257", "it is 1 to 256"),
    ],
)
def test_a_wrong_shard_is_an_error_that_says_what_to_write(text: str, words: str) -> None:
    with pytest.raises(ShardError, match=re.escape(words)):
        Shard.parse(text)


def test_gaps_and_overlaps_are_found_also_while_n_changes() -> None:
    assert coverage([Shard(0, 4), Shard(1, 4), Shard(3, 4)]).text == "no shard reconciles the buckets 80-bf"
    assert coverage([Shard(0, 2), Shard(1, 2), Shard(1, 4)]).text == "several shards reconcile the buckets 40-7f"
    assert coverage([Shard(0, 2), Shard(1, 4)]).text == (
        "no shard reconciles the buckets 80-ff; several shards reconcile the buckets 40-7f"
    )


@given(st.lists(st.tuples(st.integers(0, 255), COUNTS).filter(lambda pair: pair[0] < pair[1]), max_size=5))
def test_coverage_counts_each_bucket(pairs: list[tuple[int, int]]) -> None:
    shards = [Shard(index, count) for index, count in pairs]
    found = coverage(shards)
    for bucket in range(BUCKETS):
        owners = sum(bucket in shard.buckets for shard in shards)
        assert any(bucket in gap for gap in found.gaps) == (owners == 0)
        assert any(bucket in overlap for overlap in found.overlaps) == (owners > 1)
