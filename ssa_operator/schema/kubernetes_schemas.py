"""The schemas of a cluster's kinds, made from its OpenAPI v3 documents and from CRDs, and the types that they want.

Promises:
- Only kinds that can be applied count. Of their schemas it keeps the parts that an apply is checked against: fields,
  types, allowed values, required fields, the keys of list maps, and deprecations.
- The schema of a kind leaves `status` out, because the operator applies none; `status` has it.
- A manifest has the types of its kind even if it has unknown fields, and only `metadata` counts of a kind without a
  schema. A null field is a missing one, and a null item of a list an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.identity import join_api_version, split_api_version
from ssa_operator.objects.json_schema import (
    PRESERVED,
    TYPES,
    Schema,
    fields,
    is_number,
    part_schema,
    schema_parts,
    value_parts,
)

METADATA = "ObjectMeta"
"""The type of `metadata`."""

QUANTITY = "quantity"
"""The type of Kubernetes' quantities, which are strings or numbers."""

_PREFIX = "#/components/schemas/"
_DEPRECATED = re.compile(
    r"(?:^|[\s.])(?:Deprecated[:.]|DEPRECATED\b|This (?:field|API) is deprecated)|deprecated (?:alias|field assuring)"
)
_KEPT = ("type", "enum", "required")


class KubernetesSchemas(Struct, frozen=True, kw_only=True):
    """The schemas of all kinds of a cluster."""

    version: str
    """The version of Kubernetes: 1.36."""
    kinds: Mapping[str, Mapping[str, Schema]]
    """The schema of each kind, by apiVersion and kind."""
    types: Mapping[str, Schema]
    """The schemas that others refer to."""
    statuses: Mapping[str, Mapping[str, Schema]] = {}
    """The schema of `status` of each kind that has one, by apiVersion and kind."""
    complete: bool = False
    """Whether these are all kinds of the cluster, custom ones included."""

    def schema(self, api_version: str, kind: str) -> Schema | None:
        """The schema of a kind, None if there is no such kind."""
        return self.kinds.get(api_version, {}).get(kind)

    def with_status(self, api_version: str, kind: str) -> Schema | None:
        """The schema of the objects that the API server returns, None if there is no such kind."""
        found = self.schema(api_version, kind)
        status = self.statuses.get(api_version, {}).get(kind)
        if found is None or status is None:
            return found
        return {**found, "properties": {**found.get("properties", {}), "status": status}}

    def resolved(self, schema: Schema) -> Schema:
        """The schema, or the type that it refers to. Only the reference says whether the field is deprecated."""
        reference = schema.get("$ref")
        return schema if reference is None else self.types.get(reference, {})

    def part_schema(self, schema: Schema, part: str | int) -> Schema | None:
        """The schema of a field or an item, None if nothing is said of it."""
        return part_schema(self.resolved(schema), part)

    def parts(self, schema: Schema, value: Any) -> Iterator[tuple[str | int, Schema, Any]]:
        """The fields and items of a value that have a schema, each with its name or position."""
        return value_parts(self.resolved(schema), value)

    def is_quantity(self, api_version: str, kind: str, path: Iterable[str]) -> bool:
        """Whether a field holds quantities, which the API server stores in their canonical spelling. The path has the
        names of fields and keys, without positions in lists. Values of custom resources are stored as they are written.
        """
        schema = self._without_list(self.schema(api_version, kind) or {})
        for name in path:
            schema = self._without_list(part_schema(schema, name) or {})
        return schema.get("type") == QUANTITY

    def _without_list(self, schema: Schema) -> Schema:
        found = self.resolved(schema)
        while "items" in found:
            found = self.resolved(found["items"])
        return found

    def api_versions(self, kind: str, group: str | None = None) -> list[str]:
        """The apiVersions that have a kind; of one group, or of all."""
        return [
            api_version
            for api_version, kinds in self.kinds.items()
            if kind in kinds and group in (None, split_api_version(api_version)[0])
        ]

    @property
    def groups(self) -> frozenset[str]:
        """The API groups that these schemas know completely."""
        return frozenset(split_api_version(api_version)[0] for api_version in self.kinds)

    def with_crds(self, definitions: Iterable[Mapping[str, Any]]) -> KubernetesSchemas:
        """These schemas and those of CRDs, which win."""
        kinds = {api_version: dict(found) for api_version, found in self.kinds.items()}
        statuses = {api_version: dict(found) for api_version, found in self.statuses.items()}
        for definition in definitions:
            spec = definition["spec"]
            for version in spec.get("versions", ()):
                if version.get("served"):
                    found = kinds.setdefault(join_api_version(spec["group"], version["name"]), {})
                    found[spec["names"]["kind"]] = _crd_schema(version)
                    of_status = statuses.setdefault(join_api_version(spec["group"], version["name"]), {})
                    of_status[spec["names"]["kind"]] = (
                        fields((version.get("schema") or {}).get("openAPIV3Schema")).get("status") or {}
                    )
        return replace(self, kinds=kinds, statuses=statuses)


def _crd_schema(version: Mapping[str, Any]) -> Schema:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    if not fields(schema):
        return {PRESERVED: True}
    own = {name: field for name, field in fields(schema).items() if name != "status"}
    common = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": METADATA},
        "status": {},
    }
    found = {**schema, "properties": {**own, **common}}
    return {**found, "deprecated": True} if version.get("deprecated") else found


def schemas_from_openapi(version: str, documents: Iterable[Mapping[str, Any]]) -> KubernetesSchemas:
    """The schemas in the OpenAPI v3 documents of a cluster's group versions."""
    definitions: dict[str, Mapping[str, Any]] = {}
    kinds: dict[str, dict[str, Schema]] = {}
    statuses: dict[str, dict[str, Schema]] = {}
    names: dict[tuple[str, str], str] = {}
    for document in documents:
        schemas = document.get("components", {}).get("schemas", {})
        definitions |= schemas
        applicable = {
            (each["group"], each["version"], each["kind"])
            for path, operations in document.get("paths", {}).items()
            if path.endswith("/{name}")
            for each in [operations.get("patch", {}).get("x-kubernetes-group-version-kind")]
            if each
        }
        for name, schema in schemas.items():
            for each in schema.get("x-kubernetes-group-version-kind", ()):
                if (each["group"], each["version"], each["kind"]) in applicable and "metadata" in schema["properties"]:
                    names[join_api_version(each["group"], each["version"]), each["kind"]] = name
    short = _short_names(definitions)
    for (api_version, kind), name in sorted(names.items()):
        found = _compact(definitions[name], short)
        if status := found["properties"].get("status"):
            statuses.setdefault(api_version, {})[kind] = status
        found["properties"] = {**found["properties"], "status": {}}
        kinds.setdefault(api_version, {})[kind] = found
    types = {short[name]: _compact(schema, short) for name, schema in definitions.items()}
    used = _used(types, [schema for found in (*kinds.values(), *statuses.values()) for schema in found.values()])
    types = {name: types[name] for name in sorted(used)}
    return KubernetesSchemas(version=version, kinds=kinds, types=types, statuses=statuses, complete=True)


def _short_names(definitions: Iterable[str]) -> dict[str, str]:
    """The last part of each name, with the parts before it if two names end alike."""
    short: dict[str, str] = {}
    for name in definitions:
        parts = name.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        short[name] = next(end for end in ends if sum(other.endswith(f".{end}") for other in definitions) == 1)
    return {**short, **{name: METADATA for name in definitions if name.endswith(".meta.v1.ObjectMeta")}}


def _compact(schema: Mapping[str, Any], short: Mapping[str, str]) -> dict[str, Any]:
    """A schema without descriptions and defaults, its references by short names."""
    found: dict[str, Any] = {}
    references = [each["$ref"] for each in (schema, *schema.get("allOf", ())) if "$ref" in each]
    if references:
        found["$ref"] = short[references[0].removeprefix(_PREFIX)]
    found |= {key: schema[key] for key in _KEPT if schema.get(key)}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            found[key] = _compact(schema[key], short)
    if schema.get("properties"):
        found["properties"] = {name: _compact(field, short) for name, field in schema["properties"].items()}
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        found["x-kubernetes-int-or-string"] = True
    elif [each.get("type") for each in schema.get("oneOf", ())] == ["string", "number"]:
        found["type"] = QUANTITY
    if schema.get(PRESERVED):
        found[PRESERVED] = True
    if schema.get("x-kubernetes-list-type") == "map":
        found["x-kubernetes-list-map-keys"] = schema["x-kubernetes-list-map-keys"]
    elif schema.get("x-kubernetes-list-type") == "set":
        found["x-kubernetes-list-type"] = "set"
    if _DEPRECATED.search(schema.get("description", "")):
        found["deprecated"] = True
    if type(schema.get("default")) is str and schema["default"]:
        found["default"] = schema["default"]  # a list map's key may be left out then
    return found


def _used(types: Mapping[str, Schema], roots: Iterable[Schema]) -> set[str]:
    """The types that some schemas refer to, directly or not."""
    used: set[str] = set()
    stack: list[Any] = list(roots)
    while stack:
        schema = stack.pop()
        reference = schema.get("$ref")
        if reference is not None and reference not in used:
            used.add(reference)
            stack.append(types[reference])
        stack += [inner for _, inner in schema_parts(schema)]
    return used


def has_type(value: Any, wanted: str) -> bool:
    """Whether a value has a type of OpenAPI."""
    if wanted in ("integer", "number"):
        return is_number(value) and (wanted == "number" or isinstance(value, int) or value.is_integer())
    return isinstance(value, {"array": list, "boolean": bool, "object": Mapping}.get(wanted, str))


def has_types(body: Mapping[str, Any], schemas: KubernetesSchemas) -> bool:
    """Whether a manifest has the types of its kind, so that rules can read it."""
    schema = schemas.schema(body["apiVersion"], body["kind"]) or _UNKNOWN
    return _has_types(body, schema, schemas)


_UNKNOWN: Schema = {"properties": {"metadata": {"$ref": METADATA}}}
"""The schema of all that is known of a kind without a schema."""


def _has_types(value: Any, schema: Schema, schemas: KubernetesSchemas) -> bool:
    schema = schemas.resolved(schema)
    wanted = str(schema.get("type"))
    if schema.get("x-kubernetes-int-or-string") or wanted == QUANTITY:
        return value is None or not isinstance(value, (bool, Mapping, list))
    if value is None:
        return True
    if wanted in TYPES and not has_type(value, wanted):
        return False
    return all(_has_types(item, inner, schemas) for _, inner, item in schemas.parts(schema, value))
