"""Sets the defaults of a CRD's schema in an object, as the API server does.

Promises:
- A missing field gets the schema's default if the object around it exists or has a default itself.
- A null stays if the schema says `nullable`. Otherwise the default replaces it. Without a default, a null field is
  removed, and a null item of a list stays.
- Without a schema, and where the schema declares nothing, an object is unchanged.

The rules are those of k8s.io/apiextensions-apiserver (pkg/apiserver/schema/defaulting), explained in
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#defaulting-and-nullable.
Defaulting does not prune unknown fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.schema.crd_schema import Schema, schema_part


def defaulted(body: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """The object with the defaults of its version's schema; `schema` is None if it is unknown."""
    if schema is None:
        return dict(body)
    result: dict[str, Any] = _with_defaults(_without_nulls(body, schema), schema)
    # The API server defaults the metadata by Kubernetes' own rules and ignores the schema there.
    return result | {"metadata": body["metadata"]} if "metadata" in body else result


def _without_nulls(value: Any, schema: Schema | None) -> Any:
    """The value without null fields that are not nullable and have no default."""
    if isinstance(value, Mapping):
        fields = {key: (item, _schema_of_field(schema, key)) for key, item in value.items()}
        return {
            key: _without_nulls(item, item_schema)
            for key, (item, item_schema) in fields.items()
            if not (_is_illegal_null(item, item_schema) and _default(item_schema) is None)
        }
    if isinstance(value, (list, tuple)):
        return [_without_nulls(item, schema_part(schema, "items")) for item in value]
    return value


def _with_defaults(value: Any, schema: Schema | None) -> Any:
    if schema is None:
        return value
    if isinstance(value, Mapping):
        missing = {
            key: default
            for key, item_schema in _properties(schema).items()
            if key not in value and (default := _default(item_schema)) is not None
        }
        return {
            key: _with_defaults(_without_illegal_null(item, item_schema), item_schema)
            for key, item in {**value, **missing}.items()
            for item_schema in (_schema_of_field(schema, key),)
        }
    if isinstance(value, (list, tuple)):
        item_schema = schema_part(schema, "items")
        return [_with_defaults(_without_illegal_null(item, item_schema), item_schema) for item in value]
    return value


def _without_illegal_null(item: Any, schema: Schema | None) -> Any:
    """The item, or the default if the item is null and not nullable."""
    return _default(schema) if _is_illegal_null(item, schema) else item


def _is_illegal_null(item: Any, schema: Schema | None) -> bool:
    return item is None and schema is not None and not schema.get("nullable")


def _default(schema: Schema | None) -> Any:
    return schema.get("default") if schema is not None else None


def _schema_of_field(schema: Schema | None, name: str) -> Schema | None:
    """The schema of a field: that of the property with its name, otherwise `additionalProperties`."""
    properties = _properties(schema)
    return properties[name] if name in properties else schema_part(schema, "additionalProperties")


def _properties(schema: Schema | None) -> Mapping[str, Schema]:
    return schema_part(schema, "properties") or {}
