"""What a CRD's schema lets a status hold.

Promises:
- A field that the schema doesn't declare is left out instead of failing the whole status: a strict apply of an
  undeclared field is refused.
- Nothing is left out where the schema preserves unknown fields, or where there is no schema to know by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def declared(value: Any, schema: Mapping[str, Any] | None) -> Any:
    """The part of a JSON value that a structural schema (openAPIV3Schema) declares."""
    if schema is None or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, Mapping):
        fields, more = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(more, Mapping):
            return {key: declared(item, more) for key, item in value.items()}
        if more is True:
            return value
        return {key: declared(item, fields[key]) for key, item in value.items() if fields and key in fields}
    if isinstance(value, (list, tuple)):
        return [declared(item, schema.get("items")) for item in value]
    return value


def status_schema(definition: Mapping[str, Any], version: str) -> Mapping[str, Any] | None:
    """The schema of `.status` in one version of a CRD, None where the version is missing or holds no schema.

    A schema without `.status` declares nothing there: an empty schema is returned.
    """
    for served in definition.get("spec", {}).get("versions", ()):
        if served.get("name") == version:
            schema = served.get("schema", {}).get("openAPIV3Schema")
            if schema is None or schema.get("x-kubernetes-preserve-unknown-fields"):
                return None
            found: Mapping[str, Any] = schema.get("properties", {}).get("status", {})
            return found
    return None


def has_status(definition: Mapping[str, Any], version: str) -> bool:
    """Whether a version of a CRD has the status subresource."""
    return any(
        served.get("name") == version and "status" in served.get("subresources", {})
        for served in definition.get("spec", {}).get("versions", ())
    )
