"""Reads the versions of a CRD and their schemas: fits a status to them, and reports the fields that they exclude.

Promises:
- Objects need a conversion between the stored version and each other one whose schema differs by more than
  descriptions.
- A field that the schema doesn't declare, or declares with another type, is left out of the status, because the API
  server refuses a strict apply of an undeclared field.
- Nothing is left out if the schema preserves unknown fields, or is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ssa_operator.objects.json_schema import PRESERVED, Schema, fields, schema_at
from ssa_operator.objects.source_location import FieldPath


def declared(value: Any, schema: Schema | None) -> Any:
    """The part of a JSON value that a structural schema (openAPIV3Schema) declares; `MISFIT` if it declares none."""
    if schema is None or schema.get(PRESERVED):
        return value
    kind = str(schema.get("type"))
    if type(value) is not _TYPES.get(kind, (None,))[0] and not _fits(value, kind, schema):
        return MISFIT
    if isinstance(value, (dict, Mapping)):
        return _fields(value, schema)
    if isinstance(value, (list, tuple)):
        part = schema.get("items")
        items = [declared(item, part) for item in value]
        return MISFIT if MISFIT in items else items
    return value


class Misfit:
    """The type of MISFIT, which replaces a value that doesn't fit the schema."""


MISFIT = Misfit()

_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list, tuple),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict, Mapping),  # the first one is found sooner
    "string": (str,),
}


def _fits(value: Any, kind: str, schema: Mapping[str, Any]) -> bool:
    if schema.get("x-kubernetes-int-or-string") or kind not in _TYPES or value is None:
        return True
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _fields(value: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    known, additional = fields(schema), schema.get("additionalProperties")
    if additional is True:
        return value
    kept = {}
    for key, item in value.items():
        part = known.get(key, additional)
        # Most values are strings: this shortcut halves the time for a status.
        if type(item) is str and type(part) is dict and part.get("type") == "string":
            kept[key] = item
        elif key in known or isinstance(additional, Mapping):
            fitting = declared(item, part)
            if fitting is not MISFIT:
                kept[key] = fitting
    return kept


def status_schema(definition: Mapping[str, Any], version: str) -> Schema | None:
    """The schema of `.status` in one version of a CRD, None if the version or its schema is missing.

    Returns an empty schema where the version's schema doesn't declare `.status`.
    """
    schema = object_schema(definition, version)
    if schema is None or schema.get(PRESERVED):
        return None
    return fields(schema).get("status") or {}


_REPORTED: Mapping[str, Any] = {
    "conditions": [dict.fromkeys(("type", "status", "reason", "message"), "")],
    "resources": [dict.fromkeys(("group", "kind", "namespace", "name", "uid", "state", "message"), "")],
}
"""The operator's own part of a status, with the fields that its readers need."""


def undeclared_reports(definition: Mapping[str, Any], version: str) -> tuple[str, ...]:
    """Those of `conditions` and `resources` that a version of a CRD doesn't declare."""
    if not has_status(definition, version):
        return tuple(_REPORTED)
    kept = declared(_REPORTED, status_schema(definition, version))
    return tuple(field for field in _REPORTED if not isinstance(kept, Mapping) or kept.get(field) != _REPORTED[field])


def unreported(definition: Mapping[str, Any], version: str) -> str | None:
    """A message about the reports that a version of a CRD prevents, and what to do; None if it prevents none."""
    name = definition["metadata"]["name"]
    if not has_status(definition, version):
        return (
            f"CRD {name} has no status subresource in {version}, so its objects can't show errors, and the operator "
            "records them as Events; add `subresources: {status: {}}`"
        )
    missing = undeclared_reports(definition, version)
    if not missing:
        return None
    names = " and ".join(f"status.{field}" for field in missing)
    effect = "their state, and the operator records it as Events" if "conditions" in missing else "their children"
    return f"CRD {name} declares no {names} in {version}, so its objects can't show {effect}; declare {names}"


_WORDS: Mapping[str, tuple[type, ...]] = {
    "a mapping": (Mapping,),
    "a list": (list,),
    "a number": (int, float),
    "a text": (str,),
    "true or false": (bool,),
}
_PARTS: Mapping[str, str] = {
    **dict.fromkeys(("properties", "not"), "a mapping"),
    **dict.fromkeys(("allOf", "anyOf", "enum", "oneOf", "required", "x-kubernetes-list-map-keys"), "a list"),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength"), "a number"),
    **dict.fromkeys(("minProperties", "minimum", "multipleOf"), "a number"),
    **dict.fromkeys(("format", "pattern", "type", "x-kubernetes-list-type", "x-kubernetes-map-type"), "a text"),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "nullable", "uniqueItems"), "true or false"),
    "x-kubernetes-validations": "a list",
}
_LISTS_OF_TEXTS = ("required", "x-kubernetes-list-map-keys")


def wrong_parts(schema: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """The parts of a schema that the API server doesn't accept, each with the accepted form."""
    if not isinstance(schema, Mapping):
        yield path, "a mapping"
        return
    for name, words in _PARTS.items():
        part = schema.get(name)
        if part is not None and not isinstance(part, _WORDS[words]):
            yield (*path, name), words
        elif name in _LISTS_OF_TEXTS:
            texts: Any = part or ()
            yield from (((*path, name, at), "a text") for at, text in enumerate(texts) if not isinstance(text, str))
    for name in ("allOf", "anyOf", "oneOf"):
        for at, part in enumerate(schema[name] if isinstance(schema.get(name), list) else ()):
            yield from wrong_parts(part, (*path, name, at))
    for name in ("items", "not", "additionalProperties"):
        if schema.get(name) is not None and not (name == "additionalProperties" and isinstance(schema[name], bool)):
            yield from wrong_parts(schema[name], (*path, name))
    for name, part in (schema["properties"] if isinstance(schema.get("properties"), Mapping) else {}).items():
        yield from wrong_parts(part, (*path, "properties", name))


def crd_version(definition: Mapping[str, Any], version: str) -> Mapping[str, Any]:
    """A version of a CRD, empty if the CRD has no such version."""
    versions: Sequence[Mapping[str, Any]] = definition.get("spec", {}).get("versions", ())
    return next((each for each in versions if each.get("name") == version), {})


def object_schema(definition: Mapping[str, Any], version: str) -> Schema | None:
    """The whole schema of one version of a CRD, None if the version or its schema is missing."""
    schema: Schema | None = (crd_version(definition, version).get("schema") or {}).get("openAPIV3Schema")
    return schema


def field_options(definition: Mapping[str, Any], version: str, path: tuple[str, ...]) -> frozenset[str] | None:
    """The strings that a version of a CRD lists for a field (`enum`), None if it lists none."""
    options = (schema_at(object_schema(definition, version), path) or {}).get("enum")
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        return None
    return frozenset(options)


def reports_status(definition: Mapping[str, Any]) -> bool:
    """Whether the schema of any version of a CRD declares `conditions` or `observedGeneration`, so that a controller
    writes them.
    """
    names = [each.get("name") for each in definition.get("spec", {}).get("versions", ())]
    declared_fields = (fields(status_schema(definition, name)) for name in names if has_status(definition, name))
    return any("conditions" in each or "observedGeneration" in each for each in declared_fields)


def has_status(definition: Mapping[str, Any], version: str) -> bool:
    """Whether a version of a CRD has the status subresource."""
    return "status" in crd_version(definition, version).get("subresources", {})


def replicas_path(served: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The field that the subresource `scale` of one version of a CRD writes, None without the subresource."""
    scale = (served.get("subresources") or {}).get("scale") or {}
    path = str(scale.get("specReplicasPath", ""))
    return tuple(path.removeprefix(".").split(".")) if path else None


_VERSION = re.compile(r"v(\d{1,18})(?:(alpha|beta)(\d{1,18}))?", re.ASCII)


def version_priority(version: str) -> tuple[int, int, int, str]:
    """The order in which Kubernetes prefers versions: v2, v1, v2beta1, v1alpha2, v1alpha1, others.

    https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#version-priority
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0, version)
    stage = {"alpha": 1, "beta": 2, None: 3}[match[2]]
    return (stage, int(match[1]), int(match[3] or 0), version)


Way: TypeAlias = tuple[str, str]
"""The version that a conversion reads, and the one that it renders."""


def stored_version(definition: Mapping[str, Any]) -> str:
    """The version in which the objects of a CRD are stored."""
    return next(str(each["name"]) for each in definition["spec"]["versions"] if each.get("storage"))


def needed_conversions(definition: Mapping[str, Any]) -> list[Way]:
    """The ways that the objects of a CRD need."""
    versions = [str(each["name"]) for each in definition["spec"]["versions"]]
    if len(versions) < 2:
        return []
    stored = stored_version(definition)
    schema = without_descriptions(object_schema(definition, stored))
    others = [
        each for each in versions if each != stored and without_descriptions(object_schema(definition, each)) != schema
    ]
    return [way for other in others for way in ((other, stored), (stored, other))]


def without_descriptions(schema: Any) -> Any:
    """A schema without what makes no difference to objects."""
    if isinstance(schema, Mapping):
        return {
            name: {field: without_descriptions(each) for field, each in part.items()}
            if name == "properties"
            else part
            if name in ("default", "enum")
            else without_descriptions(part)
            for name, part in schema.items()
            if name != "description" or not isinstance(part, str)
        }
    return [without_descriptions(each) for each in schema] if isinstance(schema, list) else schema
