"""Removes the fields of an object that its CRD doesn't declare, as the API server does.

Promises:
- `x-kubernetes-preserve-unknown-fields` keeps undeclared fields of its own level only.
- apiVersion, kind and metadata stay in the object itself and in embedded resources. Unknown fields of metadata go.
- Each removed field is named.

The rules are those of k8s.io/apiextensions-apiserver (pkg/apiserver/schema/pruning, .../objectmeta), explained in
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.crd_schema import Schema, schema_part

_OWN_FIELDS = frozenset({"apiVersion", "kind", "metadata"})

METADATA_FIELDS = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""The fields of ObjectMeta."""

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_OWNER_FIELDS = frozenset({"apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"})


def prune(body: Mapping[str, Any], schema: Schema | None) -> tuple[dict[str, Any], tuple[FieldPath, ...]]:
    """The object without undeclared fields, and the paths of these. `schema` is None if it is unknown; then only
    the metadata is pruned.
    """
    pruned: list[FieldPath] = []
    if schema is None:
        return {**body, **_metadata_of(body, (), pruned)}, tuple(pruned)
    result = _value(body, {**schema, "x-kubernetes-embedded-resource": True}, (), pruned)
    return result, tuple(pruned)


def _value(value: Any, schema: Schema | None, path: FieldPath, pruned: list[FieldPath]) -> Any:
    if isinstance(value, (list, tuple)):
        items = schema_part(schema, "items")
        if _preserves(schema):
            if items is None:
                return value
            items = {**items, _PRESERVE: True}
        return [_value(item, items, (*path, position), pruned) for position, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for key, item in value.items():
        inner = (*path, key)
        if _embedded(schema) and key in _OWN_FIELDS:
            kept[key] = item
        elif key in (properties := schema_part(schema, "properties") or {}):
            kept[key] = _value(item, properties[key], inner, pruned)
        elif schema is not None and schema.get("additionalProperties") is not None:
            kept[key] = _value(item, schema_part(schema, "additionalProperties"), inner, pruned)
        elif _preserves(schema):
            kept[key] = item
        else:
            pruned.append(inner)
    return kept | _metadata_of(kept, path, pruned) if _embedded(schema) else kept


def _metadata_of(body: Mapping[str, Any], path: FieldPath, pruned: list[FieldPath]) -> dict[str, Any]:
    """The metadata with the fields of ObjectMeta only; nothing where the object has none."""
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return {}
    pruned += [(*path, "metadata", key) for key in metadata if key not in METADATA_FIELDS]
    kept = {key: item for key, item in metadata.items() if key in METADATA_FIELDS}
    owners = kept.get("ownerReferences")
    if isinstance(owners, list):
        kept["ownerReferences"] = [
            {key: item for key, item in owner.items() if key in _OWNER_FIELDS} if isinstance(owner, Mapping) else owner
            for owner in owners
        ]
    return {"metadata": kept}


def _embedded(schema: Schema | None) -> bool:
    return schema is not None and bool(schema.get("x-kubernetes-embedded-resource"))


def _preserves(schema: Schema | None) -> bool:
    return schema is not None and bool(schema.get(_PRESERVE))
