"""The defaults of a CRD's schema, set in an object as the API server sets them.

Promises:
- A field that is missing gets the schema's default, but only where the object around it is there or has a default
  itself.
- A null stays where the schema says `nullable`. Elsewhere the default takes its place, and without a default the field
  is dropped; an item of a list stays.
- Without a schema, and where the schema declares nothing, an object stays as it is.

The rules are those of k8s.io/apiextensions-apiserver (pkg/apiserver/schema/defaulting), as
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#defaulting-and-nullable
explains them. Unknown fields are not pruned: that is not defaulting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
"""A structural schema (openAPIV3Schema), or a part of one."""


def defaulted(body: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """An object with the defaults of the schema of its version; None where no schema is known."""
    if schema is None:
        return dict(body)
    found: dict[str, Any] = _with_defaults(_without_nulls(body, schema), schema)
    # The API server reads the metadata by Kubernetes' own rules, whatever the schema says of it.
    return found | {"metadata": body["metadata"]} if "metadata" in body else found


def _without_nulls(value: Any, schema: Schema | None) -> Any:
    """The value without the null fields that may be neither null nor have a default."""
    if isinstance(value, Mapping):
        fields = {key: (item, _schema_of_field(schema, key)) for key, item in value.items()}
        return {
            key: _without_nulls(item, own)
            for key, (item, own) in fields.items()
            if not (_is_refused_null(item, own) and _default(own) is None)
        }
    if isinstance(value, (list, tuple)):
        return [_without_nulls(item, _part(schema, "items")) for item in value]
    return value


def _with_defaults(value: Any, schema: Schema | None) -> Any:
    if schema is None:
        return value
    if isinstance(value, Mapping):
        missing = {
            key: default
            for key, own in _properties(schema).items()
            if key not in value and (default := _default(own)) is not None
        }
        return {
            key: _with_defaults(_replaced(item, own), own)
            for key, item in {**value, **missing}.items()
            for own in (_schema_of_field(schema, key),)
        }
    if isinstance(value, (list, tuple)):
        own = _part(schema, "items")
        return [_with_defaults(_replaced(item, own), own) for item in value]
    return value


def _replaced(item: Any, schema: Schema | None) -> Any:
    """The default in place of a null that may not be."""
    return _default(schema) if _is_refused_null(item, schema) else item


def _is_refused_null(item: Any, schema: Schema | None) -> bool:
    return item is None and schema is not None and not schema.get("nullable")


def _default(schema: Schema | None) -> Any:
    return schema.get("default") if schema is not None else None


def _schema_of_field(schema: Schema | None, name: str) -> Schema | None:
    """The schema of a field: that of the property of its name, else that of all other fields."""
    properties = _properties(schema)
    return properties[name] if name in properties else _part(schema, "additionalProperties")


def _properties(schema: Schema | None) -> Mapping[str, Schema]:
    return _part(schema, "properties") or {}


def _part(schema: Schema | None, name: str) -> Any:
    """A part of a schema that is a mapping; None where it is `additionalProperties: true`, or no mapping at all."""
    part = schema.get(name) if schema is not None else None
    return part if isinstance(part, Mapping) else None
