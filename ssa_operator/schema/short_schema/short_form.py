"""The short schema of a CRD.

Promises:
- A CRD has a short form only if that stands for the same CRD: what a short schema can't express is never lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.objects.json_schema import PRESERVED, RULES, Schema
from ssa_operator.schema.operator_fields import COLUMNS, RESERVED
from ssa_operator.schema.short_schema.expanded_crd import SCALE, VERSION, short_schema
from ssa_operator.schema.short_schema.field_texts import FORMS, REMOVAL, SCALARS, UNCHANGED, innermost

_OPTION = re.compile(r"[\w.-]+")
_BARE = re.compile(r"[^\s\"'\[{]\S*")
_AMBIGUOUS = re.compile(r"\\(?=[\\\"]|\Z)")
_LIMITS = ("minimum", "maximum", "minLength", "maxLength", "pattern", "enum")
_OF_LISTS = ("minItems", "maxItems")
_SCALE = {path: name for name, path in SCALE.items()}


def short_form(crd: Mapping[str, Any]) -> dict[str, Any] | None:
    """The short schema that stands for a CRD with one version; None if there is none."""
    try:
        found = _Writing().schema(crd)
    except (_NoShortFormError, AttributeError, KeyError, TypeError, ValueError):
        return None
    expanded = short_schema(crd["metadata"]["name"], found)
    same = not expanded.mistakes and _comparable(expanded.crd) == _comparable(crd)
    return found if same else None


class _NoShortFormError(Exception):
    """A short schema can't express a part of a CRD."""


@dataclass(slots=True)
class _Writing:
    """Writes one short schema; `types` are those that its fields need."""

    types: dict[str, Any] = field(default_factory=dict)

    def schema(self, crd: Mapping[str, Any]) -> dict[str, Any]:
        """The short schema. It may stand for another CRD. Raises _NoShortFormError."""
        names, (version,) = crd["spec"]["names"], crd["spec"]["versions"]
        parts = version["schema"]["openAPIV3Schema"]["properties"]
        found: dict[str, Any] = {"kind": names["kind"]}
        if version["name"] != VERSION:
            found["version"] = version["name"]
        if crd["spec"]["scope"] != "Namespaced":
            found["scope"] = crd["spec"]["scope"]
        found |= {key: list(names[key]) for key in ("shortNames", "categories") if names.get(key)}
        spec = parts.get("spec", {})
        fields = self._fields(spec, ())
        own = {name: each for name, each in parts["status"]["properties"].items() if name not in RESERVED}
        status = self._fields({**parts["status"], "properties": own}, ("status",))
        found |= {"types": self.types} if self.types else {}
        found |= {key: part for key, part in (("spec", fields), ("status", status)) if part}
        if rules := [rule for rule in spec.get(RULES, ()) if not REMOVAL.fullmatch(rule["rule"])]:
            found["validation"] = rules
        known = {each["name"] for each in COLUMNS}
        columns = [each for each in version.get("additionalPrinterColumns", ()) if each["name"] not in known]
        if columns:
            words = {"name": "name", "path": "jsonPath", "type": "type"}
            found["columns"] = [{word: each[key] for word, key in words.items()} for each in columns]
        if scale := version["subresources"].get("scale"):
            found["scale"] = {_SCALE[key]: path for key, path in scale.items()}
        return found

    def _fields(self, schema: Schema, path: tuple[str, ...]) -> dict[str, Any]:
        """The fields of a mapping."""
        needed = schema.get("required", ())
        return {
            name: self._field(each, (*path, name), ["required"] if name in needed else [])
            for name, each in schema.get("properties", {}).items()
        }

    def _field(self, schema: Schema, path: tuple[str, ...], marks: list[str]) -> Any:
        """A field: a text, or a mapping of fields."""
        plain = not marks and "description" not in schema and schema.get("default", {}) == {}
        if schema.get("properties") and plain:
            return self._fields(schema, path)
        return " | ".join(each for each in (self._type(schema, path), " ".join((*marks, *_marks(schema)))) if each)

    def _type(self, schema: Schema, path: tuple[str, ...]) -> str:
        for name, form in FORMS.items():
            if form.items() <= schema.items():
                return name
        kind = schema.get("type")
        if kind == "array":
            return "[]" + self._type(schema["items"], (*path[:-1], path[-1].removesuffix("s")))
        if kind == "object" and "additionalProperties" in schema:
            return "map[string]" + self._type(schema["additionalProperties"], path)
        if kind == "object" and schema.get("properties"):
            return self._named(self._fields(schema, path), path)
        if kind in SCALARS:
            return str(kind)
        if kind == "object" and schema.get(PRESERVED):
            return "object"
        raise _NoShortFormError

    def _named(self, fields: Mapping[str, Any], path: tuple[str, ...]) -> str:
        """The name of a type with these fields."""
        name = ""
        for part in reversed(path):
            name = part[:1].upper() + part[1:] + name
            if self.types.setdefault(name, fields) == fields:
                return name
        raise _NoShortFormError


def _marks(schema: Schema) -> Iterator[str]:
    """The markers of a field, without `required`."""
    if "default" in schema:
        yield f"default={_text(schema['default'], schema)}"
    if "description" in schema:
        yield f"description={_quoted(schema['description'])}"
    if any(rule["rule"] == UNCHANGED for rule in schema.get(RULES, ())):
        yield "immutable"
    if schema.get("x-kubernetes-list-type") == "set":
        yield "uniqueItems"
    yield from (f"{name}={schema[name]}" for name in _OF_LISTS if name in schema)
    item = innermost(schema)
    if any(form.items() <= item.items() for form in FORMS.values()):
        return
    yield from (f"{name}={_text(item[name], item)}" for name in _LIMITS if name in item)


def _text(value: Any, schema: Schema) -> str:
    """The text of a marker's value."""
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else _quoted(value)
    if schema.get("type") == "string" and all(_OPTION.fullmatch(each) for each in value):
        return ",".join(value)
    return json.dumps(value, ensure_ascii=False)


def _quoted(text: str) -> str:
    """The text in double quotes. A backslash that begins no escape stays, so that patterns are readable."""
    return '"' + _AMBIGUOUS.sub(r"\\\\", text).replace('"', '\\"') + '"'


def _comparable(crd: Mapping[str, Any]) -> Any:
    """A CRD without what makes no difference: the order of required fields, a status, and what is empty by default."""
    spec = {key: value for key, value in crd["spec"].items() if key != "preserveUnknownFields" or value}
    if spec.get("conversion") == {"strategy": "None"}:
        del spec["conversion"]
    metadata = {key: value for key, value in crd["metadata"].items() if value is not None}
    return {"metadata": metadata, "spec": _sorted(spec)}


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: sorted(each) if key == "required" and isinstance(each, list) else _sorted(each)
            for key, each in value.items()
        }
    return [_sorted(each) for each in value] if isinstance(value, list) else value
