"""Objects get the defaults offline that the API server gives them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ssa_operator.kube.api import request
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.new_object import defaulted
from tests.operator.harness import Desk, definition

pytestmark = pytest.mark.cluster

INNER = {"type": "object", "default": {}, "properties": {"deep": {"type": "boolean", "default": True}}}
BOX: dict[str, Any] = {
    "type": "object",
    "properties": {"port": {"type": "integer", "default": 80}, "inner": INNER, "more": {"type": "string"}},
}
FIELDS: dict[str, dict[str, Any]] = {
    "count": {"type": "integer", "default": 3},
    "off": {"type": "boolean", "default": False},
    "share": {"x-kubernetes-int-or-string": True, "default": "50%"},
    "plain": {"type": "string"},
    "note": {"type": "string", "nullable": True, "default": "x"},
    "maybe": {"type": "string", "nullable": True},
    "box": BOX,
    "filled": BOX | {"default": {}},
    "set": BOX | {"default": {"port": 1}},
    "nothing": BOX | {"nullable": True, "default": {"port": 2}},
    "boxes": {"type": "array", "items": BOX},
    "numbers": {"type": "array", "items": {"type": "integer", "default": 7}},
    "gaps": {"type": "array", "items": {"type": "integer", "nullable": True, "default": 7}},
    "first": {"type": "array", "default": [{}, {"port": 4}], "items": BOX},
    "named": {"type": "object", "additionalProperties": BOX},
    "levels": {"type": "object", "additionalProperties": {"type": "integer", "default": 5}},
    "hosts": {"type": "object", "additionalProperties": {"type": "string"}, "default": {"a": "b"}},
    "free": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"count": {"type": "integer", "default": 6}},
    },
    "other": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"spec": {"type": "object", "default": {"a": 1}, "x-kubernetes-preserve-unknown-fields": True}},
    },
}
A_BOX: list[Any] = [None, {}, {"port": None}, {"port": 1}, {"inner": None}, {"inner": {"deep": None}}, {"more": None}]
VALUES: dict[str, list[Any]] = {
    "count": [None, 0],
    "off": [None, True],
    "share": [None, 1],
    "plain": [None, ""],
    "note": [None, "y"],
    "maybe": [None, "y"],
    **dict.fromkeys(("box", "filled", "set", "nothing"), A_BOX),
    "boxes": [None, [], [{}, {"port": None}]],
    "numbers": [None, [], [None, 1]],
    "gaps": [None, [None, 1]],
    "first": [None, [], [{"inner": {}}]],
    "named": [None, {}, {"a": None, "b": {}, "c": {"port": None}}],
    "levels": [None, {}, {"a": None, "b": 1}],
    "hosts": [None, {}, {"a": None, "b": "c"}],
    "free": [None, {}, {"any": None, "some": {"b": None}, "count": None}],
    "other": [None, {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "a"}, "data": {"b": None}}],
}  # fmt: skip


def specs() -> Iterator[dict[str, Any]]:
    """Specs with one field each, for each of its values, and with some fields together."""
    for name, values in VALUES.items():
        yield from ({name: value} for value in values)
    chance = random.Random(36)
    for _ in range(60):
        yield {name: chance.choice(values) for name, values in VALUES.items() if chance.random() < 0.5}


@pytest.mark.slow
@pytest.mark.parametrize(
    "whole", [{}, {"default": {}}, {"default": {"count": 1, "box": {}}}, {"nullable": True}], ids=str
)
async def test_every_object_is_defaulted_as_the_api_server_does_it(desk: Desk, whole: dict[str, Any]) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    crd = definition("things", group, "Thing")
    properties = {
        "spec": {"type": "object", "properties": FIELDS} | whole,
        "status": {"type": "object", "default": {"phase": "New"}, "properties": {"phase": {"type": "string"}}},
    }
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = properties
    await desk.define(crd)
    try:
        resource = await desk.mapper.resource(GroupKind(group, "Thing"))
        given: list[dict[str, Any]] = [{}, {"spec": None}, {"spec": {}}, *({"spec": spec} for spec in specs())]
        bodies = {
            f"thing-{number}": {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": f"thing-{number}"}}
            | body
            for number, body in enumerate(given)
        }
        for body in bodies.values():
            await desk.client.send(request.create(resource, desk.namespace, encode(body)))
        found, _ = await desk.client.list(resource, desk.namespace)
    finally:
        await desk.delete("crd", f"things.{group}", wait=False)
    schema = object_schema(crd, "v1")
    assert {live.identity.name: _own(live.body) for live in found} == {
        name: _own(defaulted(body, schema)) for name, body in bodies.items()
    }


def _own(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key in ("spec", "status")}
