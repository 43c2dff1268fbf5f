"""Variants of a parent that its CRD allows, each with one field changed, to find what a template doesn't expect.

Promises:
- The same parent and the same schema give the same variants, in the same order, and at most `limit` of them.
- The first variants leave out optional fields. The others give a field its smallest and largest value, each value that
  its schema lists, an empty value, or a string of special characters, where the schema allows them.
- A value fits the keywords of its field's schema. A field whose pattern fits no known string is left as it is.
- The sample has a field's default, or else the first of its allowed values.
- A schema that refers to no type, or preserves unknown fields, gives an empty mapping.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.source_location import FieldPath, field_text
from ssa_operator.schema.crd_schema import Schema, object_schema
from ssa_operator.schema.string_formats import go_pattern

LIMIT = 48
"""Variants of one parent."""

SPECIAL = "'\"{{ spec }}: &a *b # {% x %}\n- é\U0001f4a5\\"
"""A string that would break templates which print values as YAML."""

SAMPLES = (
    "sample", "a", "1", "1Gi", "10m", "5s", "sample.example.com", "https://sample.example.com", "SAMPLE", "0" * 32,
    "0/1", "1.0.0", "2026-01-31T12:00:00Z", "10.0.0.0/8", "192.0.2.1", "c2FtcGxl", "* * * * *",
)  # fmt: skip
"""Strings for fields with a pattern or a format; the first that fits is taken."""

_DEPTH_LIMIT = 8
_INTEGER = 2**31 - 1


class Variant(Struct, frozen=True, kw_only=True):
    """A parent with one changed field."""

    field: FieldPath
    change: str
    """What its value is, to follow the field's name: left out, 0."""
    body: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{field_text(self.field)} {self.change}"


def variants(
    parent: Mapping[str, Any],
    schema: Schema,
    allowed: Callable[[Mapping[str, Any]], bool] = lambda _: True,
    limit: int = LIMIT,
) -> list[Variant]:
    """The variants of a parent's spec; `allowed` is whether the API server accepts a parent."""
    spec = (schema.get("properties") or {}).get("spec")
    if not isinstance(spec, Mapping):
        return []
    fields = list(_fields(spec, ("spec",), parent.get("spec"), 0))
    left_out = [
        Variant(field=path, change="left out", body=_without(parent, path))
        for path, _, value, optional in fields
        if optional and value is not None
    ]
    # One change of each field before the second of any: no field takes all of the room.
    changes = [
        [(path, change, value) for change, value in _values(each) if value != before]
        for path, each, before, _ in fields
    ]
    ordered = (each for round_ in itertools.zip_longest(*changes) for each in round_ if each is not None)
    changed = (
        Variant(field=path, change=change, body=body)
        for path, change, value in ordered
        if (body := _with(parent, schema, path, value)) is not None
    )
    found = (each for each in itertools.chain(left_out, changed) if allowed(each.body))
    return list(itertools.islice(found, limit))


def _fields(schema: Schema, path: FieldPath, value: Any, depth: int) -> Iterator[tuple[FieldPath, Schema, Any, bool]]:
    """The fields below a field: path, schema, the parent's value, and whether it is optional."""
    required = schema.get("required") or ()
    for name, inner in (schema.get("properties") or {}).items():
        own = value.get(name) if isinstance(value, Mapping) else None
        yield (*path, name), inner, own, name not in required
        if depth < _DEPTH_LIMIT:
            yield from _fields(inner, (*path, name), own, depth + 1)
    items = schema.get("items")
    if isinstance(items, Mapping) and depth < _DEPTH_LIMIT:
        own = value[0] if isinstance(value, list) and value else None
        yield (*path, 0), items, own, False
        yield from _fields(items, (*path, 0), own, depth + 1)


# Values.


def _values(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Values that a schema allows, each with its description."""
    if schema.get("enum"):
        yield from ((repr(value) if value == "" else str(value), value) for value in schema["enum"])
        return
    if schema.get("x-kubernetes-int-or-string"):
        return
    match schema.get("type"):
        case "boolean":
            yield from (("false", False), ("true", True))
        case "integer" | "number":
            for value in (smallest_number(schema), _largest(schema)):
                yield str(value), value
        case "string":
            if fits(SPECIAL, schema):
                yield "a string of special characters", SPECIAL
            if fits("", schema):
                yield "an empty string", ""
        case "array" if not schema.get("minItems"):
            yield "an empty list", []
        case "object" if not schema.get("required") and not schema.get("minProperties"):
            yield "an empty mapping", {}


def smallest_number(schema: Schema) -> Any:
    """The smallest number that a schema allows, 0 if it names none."""
    minimum = schema.get("minimum", 0 if schema.get("maximum", 0) >= 0 else schema["maximum"])
    return minimum + bool(schema.get("exclusiveMinimum"))


def _largest(schema: Schema) -> Any:
    return schema.get("maximum", max(_INTEGER, smallest_number(schema))) - bool(schema.get("exclusiveMaximum"))


def fits(text: str, schema: Schema) -> bool:
    """Whether a string fits the keywords of a schema."""
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text)):
        return False
    if schema.get("format") and text not in SAMPLES:
        return False
    pattern = go_pattern(schema.get("pattern") or "")
    return pattern is not None and pattern.search(text) is not None


class UnknownValueError(Exception):
    """No value is known that the schema allows."""


def minimal_value(schema: Schema) -> Any:
    """The least value that a schema allows. Raises UnknownValueError."""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    match schema.get("type"):
        case "boolean":
            return False
        case "integer" | "number":
            return smallest_number(schema)
        case "string":
            found = next((each for each in SAMPLES if fits(each, schema)), None)
            if found is None:
                raise UnknownValueError
            return found
        case "array":
            return [minimal_value(schema.get("items") or {}) for _ in range(schema.get("minItems", 0))]
    properties = schema.get("properties") or {}
    return {name: minimal_value(properties.get(name) or {}) for name in schema.get("required") or ()}


# Changes.


def _without(parent: Mapping[str, Any], path: FieldPath) -> Mapping[str, Any]:
    found: Any = copy.deepcopy(dict(parent))
    inner = found
    for part in path[:-1]:
        inner = inner[part]
    del inner[path[-1]]
    return dict(found)


def _with(parent: Mapping[str, Any], schema: Schema, path: FieldPath, value: Any) -> Mapping[str, Any] | None:
    """The parent with a field, and the least of what must be around it; None if that is not known."""
    found: Any = copy.deepcopy(dict(parent))
    inner = found
    try:
        for at, part in enumerate(path):
            schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
            last = at == len(path) - 1
            if isinstance(part, int) and len(inner) <= part:
                inner.append(None)
            known = inner[part] if isinstance(part, int) else inner.get(part)
            if last:
                inner[part] = copy.deepcopy(value)
            elif known is None:
                inner[part] = copy.deepcopy(minimal_value(schema))
            inner = inner[part]
    except UnknownValueError:
        return None
    return dict(found)


_SAMPLE_DEPTH = 12

_SCALARS: Mapping[str, Any] = {"boolean": True, "integer": 1, "number": 1, "string": "sample"}


def sample_object(definition: Mapping[str, Any], version: str) -> dict[str, Any]:
    """A sample parent. It has no status."""
    spec = definition["spec"]
    schema = object_schema(definition, version) or {}
    body = {"apiVersion": f"{spec['group']}/{version}", "kind": spec["names"]["kind"], "metadata": {"name": "sample"}}
    fields = {"spec": {}} | (_sample(schema, 0) if schema.get("properties") else {})
    return {**body, **{name: value for name, value in fields.items() if name not in (*body, "status")}}


def _sample(schema: Mapping[str, Any], depth: int) -> Any:
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type", "object")
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 1), 1)
    if kind in _SCALARS or depth > _SAMPLE_DEPTH:
        return _SCALARS.get(kind, {})
    if kind == "array":
        return [_sample(schema.get("items", {}), depth + 1)]
    additional = schema.get("additionalProperties")
    fields = {name: _sample(field, depth + 1) for name, field in (schema.get("properties") or {}).items()}
    return fields | ({"sample": _sample(additional, depth + 1)} if isinstance(additional, Mapping) else {})
