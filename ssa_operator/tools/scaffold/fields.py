"""The fields of a `spec`, from `--field name:type[=default|!][:marker=value...]` to a structural schema.

Promises:
- A field that is neither required nor has a default may be missing.
- The default of a nested field holds even if the mapping around it is missing.
- A field means what its type and markers mean in `_schema.yaml`, and is refused with the same words.
- The markers of a list are those of its items, except `default` and `description`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.schema.samples import Sampler
from ssa_operator.schema.schema_validation import validate
from ssa_operator.schema.short_schema.field_texts import FORMS, FieldReader
from ssa_operator.tools.scaffold.names import ScaffoldError

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
