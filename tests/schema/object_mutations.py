"""Mutates each field of an object by the schema of its kind: values that the API server may refuse."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.kubernetes_schemas import QUANTITY, KubernetesSchemas

TEXTS: tuple[tuple[str, str], ...] = (
    ("empty", ""),
    ("enum", "Wrong"),
    ("name", "bad_Name!"),
    ("name", "-a"),
    ("name", "a" * 254),
    ("name", "a" * 64),
    ("host", "a b"),
    ("host", "10.0.0.300"),
    ("host", "10.0.0.0/33"),
    ("path", "../a"),
    ("path", "/a"),
    ("path", "a/b/c"),
    ("cron", "* * * 13 *"),
)
NUMBERS = (-1, 0, 1, 70000, 10**10)
QUANTITIES = ("-1", "0", "1.5", "1x", "1000000Ti")
NUMBERS_OR_TEXTS = (-1, 0, 70000, "150%", "abc", "10", "0%", "")


class Mutation(Struct, frozen=True):
    """An object with one field changed."""

    category: str
    path: FieldPath
    value: Any
    body: Mapping[str, Any]


_NOT_ADDED = (
    "status",
    "managedFields",
    "clusterTrustBundle",
    "podCertificate",
    "creationTimestamp",
    "deletionTimestamp",
)
"""Fields that the API server drops because of a feature gate, or that only it writes."""

_DROPPED: Any = object()


def mutations(body: Mapping[str, Any], schemas: KubernetesSchemas) -> Iterator[Mutation]:
    """The mutations of an object. The names by which the API server finds the kind and the object stay."""
    schema = schemas.schema(body["apiVersion"], body["kind"]) or {}
    for path, value, inner in _fields(body, schema, (), schemas):
        if path in ((), ("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")):
            continue
        for category, changed in _values(value, inner, schemas):
            found = copy.deepcopy(dict(body))
            above: Any = value_at(found, path[:-1])
            if changed is _DROPPED:
                del above[path[-1]]
            else:
                above[path[-1]] = changed
            yield Mutation(category, path, "nothing" if changed is _DROPPED else changed, found)
    for name in ("Web", "a.b", "a_b", "a" * 64, "a" * 254, "1a"):
        changed_name = {**body, "metadata": {**body["metadata"], "name": name}}
        yield Mutation("name", ("metadata", "name"), name, changed_name)


def _values(value: Any, schema: Schema, schemas: KubernetesSchemas) -> Iterator[tuple[str, Any]]:
    yield "missing", _DROPPED
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        yield from (("number", each) for each in NUMBERS_OR_TEXTS)
    elif wanted == QUANTITY:
        yield from (("quantity", each) for each in QUANTITIES)
    elif wanted == "string":
        yield from TEXTS
        yield "type", 5
    elif wanted in ("integer", "number"):
        yield from (("number", each) for each in NUMBERS)
        yield "type", "a"
    elif wanted == "boolean":
        yield "boolean", not value
        yield "type", "a"
    elif wanted == "array" and isinstance(value, list):
        yield "empty", []
        yield "duplicate", [*value, *copy.deepcopy(value[:1])]
        yield "null", [*value, None]
        yield "empty", [*value, {} if isinstance(value[0], Mapping) else ""]
        yield "type", {"a": "b"}
    elif isinstance(value, Mapping):
        yield "empty", {}
        yield "type", "a"
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping) and value:
            first = next(iter(value.values()))
            for key in ("bad key!", "a/b/c", "", "other", "example.com/other"):
                yield "name", {**value, key: first}
        for name, inner in schema.get("properties", {}).items():
            if name not in value and name not in _NOT_ADDED:
                yield "one-of", {**value, name: _sample(schemas.resolved(inner))}


def _sample(schema: Schema) -> Any:
    if schema.get("x-kubernetes-int-or-string") or schema.get("type") == QUANTITY:
        return 1
    match schema.get("type"):
        case "string":
            return (schema.get("enum") or ["a"])[0]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "array":
            return []
    return {}


def _fields(
    value: Any, schema: Schema, path: FieldPath, schemas: KubernetesSchemas
) -> Iterator[tuple[FieldPath, Any, Schema]]:
    schema = schemas.resolved(schema)
    yield path, value, schema
    if isinstance(value, Mapping):
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if isinstance(inner, Mapping):
                yield from _fields(item, inner, (*path, name), schemas)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _fields(item, schema.get("items", {}), (*path, position), schemas)
