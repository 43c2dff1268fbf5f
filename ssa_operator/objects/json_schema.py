"""The parts of JSON schemas: those of CRDs and those of Kubernetes' OpenAPI documents.

Promises:
- A keyword that holds no schema where one could be, as in `additionalProperties: true`, is no part.
- A declared field beats `additionalProperties`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

from ssa_operator.objects.source_location import FieldPath

Schema: TypeAlias = Mapping[str, Any]
"""A schema, or a part of one."""

PRESERVED = "x-kubernetes-preserve-unknown-fields"
RULES = "x-kubernetes-validations"
TYPES = ("array", "boolean", "integer", "number", "object", "string")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a JSON number. A boolean is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def fields(schema: Schema | None) -> Mapping[str, Any]:
    """The schemas of the declared fields."""
    found = schema.get("properties") if schema is not None else None
    return found if isinstance(found, Mapping) else {}


def part_schema(schema: Schema | None, part: object) -> Schema | None:
    """The schema of a field, or of the value of a key, and of an item for any other part; None if nothing is said."""
    if schema is None:
        return None
    found = schema.get("items")
    if isinstance(part, str):
        found = fields(schema).get(part, schema.get("additionalProperties"))
    return found if isinstance(found, Mapping) else None


def schema_at(schema: Schema | None, path: Iterable[object]) -> Schema | None:
    """The schema of a field at a path; None if nothing is said of it."""
    for part in path:
        schema = part_schema(schema, part)
    return schema


def schema_parts(schema: Schema) -> Iterator[tuple[FieldPath, Schema]]:
    """The schemas of the fields, of the items and of the values of keys, each with its path in the schema."""
    yield from ((("properties", name), inner) for name, inner in fields(schema).items())
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            yield (name,), schema[name]


def all_schemas(
    schema: Schema, at: FieldPath = (), field: FieldPath = ()
) -> Iterator[tuple[FieldPath, FieldPath, Schema]]:
    """A schema and all in it, each with its path in the schema and with the field that it is of (`*` for any key)."""
    yield at, field, schema
    for part, inner in schema_parts(schema):
        yield from all_schemas(inner, (*at, *part), (*field, part[1] if len(part) > 1 else "*"))


def value_parts(schema: Schema, value: Any) -> Iterator[tuple[str | int, Schema, Any]]:
    """The fields, keys and items of a value that have a schema, each with its name or position."""
    entries = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    )
    for part, item in entries:
        if (inner := part_schema(schema, part)) is not None:
            yield part, inner, item
