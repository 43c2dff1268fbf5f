"""A mapping that is kept encoded is the mapping that it was made of."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.objects.json_codec import (
    NESTING_LIMIT,
    NOTHING,
    EncodedMapping,
    decode_text,
    decoder,
    is_deep,
    without_deep_values,
)
from ssa_operator.objects.live_object import LiveObject

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
MAPPINGS = st.dictionaries(st.text(max_size=5), VALUES, max_size=5)


@given(MAPPINGS, MAPPINGS)
@settings(max_examples=30)
def test_an_encoded_mapping_equals_what_it_was_made_of_and_nothing_else(mapping: Any, other: Any) -> None:
    kept = EncodedMapping(mapping)
    assert kept == mapping
    assert mapping == kept
    assert dict(kept) == mapping
    assert len(kept) == len(mapping)
    assert EncodedMapping(kept) == kept
    assert (kept == other) is (mapping == other)
    assert (kept == EncodedMapping(other)) is (mapping == other)


def test_the_order_of_the_keys_makes_no_difference() -> None:
    assert EncodedMapping({"a": 1, "b": 2}) == EncodedMapping({"b": 2, "a": 1})


def test_what_a_reader_does_to_a_value_does_not_change_the_mapping() -> None:
    kept = EncodedMapping({"conditions": [1]})
    kept["conditions"].append(2)
    assert kept["conditions"] == [1]
    assert kept.get("resources", []) == []
    with pytest.raises(KeyError):
        kept["resources"]


def test_the_shared_empty_mapping_can_not_be_changed() -> None:
    assert NOTHING == {}
    with pytest.raises(TypeError):
        NOTHING["a"] = 1  # type: ignore[index]


DECODE = decoder(dict[str, Any])

NO_JSON = {
    "nothing": b"",
    "NUL": b"\0",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a key that is not UTF-8": b'{"\xff": 1}',
    "a text that is not UTF-8": b'{"a": "\xff\xfe"}',
    "half of a surrogate pair": b'{"a": "\\ud800"}',
    "a number beyond floats": b'{"a": 1e400}',
    "an integer of 5000 digits": b'{"a": ' + b"9" * 5000 + b"}",
    "NaN": b'{"a": NaN}',
    "lists that never end": b'{"a": ' + b"[" * 100_000,
    "mappings that never end": b'{"a":' * 100_000,
    "more closed than opened": b'{"a": 1}' + b"}" * 100_000,
    "a list": b"[]",
    "two values": b"{}{}",
}
"""Bytes that are no JSON object, by what is wrong with them; add a line for another one."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(alphabet='[]{}"\\,:ab', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"\\a', max_size=4), inner, max_size=3),
    max_leaves=12,
)


def nested(levels: int, inner: str = "1") -> str:
    """A mapping of so many levels below `a`, lists and mappings in turn."""
    half = (levels - 1) // 2
    return '{"a":' + '[{"b":' * half + inner + "}]" * half + "}"


@pytest.mark.parametrize("name", NO_JSON)
def test_bytes_that_are_no_object_are_an_error(name: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        DECODE(NO_JSON[name])


@given(st.binary(max_size=40))
def test_random_bytes_are_an_object_or_an_error(encoded: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError):
        assert isinstance(DECODE(encoded), dict)


@pytest.mark.parametrize("levels", [1501, 9999])
def test_an_object_of_thousands_of_levels_is_read_without_its_deepest_values(levels: int) -> None:
    encoded = nested(levels, inner='"]}"')
    found = DECODE(f'{{"first":{{"x":1}},"deep":{encoded},"text":"[]\\"]}}","last":[2]}}'.encode())
    assert (found["first"], found["text"], found["last"]) == ({"x": 1}, '[]"]}', [2])
    deepest: Any = found
    for _ in range(NESTING_LIMIT):
        deepest = next(iter(deepest.values() if isinstance(deepest, dict) else deepest))
        if deepest == {"x": 1}:
            deepest = found["deep"]
    assert deepest is None


@given(JSON)
def test_what_is_not_deep_stays_as_it_is(value: Any) -> None:
    for levels in (0, 1, NESTING_LIMIT - 20):
        encoded = ("[" * levels + json.dumps(value) + "]" * levels).encode()
        assert without_deep_values(encoded) == encoded


@given(JSON, st.integers(1, 300))
def test_what_is_deeper_than_the_limit_is_null(value: Any, more: int) -> None:
    levels = NESTING_LIMIT + more
    encoded = ("[" * levels + json.dumps(value) + "]" * levels).encode()
    assert is_deep(encoded)
    assert without_deep_values(encoded) == b"[" * NESTING_LIMIT + b"null" + b"]" * NESTING_LIMIT


def test_a_usual_object_is_not_deep() -> None:
    wide = {"kind": "Pod", "spec": {"containers": [{"name": str(at), "env": [{}, []]} for at in range(500)]}}
    assert not is_deep(json.dumps(wide).encode())


def test_a_text_of_a_user_is_a_value_or_an_error() -> None:
    assert decode_text('{"a": "\u00e4"}') == {"a": "\u00e4"}
    assert decode_text(nested(9999))["a"][0]["b"]
    for text in ("", "[" * 100_000, '{"a":' * 100_000, "9" * 5000, "\ud800", "\ufeff{}"):
        with pytest.raises(ValueError):  # noqa: PT011 - any message
            decode_text(text)


def test_the_body_of_a_live_object_never_exceeds_the_stack() -> None:
    for levels in (101, 301, 901, 9999):
        head = '"apiVersion":"v1","kind":"Deep","metadata":{"name":"d","uid":"u"}'
        live = LiveObject(f'{{{head},"spec":{nested(levels)}}}'.encode())
        assert (live.identity.name, live.body["metadata"]["uid"]) == ("d", "u")
        assert json.dumps(live.body).count("[") < NESTING_LIMIT
