"""New objects are pruned, defaulted and validated offline as the API server does it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssa_operator.kube.api import request
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.render_result import Document
from ssa_operator.operator import crd_installation
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.new_object import defaulted
from tests.object_comparison import compare, served_resource, versions
from tests.objects.random_objects import random_object
from tests.operator.harness import ROOT, Desk, definition

pytestmark = pytest.mark.cluster


CRDS: list[Document] = crd_installation.load_crds(ROOT / "crds", *sorted(ROOT.glob("examples/**/crds")))


STRING: dict[str, Any] = {"type": "string"}
FORMATS = ("byte", "date", "date-time", "duration", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid4", "hexcolor", "uri")
VALIDATIONS: dict[str, dict[str, Any]] = {
    "enum": STRING | {"enum": ["a", 'b"c']},
    "numbers": {"type": "integer", "enum": [1, 2]},
    "long": STRING | {"minLength": 2, "maxLength": 4},
    "pattern": STRING | {"pattern": r"^[[:alpha:]]\w*\d{1,2}$"},
    "small": {"type": "integer", "format": "int32"},
    "range": {"type": "integer", "minimum": 1, "maximum": 5, "multipleOf": 2},
    "open": {"type": "number", "minimum": 0.5, "exclusiveMinimum": True, "maximum": 2.5, "exclusiveMaximum": True},
    "either": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+%$"},
    "maybe": STRING | {"nullable": True},
    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
    "keyed": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "port"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": STRING, "port": {"type": "integer", "default": 80}},
        },
    },
    "map": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "boolean"}},
    "anything": {"type": "object", "additionalProperties": True},
    "free": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"inner": {"type": "object", "properties": {"a": STRING}}},
    },
    "raw": {"x-kubernetes-preserve-unknown-fields": True},
    "embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object", "properties": {"a": STRING}}},
    },
    "one": {
        "type": "object",
        "properties": {"a": STRING, "b": {"type": "integer"}, "c": STRING},
        "oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minimum": 1}}}],
    },
    "any": {"type": "integer", "anyOf": [{"maximum": 2}, {"minimum": 10, "multipleOf": 5}]},
    "all": STRING | {"allOf": [{"minLength": 2}, {"pattern": "^a"}], "not": {"enum": ["ab"]}},
    **{f"format-{name}": STRING | {"format": name} for name in FORMATS},
}


def everything(group: str) -> dict[str, Any]:
    """A CRD with each kind of validation."""
    found = definition("things", group, "Thing")
    spec = {"type": "object", "required": ["enum"], "properties": VALIDATIONS}
    (version,) = found["spec"]["versions"]
    version["schema"]["openAPIV3Schema"] = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    version["subresources"] = {"scale": {"specReplicasPath": ".spec.numbers", "statusReplicasPath": ".status.a"}}
    return found


@pytest.mark.slow
async def test_each_kind_of_validation_has_the_verdict_and_the_words_of_the_api_server(desk: Desk) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    found = everything(group)
    chance = random.Random(16)
    values: tuple[Any, ...] = (
        None, True, 0, 1, 3, -1, 1.5, 2**31, "", "a", "ab", "abc1", "abcde", "b\"c", "é😀", "a\n", "10%", [],
        [1, 1, 2], ["a", "a"], {}, {"a": 1}, {"b": 0}, {"a": "x", "b": 1}, {"a": {"b": 1}},
        {"a": True, "b": False, "c": True}, [{"name": "a"}, {"name": "a", "port": 80}], [{"port": 1}, None],
        {"inner": {"a": "x", "b": 1}, "c": {"d": 1}},
        {"apiVersion": "a/b/c", "kind": "A b", "metadata": {"name": "a/b", "x": 1, "labels": {"a b": "c d"}}},
        {"apiVersion": "v1", "kind": "A", "metadata": {"finalizers": ["x y"]}, "spec": {"a": "b", "c": 1}, "d": 1},
    )  # fmt: skip
    specs = [{"enum": "a", name: value} for name in VALIDATIONS for value in values]
    own = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "sample"}}
    bodies = [own | {"spec": spec} for spec in specs]
    owner = {"kind": "A", "name": "a", "uid": "b"}
    for written in ("v1/", "/", "", "a/b/c", "/v1", "apps/v1", "v1"):
        metadata = {"name": "sample", "ownerReferences": [{**owner, "apiVersion": written}]}
        bodies.append(own | {"metadata": metadata, "spec": {"enum": "a"}})
    bodies += [random_object(found, "v1", chance) for _ in range(300)]
    await desk.define(found)
    try:
        compared = await compare(desk.client, desk.namespace, found, "v1", bodies)
    finally:
        await desk.delete("crd", f"things.{group}", wait=False)
    assert not compared.differences, "\n".join(compared.differences)


_installed: dict[str, Resource] = {}
"""The resources of the CRDs that were installed: once is enough for all seeds."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("document", CRDS, ids=lambda document: Path(document.location.file).stem)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_random_objects_of_the_project_s_crds_are_as_in_the_cluster(
    document: Document, client: Client, namespace: str, seed: int
) -> None:
    name = document.body["metadata"]["name"]
    if name not in _installed:
        await crd_installation.install(client, [document])
        _installed[name] = await served_resource(client, document.body)
    for version in versions(document.body):
        bodies = [random_object(document.body, version, random.Random(seed))]
        compared = await compare(client, namespace, document.body, version, bodies, resource=_installed[name])
        assert not compared.differences, "\n".join(compared.differences)


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
