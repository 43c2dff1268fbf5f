"""The CRD of a new resource, and an example of its objects.

Promises:
- The operator can report everything: the CRD has the status subresource, and the fields and columns of
  `schema/operator_fields.py`.
- The example is valid by the schema.
- Mappings that users fill with keys of their own (labels, resource limits) accept other keys.
- If the example shows too little (null, an empty list), the schema accepts anything.
- The file of an example is valid YAML. Where the API server refuses a field, or one is missing, a comment has its
  words; a missing field is a line with `#`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ssa_operator.objects.scalars import amount
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.yaml.to_yaml import AnnotatedLine, yaml_lines
from ssa_operator.schema.field_errors import FieldError, error_field
from ssa_operator.schema.operator_fields import COLUMNS, spec_fields, status_fields
from ssa_operator.schema.samples import Sampler
from ssa_operator.schema.short_schema.field_texts import PRESERVED
from ssa_operator.tools.scaffold.fields import QUANTITY
from ssa_operator.tools.scaffold.names import ResourceNames

_READY_REPLICAS: Mapping[str, Any] = {
    "type": "integer",
    "description": "Number of ready pods.",
}


def definition(names: ResourceNames, spec: Mapping[str, Any], *, ready_replicas: bool) -> dict[str, Any]:
    """The CRD. `spec` is the schema of the field; with `ready_replicas` the status has a field of that name."""
    own = {"readyReplicas": _READY_REPLICAS} if ready_replicas else {}
    required = {"required": ["spec"]} if spec.get("required") else {}
    version = {
        "name": names.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(COLUMNS),
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                **required,
                "properties": {"spec": spec_fields(spec), "status": status_fields(own)},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names.folder},
        "spec": {
            "group": names.group,
            "scope": "Namespaced",
            "names": {
                "kind": names.kind,
                "listKind": f"{names.kind}List",
                "plural": names.plural,
                "singular": names.singular,
            },
            "versions": [version],
        },
    }


def example(
    names: ResourceNames, spec: Mapping[str, Any], name: str, values: Mapping[str, Any], namespace: str = "default"
) -> dict[str, Any]:
    """An object with every field of the spec. `values` are samples of fields by name."""
    return {
        "apiVersion": names.api_version,
        "kind": names.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": Sampler(whole=True, words=values).value({**spec, "default": None}, "spec"),
    }


_OPEN = frozenset({"annotations", "data", "labels", "limits", "matchLabels", "nodeSelector", "requests", "stringData"})
"""Fields whose keys the user chooses."""

_QUANTITIES = frozenset({"cpu", "ephemeral-storage", "memory", "size", "storage"})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BINARY = re.compile(r".*[KMGTPE]i")
_ANYTHING: Mapping[str, Any] = {PRESERVED: True}


def infer(value: Any, name: str = "") -> dict[str, Any]:
    """The schema of a value; `name` is that of its field."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer"}
    if isinstance(value, float):
        return {"type": "number"}
    if isinstance(value, str):
        is_quantity = (name in _QUANTITIES or _BINARY.fullmatch(value)) and amount(value) is not None
        return dict(QUANTITY) if is_quantity else {"type": "string"}
    if isinstance(value, Mapping):
        return _mapping(value, name)
    if isinstance(value, Sequence):
        items = [infer(item, name) for item in value]
        return {"type": "array", "items": _merged(items) if items else dict(_ANYTHING)}
    return {**_ANYTHING, "nullable": True}


def _mapping(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not value:
        return {"type": "object", PRESERVED: True}
    if name in _OPEN or not all(_IDENTIFIER.fullmatch(key) for key in value):
        schemas = [infer(item, key) for key, item in value.items()]
        if name in ("limits", "requests"):
            schemas.append(dict(QUANTITY))
        return {"type": "object", "additionalProperties": _merged(schemas)}
    return {"type": "object", "properties": {key: infer(item, key) for key, item in value.items()}}


def _merged(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A schema for the values of all schemas."""
    first, *rest = schemas
    merged = dict(first)
    for schema in rest:
        merged = _both(merged, schema)
    return merged


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    if one == other:
        return dict(one)
    kinds = {one.get("type"), other.get("type")}
    int_or_string = "x-kubernetes-int-or-string"
    if int_or_string in one or int_or_string in other:
        if all(int_or_string in each or each.get("type") in ("integer", "string") for each in (one, other)):
            same = int_or_string in one and int_or_string in other
            return dict(one) if same else {key: item for key, item in QUANTITY.items() if key != "pattern"}
    elif kinds == {"integer", "number"}:
        return {"type": "number"}
    elif kinds == {"integer", "string"}:
        return {key: item for key, item in QUANTITY.items() if key != "pattern"}
    elif kinds == {"object"} and "properties" in one and "properties" in other:
        fields: dict[str, Any] = dict(one["properties"])
        for key, schema in other["properties"].items():
            fields[key] = _both(fields[key], schema) if key in fields else schema
        return {"type": "object", "properties": fields}
    elif kinds == {"object"}:
        return {"type": "object", PRESERVED: True}
    elif kinds == {"array"}:
        return {"type": "array", "items": _both(one["items"], other["items"])}
    nullable = {"nullable": True} if one.get("nullable") or other.get("nullable") else {}
    return {**_ANYTHING, **nullable}


def guaranteed_spec(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the spec in that of an object, where each field may be missing if the spec may be missing."""
    spec: Mapping[str, Any] = (schema.get("properties") or {}).get("spec") or {"type": "object"}
    if "spec" in (schema.get("required") or ()) or "default" in spec:
        return spec
    properties = {
        name: {key: value for key, value in each.items() if key != "default"}
        for name, each in (spec.get("properties") or {}).items()
    }
    return {**{key: value for key, value in spec.items() if key != "required"}, "properties": properties}


def marked_text(body: Mapping[str, Any], errors: Iterable[FieldError]) -> str:
    """The object as YAML, with a comment at each error."""
    lines = list(yaml_lines(body))
    for error in errors:
        at, depth = _place(lines, error.path)
        text = " ".join(f"{error_field(error.path)}: {error.message}".split())
        marks = [f"# to fill in: {text}"]
        if depth < len(error.path):
            marks += [f"# {'  ' * (level - depth)}{part}:" for level, part in enumerate(error.path) if level >= depth]
        indent = "  " * max(depth - (depth == len(error.path)), 0)
        lines[at:at] = [AnnotatedLine(f"{indent}{mark}", error.path) for mark in marks]
    return "".join(f"{line.text}\n" for line in lines)


def _place(lines: list[AnnotatedLine], path: FieldPath) -> tuple[int, int]:
    """The line before which an error of a field belongs, and how many parts of its path the object has: before the
    field, or behind the mapping that lacks it.
    """
    for depth in range(len(path), 0, -1):
        found = [at for at, line in enumerate(lines) if line.field is not None and line.field[:depth] == path[:depth]]
        if found:
            return (found[0] if depth == len(path) else found[-1] + 1), depth
    return (0 if not path else len(lines)), 0
