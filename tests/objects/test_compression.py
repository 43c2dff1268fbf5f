"""What is compressed by another object comes back as it was."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.objects.compression import EXAMPLES_LIMIT, Examples, compress, decompress
from ssa_operator.objects.identity import GroupKind

CONFIG_MAP = GroupKind("", "ConfigMap")


@given(st.lists(st.binary(max_size=300), max_size=3 * EXAMPLES_LIMIT))
@settings(max_examples=30)
def test_bytes_come_back_whatever_was_compressed_before_and_after(texts: list[bytes]) -> None:
    examples: Examples = {}
    kept = [compress(text, CONFIG_MAP, examples) for text in texts]
    assert [decompress(*each) for each in kept] == texts


def test_an_example_may_be_longer_than_the_window_of_the_compression() -> None:
    long = random.Random(1).randbytes(60_000)
    examples: Examples = {}
    kept = [compress(text, CONFIG_MAP, examples) for text in (long, long[::-1], long[:50_000], long[1_000:])]
    assert [decompress(*each) for each in kept] == [long, long[::-1], long[:50_000], long[1_000:]]


def test_an_object_of_another_kind_is_no_example() -> None:
    text, examples = b"the same text " * 20, Examples()
    assert compress(text, GroupKind("", "Service"), examples) == (text, None)
    assert compress(text, CONFIG_MAP, examples) == (text, None)
    assert len(compress(text, CONFIG_MAP, examples)[0]) < len(text) / 10


def test_a_secret_is_neither_compressed_nor_an_example() -> None:
    examples: Examples = {}
    for _ in range(2):
        assert compress(b"password", GroupKind("", "Secret"), examples) == (b"password", None)
    assert not examples
