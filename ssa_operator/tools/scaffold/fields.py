"""The fields of a `spec` as a structural schema, from `--field name:type[=default|!][:marker=value...]` or an example;
the CRD that has them, and an example of its objects.

Promises:
- A field means what its type and markers mean in `_schema.yaml`, and is refused with the same words. One that is
  neither required nor has a default may be missing. The default of a nested field holds even if the mapping around it
  is missing.
- The operator can report everything: the CRD has the status subresource, and the fields and columns of
  `schema/operator_fields.py`.
- Mappings that users fill with keys of their own (labels, resource limits) accept other keys. If an example shows too
  little (null, an empty list), the schema accepts anything.
- The file of an example is valid YAML, and valid by the schema. Where the API server refuses a field, or one is
  missing, a comment has its words; a missing field is a line with `#`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.json_schema import PRESERVED
from ssa_operator.objects.scalars import amount
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.yaml.to_yaml import AnnotatedLine, yaml_lines
from ssa_operator.schema.field_errors import FieldError, error_field
from ssa_operator.schema.operator_fields import COLUMNS, spec_fields, status_fields
from ssa_operator.schema.samples import Sampler
from ssa_operator.schema.schema_validation import validate
from ssa_operator.schema.short_schema.field_texts import FORMS, FieldReader
from ssa_operator.tools.scaffold.names import ResourceNames, ScaffoldError

QUANTITY = FORMS["quantity"]

_SHORT: Mapping[str, str] = {
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("int", "int32", "int64"), "integer"),
    **dict.fromkeys(("float32", "float64", "double"), "number"),
    "bool": "boolean",
}
"""The types of the short schema by other names."""
_LIMITS: Mapping[str, Mapping[str, str]] = {
    "replicas": {"minimum": "0"},
    "port": {"minimum": "1", "maximum": "65535"},
}
"""Additional markers of an integer with this name."""

_FIELD = re.compile(r"(?P<path>[^:=!]+):(?P<type>[^=!]+)(?:(?P<required>!)|=(?P<default>.*))?", re.DOTALL)
_PART = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\[\])?")
_LIST = re.compile(r"\[\](?P<item>.+)|(?P<outer>.+)\[\]|list\[(?P<listed>.+)\]")
_MAP = re.compile(r"map\[(?:string\])?(?P<value>[^\[\]]+(?:\[.*\])?|\[\].+)\]?")
_MARKER = re.compile(r":(?=(?:default|description|enum|maximum|minimum|pattern)=)")
_FORM = (
    "write name:type, name:type=default or name:type! (required), and behind it :enum=a|b, :minimum=1, :maximum=5, "
    ":pattern=REGEX or :description=TEXT"
)


class Leaf(Struct, frozen=True, kw_only=True):
    """A field whose value isn't a mapping with declared fields."""

    path: tuple[str, ...]
    schema: Mapping[str, Any]
    guaranteed: bool
    """Whether every object has it, because it is required or has a default."""


def spec_schema(fields: Iterable[str]) -> dict[str, Any]:
    """The schema of a `spec` with the fields of `--field`. Raises ScaffoldError."""
    root: dict[str, Any] = {"type": "object", "properties": {}}
    for text in fields:
        head, *markers = _MARKER.split(text)
        found = _FIELD.fullmatch(head)
        if found is None:
            raise ScaffoldError(f"--field {text} is no field; {_FORM}")
        parts = found["path"].split(".")
        if not all(_PART.fullmatch(part) for part in parts) or parts[-1].endswith("[]"):
            hint = "; a list has its type, as in hosts:[]string" if parts[-1].endswith("[]") else ""
            raise ScaffoldError(
                f"--field {text}: {found['path']} is no valid name; use letters, digits and _, and dots between nested "
                f"fields{hint}"
            )
        kind, colon, unknown = found["type"].strip().partition(":")
        if found["default"] is not None:
            markers.insert(0, f"{unknown if colon else 'default'}={found['default']}")
        schema = _schema(_short_type(kind), parts[-1], markers, text, required=bool(found["required"]))
        _insert(root, parts, schema, required=bool(found["required"]), text=text)
    return complete(root)


def _insert(root: dict[str, Any], parts: list[str], schema: dict[str, Any], *, required: bool, text: str) -> None:
    at = root
    for part in parts[:-1]:
        name, is_list = part.removesuffix("[]"), part.endswith("[]")
        made: dict[str, Any] = {"type": "object", "properties": {}}
        known = at["properties"].setdefault(name, {"type": "array", "items": made} if is_list else made)
        at = known.get("items", {}) if is_list else known
        if "properties" not in at:
            raise ScaffoldError(f"--field {text}: another --field declares {name} with a type of its own; remove one")
    if parts[-1] in at["properties"]:
        raise ScaffoldError(f"--field {text}: another --field declares {'.'.join(parts)}, too; remove one")
    at["properties"][parts[-1]] = schema
    if required:
        at.setdefault("required", []).append(parts[-1])


def complete(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a mapping, completed by its fields: a mapping with a required field is required itself, and one
    with defaults has a default.
    """
    for name, field in schema.get("properties", {}).items():
        if "properties" in field.get("items", {}):
            complete(field["items"])
        if "properties" not in field:
            continue
        complete(field)
        if field.get("required"):
            required = schema.setdefault("required", [])
            required.extend([name] if name not in required else [])
        elif any("default" in each for each in field["properties"].values()):
            field["default"] = {}
    # Readers expect required fields before optional ones.
    return schema


def leaves(schema: Mapping[str, Any], path: tuple[str, ...] = (), *, guaranteed: bool = True) -> Iterator[Leaf]:
    """The fields below a mapping, in order."""
    required = schema.get("required", ())
    for name, field in (schema.get("properties") or {}).items():
        there = guaranteed and (name in required or "default" in field)
        if field.get("properties"):
            yield from leaves(field, (*path, name), guaranteed=there)
        else:
            yield Leaf(path=(*path, name), schema=field, guaranteed=there)


def _short_type(text: str) -> str:
    """A type as the short schema writes it."""
    if found := _LIST.fullmatch(text):
        return "[]" + _short_type(found["item"] or found["outer"] or found["listed"])
    if (found := _MAP.fullmatch(text)) and text.startswith("map["):
        return "map[string]" + _short_type(found["value"])
    return _SHORT.get(text.lower(), text.lower())


def _schema(kind: str, name: str, markers: Iterable[str], text: str, *, required: bool) -> dict[str, Any]:
    """The schema of a field of the short schema. Raises ScaffoldError."""
    marks = [(marker, value) for marker, _, value in (each.partition("=") for each in markers)]
    item = kind.rpartition("]")[2]
    if kind == "integer":
        marks += [each for each in _LIMITS.get(name, {}).items() if each[0] not in dict(marks)]
    written = [f"{marker}={_written(marker, value, kind, item)}" for marker, value in marks]
    reader = FieldReader({})
    field = " | ".join(filter(None, (kind, " ".join([*["required"] * required, *written]))))
    schema: dict[str, Any] = reader.fields({name: field}, (), ())["properties"][name]
    for _, message in reader.mistakes:
        raise ScaffoldError(f"--field {text}: {message}")
    if "default" in schema:
        for error in validate(schema, schema["default"]).errors:
            words = f"is no {item}" if item in FORMS else f"is refused: {error.detail.strip()}"
            raise ScaffoldError(f"--field {text}: the default {words}")
    elif "pattern" in dict(marks) and next(Sampler().values(schema), None) is None:
        raise ScaffoldError(f"--field {text}: add a default, because the example needs a value that matches")
    return schema


def _written(marker: str, value: str, kind: str, item: str) -> str:
    """The value of a marker as the short schema writes it."""
    if marker == "enum":
        return json.dumps(value.split("|")) if item == "string" else value.replace("|", ",") or '""'
    if marker == "default" and kind.startswith("[]") and not value.startswith("["):
        items = value.split(",") if value else []
        return json.dumps([each.strip() for each in items]) if item in ("string", *FORMS) else f"[{value}]"
    if marker == "default" and kind.startswith(("[]", "map[", "object")):
        return value or '""'
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


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
