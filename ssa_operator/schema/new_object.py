"""Does to a new custom resource what the API server does: prunes, defaults and validates it by its CRD.

Promises:
- `x-kubernetes-preserve-unknown-fields` keeps undeclared fields of its own level only.
- apiVersion, kind and metadata stay in the object itself and in embedded resources. Unknown fields of metadata go.
- Each removed field is named.
- A missing field gets the schema's default if the object around it exists or has a default itself.
- A null stays if the schema says `nullable`. Otherwise the default replaces it. Without a default, a null field is
  removed, and a null item of a list stays.
- Without a schema, and where the schema declares nothing, an object is unchanged.
- The result and the verdict are those of a create request.
- Every error is reported at once. Checks that need an API server are named, and refuse nothing.
- The replicas that `specReplicasPath` names are a number from 0 to 2147483647, even if the schema allows others.

The rules are those of k8s.io/apiextensions-apiserver (pkg/apiserver/schema: pruning, objectmeta, defaulting), explained
in https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning and
#defaulting-and-nullable there.
Defaulting does not prune unknown fields.

Admission webhooks and admission policies need a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.json_schema import PRESERVED, Schema, fields, part_schema
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.crd_schema import crd_version, has_status, object_schema, replicas_path
from ssa_operator.schema.field_errors import NO_FIELD, ErrorType, FieldError, error_at, error_field, number_text
from ssa_operator.schema.metadata_validation import validate_embedded, validate_metadata
from ssa_operator.schema.rule_validation import has_rules, validate_rules
from ssa_operator.schema.schema_validation import validate, validate_lists

_OWN_FIELDS = frozenset({"apiVersion", "kind", "metadata"})

METADATA_FIELDS = frozenset({
    "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
    "generation", "labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion", "selfLink",
    "uid",
})  # fmt: skip
"""The fields of ObjectMeta."""

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
        items = part_schema(schema, 0)
        if _preserves(schema):
            if items is None:
                return value
            items = {**items, PRESERVED: True}
        return [_value(item, items, (*path, position), pruned) for position, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for key, item in value.items():
        inner = (*path, key)
        if _embedded(schema) and key in _OWN_FIELDS:
            kept[key] = item
        elif key in fields(schema) or (schema is not None and schema.get("additionalProperties") is not None):
            kept[key] = _value(item, part_schema(schema, key), inner, pruned)
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
    return schema is not None and bool(schema.get(PRESERVED))


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
        return {
            key: _without_nulls(item, item_schema)
            for key, item in value.items()
            for item_schema in (part_schema(schema, key),)
            if not (_is_illegal_null(item, item_schema) and _default(item_schema) is None)
        }
    if isinstance(value, (list, tuple)):
        return [_without_nulls(item, part_schema(schema, 0)) for item in value]
    return value


def _with_defaults(value: Any, schema: Schema | None) -> Any:
    if schema is None:
        return value
    if isinstance(value, Mapping):
        missing = {
            key: default
            for key, item_schema in fields(schema).items()
            if key not in value and (default := _default(item_schema)) is not None
        }
        return {
            key: _with_defaults(_without_illegal_null(item, item_schema), item_schema)
            for key, item in {**value, **missing}.items()
            for item_schema in (part_schema(schema, key),)
        }
    if isinstance(value, (list, tuple)):
        item_schema = part_schema(schema, 0)
        return [_with_defaults(_without_illegal_null(item, item_schema), item_schema) for item in value]
    return value


def _without_illegal_null(item: Any, schema: Schema | None) -> Any:
    """The item, or the default if the item is null and not nullable."""
    return _default(schema) if _is_illegal_null(item, schema) else item


def _is_illegal_null(item: Any, schema: Schema | None) -> bool:
    return item is None and schema is not None and not schema.get("nullable")


def _default(schema: Schema | None) -> Any:
    return schema.get("default") if schema is not None else None


_LIMIT = 2**31 - 1


def validate_scale(definition: Mapping[str, Any], version: str, body: Mapping[str, Any]) -> Iterator[FieldError]:
    """The errors of the replicas in the spec."""
    names = replicas_path(crd_version(definition, version)) or ()
    value: Any = body
    for depth, name in enumerate(names, 1):
        if value is not None and not isinstance(value, Mapping):
            yield _error(names, 0, _wrong(value, names[:depth], "map[string]interface{}"))
            return
        if value is None or name not in value:
            return
        value = value[name]
    if names and (not isinstance(value, int) or isinstance(value, bool)):
        yield _error(names, 0, _wrong(value, names, "int64"))
    elif names and value < 0:
        yield _error(names, value, "should be a non-negative integer")
    elif names and value > _LIMIT:
        yield _error(names, value, f"should be less than or equal to {_LIMIT}")


def _error(path: FieldPath, value: int, detail: str) -> FieldError:
    return replace(error_at(path, value, detail), field=f".{error_field(path)}")


def _wrong(value: Any, path: FieldPath, wanted: str) -> str:
    return f".{error_field(path)} accessor error: {_text(value)} is of the type {_type(value)}, expected {wanted}"


def _text(value: Any) -> str:
    """The value as Go's `%v` writes it."""
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(map(_text, value))}]"
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else number_text(value)


_TYPES = ((bool, "bool"), (int, "int64"), (float, "float64"), (str, "string"), (Mapping, "map[string]interface {}"))


def _type(value: Any) -> str:
    """The name of the value's type in Go."""
    if value is None:
        return "<nil>"
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "[]interface {}")


BLOCKING = frozenset(
    {ErrorType.NOT_SUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE}
)
"""Errors after which the API server runs no validation rules (CEL)."""

RULES_NOT_CHECKED = FieldError(
    path=(),
    field=NO_FIELD,
    type=ErrorType.INVALID,
    value=None,
    detail="some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation",
)


class NewObject(Struct, frozen=True, kw_only=True):
    """A custom resource as the API server would store it, or why it would refuse it."""

    body: dict[str, Any]
    """The object without undeclared fields, with defaults."""
    pruned: tuple[FieldPath, ...] = ()
    """The fields that the CRD doesn't declare."""
    errors: tuple[FieldError, ...] = ()
    """Why the API server refuses it."""
    unchecked: tuple[str, ...] = ()
    """The checks that were not made, as the field and the rule."""


def new_object(body: Mapping[str, Any], definition: Mapping[str, Any], version: str) -> NewObject:
    """A custom resource as a create request in this version gives it. A status that the request sets is kept, because
    a command that reads an object of a file wants it; it is validated only where the CRD has no status subresource.
    """
    schema = object_schema(definition, version)
    pruned_body, pruned = prune(whole_numbers(body), schema)
    result = defaulted(pruned_body, schema)
    if schema is None:
        return NewObject(body=result, pruned=pruned, errors=tuple(validate_metadata(result)))
    validated = {key: item for key, item in result.items() if key != "status" or not has_status(definition, version)}
    found = validate(schema, validated)
    errors = [*validate_metadata(validated), *found.errors, *validate_embedded(schema, validated)]
    errors += [*validate_scale(definition, version, validated), *validate_lists(schema, validated)]
    unchecked = [*found.unchecked]
    if has_rules(schema):
        if any(error.type in BLOCKING for error in errors):
            errors.append(RULES_NOT_CHECKED)
        else:
            rules = validate_rules(schema, validated)
            errors += rules.errors
            unchecked += rules.unchecked
    return NewObject(body=result, pruned=pruned, errors=tuple(errors), unchecked=tuple(unchecked))


def whole_numbers(value: Any) -> Any:
    """The value with integers for numbers like 1.0, as the API server returns and kubectl sends them."""
    if isinstance(value, Mapping):
        return {key: whole_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value
