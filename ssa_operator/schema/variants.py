"""Variants of a parent that its CRD allows, each with one field changed, to find what a template doesn't expect.

Promises:
- The same parent and the same schema give the same variants, in the same order, and at most `limit` of them.
- The first variants leave out optional fields. The others give a field its smallest and largest value, each value that
  its schema lists, an empty value, or a string of special characters, where the schema allows them.
- A value fits the keywords of its field's schema. A field whose pattern fits no known string is left as it is.
- What a CRD has copied of Kubernetes (selectors, affinities, tolerations, references) is left out at most: Kubernetes
  refuses other values of it than the CRD does.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from ssa_operator.objects.json_schema import Schema, fields, part_schema
from ssa_operator.objects.source_location import FieldPath, field_text, value_at
from ssa_operator.schema.data import built_in_schemas
from ssa_operator.schema.samples import Sampler, UnknownValueError, fits, left_out, smallest_number

LIMIT = 48
"""Variants of one parent."""

SPECIAL = "'\"{{ spec }}: &a *b # {% x %}\n- é\U0001f4a5\\"
"""A string that would break templates which print values as YAML."""

_DEPTH_LIMIT = 8
_INTEGER = 2**31 - 1


_ANY_TEXT = {"a string of special characters": SPECIAL, "an empty string": ""}


class Variant(Struct, frozen=True, kw_only=True):
    """A parent with one changed field."""

    field: FieldPath
    change: str
    """What its value is, to follow the field's name: left out, 0."""
    body: Mapping[str, Any]
    unlimited: bool = False
    """Whether the value is a large number, because the schema has no maximum."""
    any_text: bool = False
    """Whether the value is a text that no name may be, because the schema allows any text."""

    def __str__(self) -> str:
        return f"{field_text(self.field)} {self.change}"


def variants(
    parent: Mapping[str, Any],
    schema: Schema,
    allowed: Callable[[Mapping[str, Any]], bool] = lambda _: True,
    limit: int = LIMIT,
) -> list[Variant]:
    """The variants of a parent's spec; `allowed` is whether the API server accepts a parent."""
    spec = part_schema(schema, "spec") or {}
    found = list(_fields(spec, ("spec",), parent.get("spec"), 0))
    without = [
        Variant(field=path, change="left out", body=left_out(parent, path))
        for path, _, value, optional in found
        if optional and value is not None
    ]
    # One change of each field before the second of any: no field takes all of the room.
    changes = [
        [(path, change, value) for change, value in _values(each) if value != before] for path, each, before, _ in found
    ]
    ordered = (each for round_ in itertools.zip_longest(*changes) for each in round_ if each is not None)
    changed = (
        Variant(
            field=path, change=change, body=body, unlimited=value == _INTEGER, any_text=_ANY_TEXT.get(change) == value
        )
        for path, change, value in ordered
        if (body := _with(parent, schema, path, value)) is not None
    )
    each_allowed = (each for each in itertools.chain(without, changed) if allowed(each.body))
    return list(itertools.islice(each_allowed, limit))


def _fields(schema: Schema, path: FieldPath, value: Any, depth: int) -> Iterator[tuple[FieldPath, Schema, Any, bool]]:
    """The fields below a field: path, schema, the parent's value, and whether it is optional."""
    required = schema.get("required") or ()
    for name, inner in fields(schema).items():
        own = value.get(name) if isinstance(value, Mapping) else None
        copied = _is_of_kubernetes(inner)
        yield (*path, name), {} if copied else inner, own, name not in required
        if depth < _DEPTH_LIMIT and not copied:
            yield from _fields(inner, (*path, name), own, depth + 1)
    items = part_schema(schema, 0)
    if items is not None and depth < _DEPTH_LIMIT and not _is_of_kubernetes(items):
        own = value[0] if isinstance(value, list) and value else None
        yield (*path, 0), items, own, False
        yield from _fields(items, (*path, 0), own, depth + 1)


def _is_of_kubernetes(schema: Schema) -> bool:
    """Whether an object has exactly the fields of one of Kubernetes' own types, as a selector or an affinity."""
    names = frozenset(fields(schema))
    return len(names) > 1 and names in _types()


@cache
def _types() -> frozenset[frozenset[str]]:
    return frozenset(frozenset(fields(each)) for each in built_in_schemas().types.values())


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
            yield from ((change, text) for change, text in _ANY_TEXT.items() if fits(text, schema))
        case "array" if not schema.get("minItems"):
            yield "an empty list", []
        case "object" if not schema.get("required") and not schema.get("minProperties"):
            yield "an empty mapping", {}


def _largest(schema: Schema) -> Any:
    return schema.get("maximum", max(_INTEGER, smallest_number(schema))) - bool(schema.get("exclusiveMaximum"))


# Changes.


def _with(parent: Mapping[str, Any], schema: Schema, path: FieldPath, value: Any) -> Mapping[str, Any] | None:
    """The parent with a field, and the least of what must be around it; None if that is not known."""
    found: Any = copy.deepcopy(dict(parent))
    for at, part in enumerate(path):
        inner = value_at(found, path[:at])
        schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
        if isinstance(part, int) is not isinstance(inner, list):
            return None  # the schema says `items` of a mapping
        if isinstance(part, int) and len(inner) <= part:
            inner.append(None)
        if at == len(path) - 1:
            inner[part] = copy.deepcopy(value)
        elif value_at(inner, (part,)) is None:
            try:
                inner[part] = Sampler().value(schema)
            except UnknownValueError:
                return None
    return dict(found)
