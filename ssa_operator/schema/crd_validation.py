"""Validates a new CRD, as the API server does.

Promises:
- Its name, group, names, scope, versions, and the types, patterns and defaults of its schemas are checked.
- Each error has the path of its field. What it refuses, the API server refuses, too; the API server checks more.

The rules are those of k8s.io/apiextensions-apiserver (pkg/apis/apiextensions/validation). A schema without types is
`check`'s own finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.crd_schema import Schema
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at, error_field
from ssa_operator.schema.metadata_validation import dns1035_faults, subdomain_faults
from ssa_operator.schema.pruning import prune
from ssa_operator.schema.schema_validation import validate
from ssa_operator.schema.string_formats import go_pattern

SCOPES = ("Cluster", "Namespaced")
TYPES = ("array", "boolean", "integer", "number", "object", "string")


def validate_crd(definition: Mapping[str, Any]) -> list[FieldError]:
    """The errors of a CRD whose fields have the right types."""
    spec = definition["spec"]
    versions: Sequence[Mapping[str, Any]] = spec.get("versions") or ()
    errors = [*_of_names(spec), *_of_name(definition), *_of_versions(versions)]
    for at, version in enumerate(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            errors += _of_schema(schema, ("spec", "versions", at, "schema", "openAPIV3Schema"), ())
    return errors


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


def _of_name(definition: Mapping[str, Any]) -> Iterator[FieldError]:
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
            error = error_at(("spec", "versions", at, "name"), name, "must contain unique version names")
            yield replace(error, field="spec.versions")
        seen.add(name)
    if sum(bool(each.get("storage")) for each in versions) != 1:
        names = ",".join(str(each.get("name")) for each in versions)
        yield error_at(("spec", "versions"), names, "must have exactly one version marked as storage version")


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
    pattern = schema.get("pattern")
    if pattern and go_pattern(pattern) is None:
        yield error_at((*at, "pattern"), pattern, "must be a valid regular expression, but isn't")
    broken = False
    for inner, place, name in _inner(schema, at, field):
        for error in _of_schema(inner, place, name):
            broken = True
            yield error
    # The API server looks at no default of a map's values.
    if "default" in schema and not broken and "additionalProperties" not in at:
        yield from _of_default(schema, (*at, "default"), field)


def _inner(schema: Schema, at: FieldPath, field: FieldPath) -> Iterator[tuple[Schema, FieldPath, FieldPath]]:
    for name, inner in (schema.get("properties") or {}).items():
        yield inner, (*at, "properties", name), (*field, name)
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), Mapping):
            yield schema[part], (*at, part), (*field, "*")


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


def _not_supported(path: FieldPath, value: Any, allowed: Sequence[str]) -> FieldError:
    words = "supported values: " + ", ".join(map(json.dumps, allowed))
    return error_at(path, value, words, kind=ErrorType.NOT_SUPPORTED)
