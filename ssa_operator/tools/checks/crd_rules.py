"""Rules about CRDs: their schema, what their objects can show, and how kubectl prints them.

Promises:
- A rule looks at served versions only. Each finding has a line of the CRD's file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, field_text
from ssa_operator.schema.crd_schema import replicas_path, status_schema, unreported
from ssa_operator.tools.findings.findings import Finding

_PRESERVED = "x-kubernetes-preserve-unknown-fields"


def check_crds(definitions: Sequence[Document]) -> list[Finding]:
    """The findings in CRDs."""
    return [
        finding
        for definition in definitions
        for position, version in enumerate(definition.body["spec"].get("versions", ()))
        if version.get("served")
        for rule in _RULES
        for finding in rule(definition, ("spec", "versions", position), version)
    ]


def _not_structural(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        message = f"{_name(definition)} has no schema for {version['name']}"
        yield Finding(code="crd-not-structural", message=message, location=definition.location_of(path))
        return
    root: FieldPath = (*path, "schema", "openAPIV3Schema")
    for field, at in _untyped(schema, ()):
        message = f"{_name(definition)}: {field_text(field) or 'the object'} has no type in {version['name']}"
        yield Finding(code="crd-not-structural", message=message, location=definition.location_of((*root, *at)))


def _untyped(schema: Mapping[str, Any], at: FieldPath, field: FieldPath = ()) -> Iterator[tuple[FieldPath, FieldPath]]:
    """The fields without a type, each with the place of its schema.

    The rules are those of a structural schema:
    https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
    """
    if not schema.get("type") and not schema.get("x-kubernetes-int-or-string") and not schema.get(_PRESERVED):
        yield field, at
    for name, each in (schema.get("properties") or {}).items():
        if isinstance(each, Mapping):
            yield from _untyped(each, (*at, "properties", name), (*field, name))
    for part in ("items", "additionalProperties"):
        each = schema.get(part)
        if isinstance(each, Mapping):
            yield from _untyped(each, (*at, part), (*field, "*"))


def _without_report(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    sentence = unreported(definition.body, version["name"])
    if sentence:
        yield Finding(code="crd-without-report", message=sentence, location=definition.location_of(path))


def _condition_list_type(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    status = status_schema(definition.body, version["name"]) or {}
    conditions = (status.get("properties") or {}).get("conditions")
    if not isinstance(conditions, Mapping) or conditions.get(_PRESERVED):
        return
    if conditions.get("x-kubernetes-list-type") == "map" and conditions.get("x-kubernetes-list-map-keys") == ["type"]:
        return
    at = (*path, "schema", "openAPIV3Schema", "properties", "status", "properties", "conditions")
    yield Finding(
        code="crd-condition-list-type",
        message=f"{_name(definition)}: status.conditions is no list map in {version['name']}",
        location=definition.location_of(at),
        fix="add x-kubernetes-list-type: map and x-kubernetes-list-map-keys: [type]",
    )


def _without_printer_columns(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    if not version.get("additionalPrinterColumns"):
        message = f"{_name(definition)} has no additionalPrinterColumns in {version['name']}"
        yield Finding(code="crd-without-printer-columns", message=message, location=definition.location_of(path))


def _atomic_replicas(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    replicas = replicas_path(version)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    at: FieldPath = (*path, "schema", "openAPIV3Schema")
    for end, part in enumerate(replicas or ()):
        if not isinstance(schema, Mapping):
            return
        if schema.get("x-kubernetes-map-type") == "atomic":
            mapping, number = field_text((replicas or ())[:end]), field_text(replicas or ())
            yield Finding(
                code="crd-atomic-replicas",
                message=f"{_name(definition)}: {mapping} is atomic in {version['name']}; "
                f"no other manager can own {number}",
                location=definition.location_of((*at, "x-kubernetes-map-type")),
                fix="remove x-kubernetes-map-type: atomic",
            )
            return
        properties = schema.get("properties")
        schema = properties.get(part) if isinstance(properties, Mapping) else None
        at = (*at, "properties", part)


_RULES: tuple[Callable[[Document, FieldPath, Mapping[str, Any]], Iterable[Finding]], ...] = (
    _not_structural,
    _without_report,
    _condition_list_type,
    _without_printer_columns,
    _atomic_replicas,
)


def _name(definition: Document) -> str:
    return f"CRD {definition.body['metadata']['name']}"
