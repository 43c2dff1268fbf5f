"""A live object decodes its body on demand, and many of them take little memory."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from ssa_operator.core.objects.live_object import DECODED_LIMIT, DecodedBodies, LiveObject


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


def test_an_object_from_a_watch_does_not_keep_the_line_of_the_watch_in_memory() -> None:
    managed = {"manager": "ssa-operator", "operation": "Apply", "fieldsV1": {"f:data": {}}}
    encoded = msgspec.json.encode({**body("x"), "metadata": {"name": "x", "managedFields": [managed]}})
    line = bytes(bytearray(b'{"object":' + encoded + b"}"))
    references = sys.getrefcount(line)
    live = LiveObject(msgspec.json.decode(line, type=dict[str, msgspec.Raw])["object"])
    assert live.owned_fields() == b'{"f:data":{}}'
    assert sys.getrefcount(line) == references
