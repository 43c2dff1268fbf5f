"""Validates a new CRD beyond its schema, as the API server does.

Promises:
- Its name, group, names, scope, versions, and the types, patterns and defaults of its schemas.
- Each error has the path of its field. What it refuses, the API server refuses, too; the API server checks more.

The rules are those of k8s.io/apiextensions-apiserver (pkg/apis/apiextensions/validation). A schema without types is
`check`'s own finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ssa_operator.objects.json_schema import PRESERVED, TYPES, Schema, fields, schema_parts
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at, error_field, mapping_items
from ssa_operator.schema.metadata_validation import dns1035_faults, subdomain_faults
from ssa_operator.schema.new_object import prune
from ssa_operator.schema.schema_validation import validate
from ssa_operator.schema.string_formats import go_pattern

SCOPES = ("Cluster", "Namespaced")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SCALE_PATHS = {"specReplicasPath": ".spec.", "statusReplicasPath": ".status."}
_FORBIDDEN = ("$ref", "$schema", "id", "dependencies", "definitions", "patternProperties", "additionalItems")
"""The parts of JSON Schema that a structural schema may not have."""
_EMPTY_ALLOWED: Mapping[str, Sequence[Any]] = {"definitions": ({},), "patternProperties": ({},)}
_ANY_TYPE = ("x-kubernetes-int-or-string", PRESERVED)


def validate_crd(definition: Mapping[str, Any]) -> list[FieldError]:
    """The errors of a CRD whose fields have the right types."""
    spec = definition["spec"]
    versions: Sequence[Mapping[str, Any]] = spec.get("versions") or ()
    errors = [*_of_names(spec), *_of_crd_name(definition), *_of_versions(versions)]
    for at, version in enumerate(versions):
        errors += _of_columns(version, ("spec", "versions", at))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            errors += _of_object_metadata(schema, ("spec", "versions", at, "schema", "openAPIV3Schema"))
            errors += _of_schema(schema, ("spec", "versions", at, "schema", "openAPIV3Schema"), ())
    return errors


def validate_crd_manifest(body: Mapping[str, Any]) -> list[FieldError]:
    """The errors of a CRD in a manifest, whose fields may have other types and whose schemas may lack them."""
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        return []  # the schema says that it is required
    if nulls := list(_null_items(spec, ("spec",))):
        return nulls
    errors = validate_crd(body)
    for at, version in enumerate(spec.get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        path: FieldPath = ("spec", "versions", at, "schema", "openAPIV3Schema")
        if isinstance(schema, Mapping):
            errors += _of_structure(schema, path, "must not be empty at the root")
    return errors


def _of_columns(version: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    """The errors of the columns that kubectl prints, and of the fields that scale."""
    for position, column in mapping_items(version.get("additionalPrinterColumns"), (*path, "additionalPrinterColumns")):
        if (kind := column.get("type")) and kind not in _COLUMN_TYPES:
            yield error_at((*position, "type"), kind, f"must be one of {','.join(_COLUMN_TYPES)}")
        if (text := column.get("jsonPath")) and not text.startswith("."):
            yield error_at((*position, "jsonPath"), text, "must be a simple json path starting with .")
    scale = value_at(version, ("subresources", "scale"))
    for name, beginning in _SCALE_PATHS.items() if isinstance(scale, Mapping) else ():
        text, at = scale.get(name) or "", (*path, "subresources", "scale", name)
        if not text:
            yield error_at(at, kind=ErrorType.REQUIRED)
        elif not text.startswith(beginning):
            yield error_at(at, text, f"should be a json path under {beginning.rstrip('.')}")


def _of_names(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    group, names = str(spec.get("group", "")), spec.get("names") or {}
    if faults := subdomain_faults(group):
        yield from (error_at(("spec", "group"), group, words) for words in faults)
    elif "." not in group:
        yield error_at(("spec", "group"), group, "should be a domain with at least one dot")
    for key in ("plural", "singular"):
        if name := names.get(key):
            yield from (error_at(("spec", "names", key), name, words) for words in dns1035_faults(name))
    for key in ("kind", "listKind"):
        if (name := names.get(key)) and (faults := dns1035_faults(name.lower())):
            words = "may have mixed case, but should otherwise match: " + ",".join(faults)
            yield error_at(("spec", "names", key), name, words)
    for key in ("shortNames", "categories"):
        for at, name in enumerate(names.get(key) or ()):
            yield from (error_at(("spec", "names", key, at), name, words) for words in dns1035_faults(name))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield error_at(("spec", "names", "listKind"), names["listKind"], "kind and listKind may not be the same")


def _of_crd_name(definition: Mapping[str, Any]) -> Iterator[FieldError]:
    """The errors of the scope and of the name, which follows from the plural and the group."""
    spec = definition["spec"]
    names, scope = spec.get("names") or {}, spec.get("scope")
    if scope is None:
        yield error_at(("spec", "scope"), kind=ErrorType.REQUIRED)
    elif scope not in SCOPES:
        yield _not_supported(("spec", "scope"), scope, SCOPES)
    name, wanted = definition["metadata"]["name"], f"{names.get('plural', '')}.{spec.get('group', '')}"
    if name != wanted:
        yield error_at(("metadata", "name"), name, f'must be spec.names.plural+"."+spec.group, which is {wanted}')


def _of_versions(versions: Sequence[Mapping[str, Any]]) -> Iterator[FieldError]:
    seen = set()
    for at, version in enumerate(versions):
        name = version.get("name") or ""
        yield from (error_at(("spec", "versions", at, "name"), name, words) for words in dns1035_faults(name))
        if name in seen:
            words = "must contain unique version names"
            yield error_at(("spec", "versions", at, "name"), name, words, shown=("spec", "versions"))
        seen.add(name)
    if sum(bool(each.get("storage")) for each in versions) != 1:
        names = ",".join(str(each.get("name")) for each in versions)
        yield error_at(("spec", "versions"), names, "must have exactly one version marked as storage version")


def _of_object_metadata(schema: Schema, at: FieldPath) -> Iterator[FieldError]:
    """The error of a schema that says more of the object's metadata than what its name is."""
    if not {*fields(fields(schema).get("metadata"))} <= {"name", "generateName"}:
        words = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield error_at((*at, "properties", "metadata"), kind=ErrorType.FORBIDDEN, detail=words)


def _of_dialect(schema: Schema, path: FieldPath) -> Iterator[FieldError]:
    """The errors of a schema that uses parts of JSON Schema which no CRD may have."""
    for name in _FORBIDDEN:
        if schema.get(name) not in (None, "", *_EMPTY_ALLOWED.get(name, ())):
            yield error_at((*path, name), detail=f"{name} is not supported", kind=ErrorType.FORBIDDEN)
    if schema.get("uniqueItems") is True:
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield error_at((*path, "uniqueItems"), detail=detail, kind=ErrorType.FORBIDDEN)
    if schema.get("properties") and schema.get("additionalProperties") is not None:
        detail = "additionalProperties and properties are mutual exclusive"
        yield error_at((*path, "additionalProperties"), detail=detail, kind=ErrorType.FORBIDDEN)


def _of_schema(schema: Schema, at: FieldPath, field: FieldPath) -> Iterator[FieldError]:
    """The errors of a schema at a path of the CRD; `field` is what it describes."""
    declared = schema.get("type")
    if declared and declared not in TYPES:
        yield _not_supported((*at, "type"), declared, TYPES)
        return
    if not field and declared and declared != "object":
        yield error_at((*at, "type"), declared, 'must be "object" at the root')
        return
    if declared == "array" and not isinstance(schema.get("items"), Mapping):
        yield error_at((*at, "items"), kind=ErrorType.REQUIRED, detail="must be specified")
    yield from _of_dialect(schema, at)
    items = schema.get("items")
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys and isinstance(items, Mapping) and not {*keys} <= {*fields(items)}:
        yield error_at((*at, "x-kubernetes-list-map-keys"), keys, "entries must all be names of item properties")
    pattern = schema.get("pattern")
    if pattern and go_pattern(pattern) is None:
        yield error_at((*at, "pattern"), pattern, "must be a valid regular expression, but isn't")
    broken = False
    for part, inner in schema_parts(schema):
        for error in _of_schema(inner, (*at, *part), (*field, part[1] if len(part) > 1 else "*")):
            broken = True
            yield error
    # The API server looks at no default of a map's values.
    if "default" in schema and not broken and "additionalProperties" not in at:
        yield from _of_default(schema, (*at, "default"), field)


def _of_structure(schema: Schema, path: FieldPath, words: str) -> Iterator[FieldError]:
    """The errors of a schema that isn't structural: each field has a type."""
    if not schema.get("type") and not any(schema.get(name) for name in _ANY_TYPE):
        yield error_at((*path, "type"), detail=words, kind=ErrorType.REQUIRED)
    for part, inner in schema_parts(schema):
        what = "array items" if part == ("items",) else "object fields"
        yield from _of_structure(inner, (*path, *part), f"must not be empty for specified {what}")


def _of_default(schema: Schema, at: FieldPath, field: FieldPath) -> Iterator[FieldError]:
    value = schema["default"]
    if value is None:
        return
    if isinstance(value, Mapping):
        _, unknown = prune(value, schema)
        if unknown and "metadata" not in unknown[0]:
            yield error_at(at, value, f"must not have unknown fields: {error_field(unknown[0])}")
            return
    for error in validate(schema, value, field).errors:
        yield error_at((*at, *error.path[len(field) :]), error.value, error.detail, kind=error.type)


def _null_items(value: Any, path: FieldPath) -> Iterator[FieldError]:
    """The items of lists and the schemas of properties that are null."""
    if path[-1] == "properties" and isinstance(value, Mapping):
        for name, item in value.items():
            if item is None:
                yield error_at((*path, name), None, "must not be null")
    if isinstance(value, list):
        for position, item in enumerate(value):
            if item is None:
                yield error_at((*path, position), None, "must not be null")
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        if key not in ("default", "enum", "example", "required"):
            yield from _null_items(item, (*path, key))


def _not_supported(path: FieldPath, value: Any, allowed: Sequence[str]) -> FieldError:
    words = "supported values: " + ", ".join(map(json.dumps, allowed))
    return error_at(path, value, words, kind=ErrorType.NOT_SUPPORTED)
