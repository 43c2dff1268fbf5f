"""Which fields an object may lack.

Promises:
- A field is optional if the schema of its kind declares it and doesn't require it. An entry of a map is no field, and
  no field of `status` is optional: a controller will write it.
- Nothing is optional of a kind whose schema is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.data import built_in_schemas
from ssa_operator.schema.kubernetes_schemas import METADATA


def is_optional(api_version: str, kind: str, path: FieldPath, schema: Schema | None = None) -> bool:
    """Whether an object of a kind may lack a field. `schema` is that of its CRD, None for a built-in kind."""
    if not path or path[0] == "status":
        return False
    built_in = built_in_schemas()
    found = built_in.schema(api_version, kind) if schema is None else schema
    if schema is not None and path[0] == "metadata":  # no CRD declares it
        found = {"properties": {"metadata": {"$ref": METADATA}}}
    for part in path[:-1]:
        found = _below(found, part)
        if found is None:
            return False
        found = built_in.resolved(found)
    last = path[-1]
    return (
        _below(found, last) is not None and isinstance(last, str) and last not in ((found or {}).get("required") or ())
    )


def _below(schema: Schema | None, part: str | int) -> Schema | None:
    """The schema of a declared field, or of an item."""
    if schema is None:
        return None
    below: Any = schema.get("items") if isinstance(part, int) else (schema.get("properties") or {}).get(part)
    return below if isinstance(below, Mapping) else None
