"""The fields of a `spec`, from `--field name:type[=default|!][:marker=value...]` to a structural schema.

Promises:
- A field that is neither required nor has a default may be missing.
- The default of a nested field holds even if the mapping around it is missing.
- An invalid field is refused with the reason, a default by the rules of its type and of its markers.
- The markers of a list are those of its items, except `default` and `description`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.messages import did_you_mean
from ssa_operator.objects.scalars import amount
from ssa_operator.schema.samples import Sampler
from ssa_operator.schema.short_schema.field_texts import FORMS, PRESERVED
from ssa_operator.schema.string_formats import go_pattern
from ssa_operator.tools.scaffold.names import ScaffoldError

QUANTITY = FORMS["quantity"]

SCALARS: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "number": {"type": "number"},
    **FORMS,
    "object": {"type": "object", PRESERVED: True},
}
"""The schema of each type."""

_ALIASES: Mapping[str, str] = {
    "str": "string",
    "integer": "int",
    "int32": "int",
    "int64": "int",
    "boolean": "bool",
    "float": "number",
    "float64": "number",
    "double": "number",
}
_LIMITS: Mapping[str, Mapping[str, Any]] = {
    "replicas": {"minimum": 0},
    "port": {"minimum": 1, "maximum": 65535},
}
"""Additional limits in the schema of an integer with this name."""

_INT64 = 2**63
_FIELD = re.compile(r"(?P<path>[^:=!]+):(?P<type>[^=!]+)(?:(?P<required>!)|=(?P<default>.*))?", re.DOTALL)
_PART = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\[\])?")
_LIST = re.compile(r"\[\](?P<item>.+)|(?P<outer>.+)\[\]|list\[(?P<listed>.+)\]")
_MAP = re.compile(r"map\[(?:string\])?(?P<value>[^\[\]]+(?:\[.*\])?|\[\].+)\]?")
_MARKERS = ("default", "description", "enum", "maximum", "minimum", "pattern")
_MARKER = re.compile(rf":(?=(?:{'|'.join(_MARKERS)})=)")
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
        schema = _type(found["type"].strip(), parts[-1], text)
        _mark(schema, [*([f"default={found['default']}"] if found["default"] is not None else ()), *markers], text)
        if found["required"] and "default" in schema:
            raise ScaffoldError(f"--field {text} is required, and has a default; leave out one of them")
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


def _type(text: str, name: str, field: str) -> dict[str, Any]:
    """The schema of a type. Raises ScaffoldError."""
    if found := _LIST.fullmatch(text):
        return {"type": "array", "items": _type(found["item"] or found["outer"] or found["listed"], "", field)}
    if (found := _MAP.fullmatch(text)) and text.startswith("map["):
        return {"type": "object", "additionalProperties": _type(found["value"], "", field)}
    known = _ALIASES.get(text.lower(), text.lower())
    if known not in SCALARS:
        type_name, colon, marker = text.partition(":")
        if colon and type_name in (*SCALARS, *_ALIASES):
            hint = did_you_mean(marker, _MARKERS, f"the markers are {', '.join(_MARKERS)}")
            raise ScaffoldError(f"--field {field}: there is no marker {marker}; {hint}")
        raise ScaffoldError(
            f"--field {field}: there is no type {text}; the types are {', '.join(SCALARS)}, []TYPE for a list and "
            "map[string]TYPE for a mapping"
        )
    return {**SCALARS[known], **(_LIMITS.get(name, {}) if known == "int" else {})}


def _mark(schema: dict[str, Any], markers: Iterable[str], field: str) -> None:
    """Add markers to the schema of a field. Raises ScaffoldError."""
    given: dict[str, str] = {}
    for marker in markers:
        name, _, value = marker.partition("=")
        if name in given:
            raise ScaffoldError(f"--field {field}: {name} is there twice; remove one")
        given[name] = value
    item = schema
    while item.get("type") == "array":
        item = item["items"]
    for name in ("enum", "maximum", "minimum", "pattern"):
        if name in given:
            item[name] = _limit(name, given[name], {**item, "enum": [], "pattern": ""}, field)
    if "minimum" in item and "maximum" in item and item["minimum"] > item["maximum"]:
        raise ScaffoldError(f"--field {field}: minimum is above maximum")
    if "description" in given:
        schema["description"] = given["description"]
    if "default" in given:
        schema["default"] = _default(given["default"], schema, field)
    elif "pattern" in given and next(Sampler().values(item), None) is None:
        raise ScaffoldError(f"--field {field}: add a default, because the example needs a value that matches")


def _limit(name: str, text: str, schema: Mapping[str, Any], field: str) -> Any:
    """The value of a marker, for a field without limits. Raises ScaffoldError."""
    kind = schema.get("type")
    if name == "pattern":
        if kind != "string":
            raise ScaffoldError(f"--field {field}: pattern is for a text")
        if go_pattern(text) is None:
            raise ScaffoldError(f"--field {field}: pattern is no regular expression of Go (RE2): {text}")
        return text
    if name != "enum" and kind not in ("integer", "number"):
        raise ScaffoldError(f"--field {field}: {name} is for a number")
    bare = {key: value for key, value in schema.items() if key not in ("enum", "pattern", "minimum", "maximum")}
    values = [_parse(each, bare) for each in (text.split("|") if name == "enum" else [text])]
    if reason := next((reason for value in values if (reason := _misfit(value, bare))), None):
        raise ScaffoldError(f"--field {field}: {name} {reason}")
    return values if name == "enum" else values[0]


def _default(text: str, schema: Mapping[str, Any], field: str) -> Any:
    """The default that a text stands for. Raises ScaffoldError."""
    value = _parse(text, schema)
    reason = _misfit(value, schema)
    if reason:
        raise ScaffoldError(f"--field {field}: the default {reason}")
    return value


def _parse(text: str, schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if kind == "string" or schema.get("x-kubernetes-int-or-string"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        if kind == "array":
            return [_parse(each.strip(), schema["items"]) for each in text.split(",")] if text else []
        return None


def _misfit(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Why a value doesn't fit a schema; None if it does."""
    kind = "quantity" if schema.get("x-kubernetes-int-or-string") else str(schema["type"])
    if not _CHECKS[kind](value):
        return _EXPECTED[kind]
    if kind == "string" and schema.get("pattern") and not go_pattern(schema["pattern"]).search(value):
        is_duration = schema["pattern"] == SCALARS["duration"]["pattern"]
        return "must be a duration, as 30s or 1h30m" if is_duration else f"must match {schema['pattern']}"
    if schema.get("enum") and value not in schema["enum"]:
        return f"must be one of {', '.join(map(str, schema['enum']))}"
    if kind == "number" and value is not None:
        if value > schema.get("maximum", value):
            return f"must be at most {schema['maximum']}"
        if value < schema.get("minimum", value):
            return f"must be at least {schema['minimum']}"
    if value is not None and kind == "integer":
        low, high = schema.get("minimum", -_INT64), schema.get("maximum", _INT64 - 1)
        if not low <= value <= high:
            return f"must be between {low} and {high}" if "maximum" in schema else f"must be at least {low}"
    inner = schema.get("items") if kind == "array" else schema.get("additionalProperties")
    items = value if kind == "array" else value.values() if kind == "object" else ()
    return next((reason for item in items if inner and (reason := _misfit(item, inner))), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "quantity": lambda value: not isinstance(value, bool) and amount(value) is not None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_EXPECTED: Mapping[str, str] = {
    "string": "must be a text",
    "integer": "must be an integer",
    "number": "must be a number",
    "boolean": "must be true or false",
    "quantity": "must be a quantity, as 500m or 1Gi",
    "array": 'must be a list, as a,b or ["a", "b"]',
    "object": 'must be a mapping in JSON, as {"a": "b"}',
}
