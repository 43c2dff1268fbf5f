"""The schemas of built-in kinds in OpenAPI documents, for changes that a user makes.

Promises:
- The schema refers to no other one. A type that contains itself ends at DEPTH_LIMIT.
- `status` and finalizers are left out, because they are no user's input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.json_schema import Schema

DEPTH_LIMIT = 12

_PREFIX = "#/components/schemas/"
_KEPT = frozenset(
    {"default", "enum", "format", "maxLength", "maximum", "minLength", "minimum", "pattern", "required", "type"}
    | {"x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-preserve-unknown-fields"}
)
_LEFT_OUT = frozenset({"finalizers", "status"})


def kind_schema(document: Mapping[str, Any], group: str, version: str, kind: str) -> Schema | None:
    """The schema of a kind, None if the document has no such kind."""
    definitions = (document.get("components") or {}).get("schemas") or {}
    wanted = {"group": group, "version": version, "kind": kind}
    for definition in definitions.values():
        if wanted in (definition.get("x-kubernetes-group-version-kind") or ()):
            return _inline(definition, definitions, 0)
    return None


def _inline(schema: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]], depth: int) -> dict[str, Any]:
    """A schema with the types that it refers to in their places."""
    if depth > DEPTH_LIMIT:
        return {"x-kubernetes-preserve-unknown-fields": True}
    references = [each["$ref"] for each in (schema, *schema.get("allOf", ())) if "$ref" in each]
    for reference in references:
        schema = {**definitions.get(reference.removeprefix(_PREFIX), {}), **schema}
    found = {key: value for key, value in schema.items() if key in _KEPT}
    is_quantity = [each.get("type") for each in schema.get("oneOf", ())] == ["string", "number"]
    if is_quantity or schema.get("format") == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            found[key] = _inline(schema[key], definitions, depth + 1)
    if schema.get("properties"):
        found["properties"] = {
            name: _inline(field, definitions, depth + 1)
            for name, field in schema["properties"].items()
            if name not in _LEFT_OUT
        }
    return found
