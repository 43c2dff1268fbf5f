"""The fields of a parent that the schema of its CRD declares, for templates that read them.

Promises:
- A field is undeclared only if no parent can ever have it: the API server prunes it.
- Only `spec` and `status` are looked at: every object has the other parts.
- Where a schema allows any field, none below it is undeclared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.json_schema import PRESERVED, Schema, fields, part_schema
from ssa_operator.objects.source_location import FieldPath

DECLARE = "declare it, or remove it"
"""What to do about an undeclared field that is similar to no declared one."""

_DECLARED = ("spec", "status")
"""The parts of a parent that a CRD declares."""

_METHODS = frozenset({"get", "items", "keys", "values"})
"""The methods that a template may call on a mapping that has no field of that name."""

_ANYTHING: Mapping[str, Any] = {}
"""The schema of a value whose fields no schema declares."""


def first_undeclared(path: FieldPath, schema: Schema) -> FieldPath | None:
    """The first part of a path that the schema doesn't declare, None if it declares or allows all of it."""
    if not path or path[0] not in _DECLARED:
        return None
    for length, part in enumerate(path, 1):
        inner = _inner(schema, part)
        if inner is None:
            return path[:length]
        if inner is _ANYTHING or (part in _METHODS and inner is not fields(schema).get(str(part))):
            return None
        schema = inner
    return None


def declared_siblings(path: FieldPath, schema: Schema) -> list[str]:
    """The declared fields beside the last part of a path."""
    for part in path[:-1]:
        schema = _inner(schema, part) or _ANYTHING
    return [str(name) for name in fields(schema)]


def _inner(schema: Schema, part: str | int) -> Schema | None:
    """The schema of a field or an item, _ANYTHING if it may be anything, None if it is undeclared."""
    if (known := part_schema(schema, part)) is not None:
        return known
    open_ended = schema.get(PRESERVED) or schema.get("x-kubernetes-embedded-resource")
    if schema.get("additionalProperties") or open_ended or schema.get("type") != "object" or part in _METHODS:
        return _ANYTHING
    return None
