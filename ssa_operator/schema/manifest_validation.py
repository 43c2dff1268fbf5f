"""Validates manifests of built-in kinds and new CRDs beyond their schemas, as the API server does.

Promises:
- The name, by the rule of the kind; labels and annotations, also those of pod templates and selectors.
- The names, images and ports of containers, the ports of Services, and the restart policy of Jobs.
- Each error has the path of its field. What it refuses, the API server refuses, too; the API server checks more.
- A value of a wrong type is no error here: the schema says so.
- A CRD: its name, group, names, scope, versions, and the types, patterns and defaults of its schemas.

The rules are those of k8s.io/kubernetes (pkg/apis/core/validation, pkg/apis/batch/validation) and of
k8s.io/apiextensions-apiserver (pkg/apis/apiextensions/validation). A schema without types is `check`'s own finding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.crd_schema import Schema
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at, error_field
from ssa_operator.schema.metadata_validation import (
    dns1035_faults,
    key_faults,
    label_faults,
    label_value_faults,
    segment_faults,
    subdomain_faults,
    validate_metadata_values,
)
from ssa_operator.schema.new_object import prune
from ssa_operator.schema.schema_validation import validate
from ssa_operator.schema.string_formats import go_pattern

_JOBS = (GroupKind("batch", "Job"), GroupKind("batch", "CronJob"))
_SERVICE = GroupKind("", "Service")
_SELECTORS: Mapping[GroupKind, FieldPath] = {
    **{
        GroupKind("apps", kind): ("spec", "selector", "matchLabels")
        for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
    },
    _SERVICE: ("spec", "selector"),
}
_LABEL_NAMES = frozenset({GroupKind("", "Namespace"), _SERVICE})
_OTHER_NAMES = frozenset(
    {
        GroupKind("apiregistration.k8s.io", "APIService"),
        GroupKind("certificates.k8s.io", "ClusterTrustBundle"),
        GroupKind("networking.k8s.io", "IPAddress"),
        GroupKind("storage.k8s.io", "CSIDriver"),
    }
)
"""Kinds whose names follow rules of their own."""

_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


def validate_manifest(group_kind: GroupKind, body: Mapping[str, Any]) -> list[FieldError]:
    """The errors of a manifest."""
    errors = [*_of_name(group_kind, body), *validate_metadata_values(body.get("metadata"), ("metadata",))]
    errors += _of_selector(group_kind, body)
    if group_kind in POD_SPECS:
        errors += _of_pod(group_kind, body, POD_SPECS[group_kind])
    if group_kind == _SERVICE:
        errors += _of_service_ports(body)
    return errors


def name_faults(group_kind: GroupKind) -> Callable[[str], list[str]]:
    """The rule for the names of a kind."""
    if group_kind.group == "rbac.authorization.k8s.io":
        return segment_faults
    if group_kind in _OTHER_NAMES:
        return lambda _: []
    return label_faults if group_kind in _LABEL_NAMES else subdomain_faults


def _of_name(group_kind: GroupKind, body: Mapping[str, Any]) -> Iterator[FieldError]:
    name = value_at(body, ("metadata", "name"))
    if isinstance(name, str) and name:
        for words in name_faults(group_kind)(name):
            yield error_at(("metadata", "name"), name, words)


def _of_selector(group_kind: GroupKind, body: Mapping[str, Any]) -> Iterator[FieldError]:
    path = _SELECTORS.get(group_kind, ())
    found = value_at(body, path) if path else None
    for key, value in found.items() if isinstance(found, Mapping) else ():
        if isinstance(value, str):
            faults = [*key_faults(key), *label_value_faults(value)]
            errors = (error_at((*path, key), value, words) for words in faults)
            yield from (replace(error, field=error_field(path)) for error in errors)


def _of_pod(group_kind: GroupKind, body: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    if template := path[:-1]:
        yield from validate_metadata_values(value_at(body, (*template, "metadata")), (*template, "metadata"))
    spec = value_at(body, path)
    if not isinstance(spec, Mapping):
        return
    if group_kind in _JOBS:
        at, policy = (*path, "restartPolicy"), spec.get("restartPolicy")
        words = 'valid values: "OnFailure", "Never"'
        if policy is None:
            yield error_at(at, detail=words, kind=ErrorType.REQUIRED)
        elif policy == "Always":
            yield error_at(at, policy, f"supported {words.removeprefix('valid ')}", ErrorType.NOT_SUPPORTED)
    for key in ("initContainers", "containers"):
        for at, container in mapping_items(spec.get(key), (*path, key)):
            yield from _of_container(container, at)


def _of_container(container: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    if not container.get("image"):
        yield error_at((*path, "image"), kind=ErrorType.REQUIRED)
    name = container.get("name")
    if isinstance(name, str) and name:
        yield from (error_at((*path, "name"), name, words) for words in label_faults(name))
    for at, port in mapping_items(container.get("ports"), (*path, "ports")):
        yield from _of_number(port, (*at, "containerPort"))
        if isinstance(named := port.get("name"), str) and named:
            yield from (error_at((*at, "name"), named, words) for words in port_name_faults(named))


def _of_service_ports(body: Mapping[str, Any]) -> Iterator[FieldError]:
    ports = list(mapping_items(value_at(body, ("spec", "ports")), ("spec", "ports")))
    for at, port in ports:
        yield from _of_number(port, (*at, "port"))
        name, target = port.get("name"), port.get("targetPort")
        if len(ports) > 1 and not name:
            yield error_at((*at, "name"), kind=ErrorType.REQUIRED)
        elif isinstance(name, str) and name:
            yield from (error_at((*at, "name"), name, words) for words in label_faults(name))
        if isinstance(target, int):
            yield from _of_number(port, (*at, "targetPort"))


def _of_number(port: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    number = port.get(str(path[-1]))
    if isinstance(number, int) and not isinstance(number, bool) and not 1 <= number <= 65535:
        yield error_at(path, number, "must be between 1 and 65535, inclusive")


def port_name_faults(name: str) -> list[str]:
    """What is wrong with the name of a container's port."""
    faults = ["must be no more than 15 characters"] if len(name) > 15 else []
    if _PORT_NAME.fullmatch(name):
        return faults
    words = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), and at least one letter (a-z)"
    return [*faults, words]


def mapping_items(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """The items of a list at a path that are mappings, each with its own path; none of another value."""
    for at, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, Mapping):
            yield (*path, at), item


SCOPES = ("Cluster", "Namespaced")
TYPES = ("array", "boolean", "integer", "number", "object", "string")


def validate_crd(definition: Mapping[str, Any]) -> list[FieldError]:
    """The errors of a CRD whose fields have the right types."""
    spec = definition["spec"]
    versions: Sequence[Mapping[str, Any]] = spec.get("versions") or ()
    errors = [*_of_names(spec), *_of_crd_name(definition), *_of_versions(versions)]
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
