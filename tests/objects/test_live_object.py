"""A live object decodes its body on demand, is compressed without loss, and many of them take little memory."""

from __future__ import annotations

import random
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects import live_object
from ssa_operator.objects.compression import EXAMPLES_LIMIT, Examples, compress, decompress
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import DECODED_LIMIT, PARENT_UID_LABEL, DecodedBodies, LiveObject
from ssa_operator.objects.shared_record import OWNERS_ANNOTATION, SHARED_LABEL_VALUE, SharedRecord, read_record


def body(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": name}}


def test_a_body_is_decoded_once_while_a_reconcile_reads_it() -> None:
    live = LiveObject.of(body("x"))
    assert live.body is live.body


def test_a_body_that_was_read_long_ago_is_decoded_again() -> None:
    shared = DecodedBodies()

    def decoded(name: str) -> LiveObject:
        return LiveObject(msgspec.json.encode(body(name)), decoded_bodies=shared)

    first = decoded("first")
    before = first.body
    for number in range(DECODED_LIMIT):
        assert decoded(str(number)).body["data"] == {"key": str(number)}
    assert first.body is not before
    assert first.body == before == body("first")


def test_the_record_of_an_object_s_owners_is_decoded_once_however_many_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[str | None] = []

    def reads(text: str | None) -> SharedRecord:
        decoded.append(text)
        return read_record(text)

    monkeypatch.setattr(live_object, "read_record", reads)
    record = SharedRecord("digest", {f"uid-{number}": "digest" for number in range(100)})
    metadata = {
        "name": "shared",
        "labels": {PARENT_UID_LABEL: SHARED_LABEL_VALUE},
        "annotations": {OWNERS_ANNOTATION: str(record)},
    }
    cache, before = Cache(), LiveObject.of({**body("a"), "metadata": metadata})
    cache.upsert(before)
    after = LiveObject.of({**body("a"), "metadata": {**metadata, "resourceVersion": "2"}})
    cache.upsert(after)
    assert cache.by_parent("uid-99") == (after,)
    assert len(decoded) == 2
    assert not before.belongs_to("uid-100")
    before.compress({})
    assert before.shared == record


def test_an_object_from_a_watch_does_not_keep_the_line_of_the_watch_in_memory() -> None:
    managed = {"manager": "ssa-operator", "operation": "Apply", "fieldsV1": {"f:data": {}}}
    encoded = msgspec.json.encode({**body("x"), "metadata": {"name": "x", "managedFields": [managed]}})
    line = bytes(bytearray(b'{"object":' + encoded + b"}"))
    references = sys.getrefcount(line)
    live = LiveObject(msgspec.json.decode(line, type=dict[str, msgspec.Raw])["object"])
    assert live.owned_fields() == b'{"f:data":{}}'
    assert sys.getrefcount(line) == references


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.text(max_size=3), values, max_size=2),
    max_leaves=5,
)


@given(JSON | st.dictionaries(st.sampled_from(["observedGeneration", "observed_generation", "ready"]), JSON))
def test_the_observed_generation_of_any_status_is_known_without_a_decoded_body(status: Any) -> None:
    live = LiveObject.of({**body("x"), "status": status})
    expected = status.get("observedGeneration") if isinstance(status, dict) else None
    assert live.observed_generation == expected


def test_an_object_without_a_status_has_no_observed_generation() -> None:
    assert LiveObject.of(body("x")).observed_generation is None


def test_a_partial_object_is_small_and_shows_whose_it_is() -> None:
    large: dict[str, Any] = {f"f:{number}": {} for number in range(10_000)}
    owners = [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": str(number)} for number in range(1000)]
    ours = {"apiVersion": "example.com/v1", "kind": "Echo", "name": "web", "uid": "p", "controller": True}
    own = {"manager": "ssa-operator", "operation": "Apply", "fieldsV1": large}
    metadata = {
        "name": "a",
        "namespace": "b",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {PARENT_UID_LABEL: "p", "other": "x" * 63},
        "annotations": {"a": "x" * 100_000},
        "finalizers": [f"example.com/{number}" for number in range(1000)],
        "ownerReferences": [*owners, ours],
        "managedFields": [own],
    }
    data = {"v": "x" * 100_000}
    partial = LiveObject.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).as_partial()
    assert partial.partial
    assert len(partial.raw) < 1500
    assert str(partial.identity) == "ConfigMap b/a"
    assert (partial.uid, partial.resource_version, partial.parent_uid, partial.version) == ("u", "7", "p", "v1")
    assert [owner.uid for owner in partial.owner_references] == ["p"]
    assert partial.owned_fields()
    assert not LiveObject.of({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}).as_partial().owned_fields()


# Objects that were not read for a while are compressed by another one of their kind.

TEXTS = st.text(max_size=200)


def forgotten(*bodies: dict[str, Any]) -> list[LiveObject]:
    """Objects of one client that are no longer decoded."""
    examples: Examples = {}
    lives = [LiveObject(msgspec.json.encode(each)) for each in bodies]
    for live in lives:
        live.compress(examples)
    return lives


def deployment(name: str, kind: str = "Deployment", **fields: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "echo", "app.kubernetes.io/instance": name}
    managed = {"manager": "ssa-operator", "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:a": {}}}
    owner = {"apiVersion": "example.com/v1", "kind": "Echo", "name": name, "uid": f"p-{name}", "controller": True}
    metadata = {"name": name, "uid": name, "labels": labels, "managedFields": [managed], "ownerReferences": [owner]}
    container = {"name": "echo", "image": "echo:1", "terminationMessagePath": "/dev/termination-log"}
    spec = {"selector": {"matchLabels": labels}, "template": {"spec": {"containers": [container]}}, **fields}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


@given(st.lists(TEXTS, min_size=2, max_size=2 * EXAMPLES_LIMIT))
@settings(max_examples=30)
def test_an_object_that_was_not_read_for_a_while_is_the_same(texts: list[str]) -> None:
    bodies = [deployment(str(number), text=text) for number, text in enumerate(texts)]
    for live, expected in zip(forgotten(*bodies), bodies, strict=True):
        assert live.raw == msgspec.json.encode(expected)
        assert live.owned_fields() == b'{"f:a":{}}'
        assert [owner.uid for owner in live.owner_references] == [f"p-{expected['metadata']['name']}"]
        assert live.body == expected


def memory(live: LiveObject) -> int:
    return sys.getsizeof(live._stored if isinstance(live._stored, bytes) else live._stored[0])


def test_an_object_is_compressed_when_so_many_others_were_read_since() -> None:
    shared = DecodedBodies()
    lives = [LiveObject(msgspec.json.encode(deployment(name)), decoded_bodies=shared) for name in ("a", "b")]
    others = [LiveObject(msgspec.json.encode(body("other")), decoded_bodies=shared) for _ in range(DECODED_LIMIT)]
    assert all(live.body for live in (*lives, *others))
    assert memory(lives[1]) * 5 < len(lives[1].raw)


def test_an_object_that_is_never_read_is_compressed_if_it_is_to_be_kept() -> None:
    shared = DecodedBodies()
    lives = [LiveObject(msgspec.json.encode(deployment(name)), decoded_bodies=shared) for name in ("a", "b")]
    for live in lives:
        live.compress_later()
    others = [LiveObject(msgspec.json.encode(body("other")), decoded_bodies=shared) for _ in range(DECODED_LIMIT)]
    assert all(live.body for live in others)
    assert memory(lives[1]) * 5 < len(lives[1].raw)


def test_an_object_like_another_one_of_its_kind_needs_a_fifth_of_its_bytes() -> None:
    first, *others = forgotten(*(deployment(f"web-{number}") for number in range(10)))
    assert memory(first) > len(first.raw)
    assert all(memory(live) * 5 < len(live.raw) for live in others)


def test_the_objects_of_two_templates_of_one_kind_are_compressed_each_by_its_own() -> None:
    one, other = "".join(map(chr, range(33, 127))) * 9, "".join(map(chr, range(126, 32, -1))) * 9
    lives = forgotten(*(deployment(f"web-{number}", text=one if number % 2 else other) for number in range(20)))
    assert all(memory(live) * 5 < len(live.raw) for live in lives[EXAMPLES_LIMIT:])


@pytest.mark.parametrize(("kind", "size"), [("Secret", 10), ("ConfigMap", 70_000)])
def test_secrets_and_large_objects_stay_as_they_are(kind: str, size: int) -> None:
    bodies = [{**body(str(number)), "kind": kind, "data": {"key": "x" * size}} for number in range(5)]
    assert all(memory(live) > len(live.raw) for live in forgotten(*bodies))


def test_an_object_that_is_no_longer_used_is_not_kept_decoded() -> None:
    shared = DecodedBodies()
    live = LiveObject(msgspec.json.encode(body("x")), decoded_bodies=shared)
    assert live.body
    references = sys.getrefcount(live)
    assert references == 2, "only this function refers to it"


def test_a_partial_object_is_small_whatever_somebody_writes_into_its_metadata() -> None:
    uid, long = "11111111-2222-3333-4444-555555555555", "x" * 100_000
    owner = {"apiVersion": "example.com/v1", "kind": "Echo", "name": "web", "uid": uid}
    forged = [{**owner, name: long} for name in owner] + [owner] * 1000
    metadata = {
        "name": "n" * 253,
        "namespace": "n" * 63,
        "labels": {PARENT_UID_LABEL: uid, "other": "x" * 63},
        "annotations": {"a": long},
        "finalizers": [f"{'d' * 253}/{number:063}" for number in range(500)],
        "ownerReferences": [*forged, {**owner, "controller": True}],
    }
    partial = LiveObject.of(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": long}}
    ).as_partial()
    assert len(partial.raw) < 4000
    assert partial.owner_references[0].controller
    assert partial.parent_uid == uid


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
