"""The fields of a short schema: from `integer | default=1 minimum=0` to a structural schema.

Promises:
- The markers of a list or a mapping are those of its items, except `required`, `default`, `description`, `immutable`
  and those about the list itself.
- The message about a field in another form has the right one, where that is clear.
- A mapping of fields whose fields have defaults, and none is required, has a default itself. So the defaults of nested
  fields hold.
- An immutable field can be neither changed nor removed.
- A value in double quotes has the escapes `\\"` and `\\\\`; any other backslash stays, so that patterns are readable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ssa_operator.objects.json_schema import PRESERVED, RULES, Schema
from ssa_operator.objects.messages import did_you_mean
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.cel.field_names import escaped
from ssa_operator.schema.schema_validation import validate
from ssa_operator.schema.string_formats import go_pattern

UNCHANGED = "self == oldSelf"
"""The rule of an immutable field."""
REMOVAL = re.compile(r"!has\(oldSelf\.(\w+)\) \|\| has\(self\.\w+\)")
"""The rule of a mapping with an immutable field, which `FieldReader.fields` adds."""
SCALARS = ("string", "integer", "number", "boolean")
TYPES = (*SCALARS, "object")
FORMS: Mapping[str, Mapping[str, Any]] = {
    "quantity": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$",
    },
    "duration": {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"},
}
"""The schemas of types that are texts of a form. That of a quantity is the one that Kubernetes' own types have."""
_OTHER_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("int", "int32", "int64"), "integer"),
    **dict.fromkeys(("float", "float32", "float64", "double"), "number"),
    "bool": "boolean",
    **dict.fromkeys(("map", "mapping", "dict", "any"), "object"),
    **dict.fromkeys(("list", "array"), '"[]string"'),
}
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_FLAGS = ("required", "immutable", "uniqueItems")
MARKERS = (*_FLAGS, "default", "description", "enum", "minimum", "maximum", "pattern", *_COUNTS)
_OF_TYPES: Mapping[str, tuple[str, ...]] = {
    "enum": SCALARS,
    **dict.fromkeys(("minimum", "maximum"), ("integer", "number")),
    **dict.fromkeys(("pattern", "minLength", "maxLength"), ("string",)),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems"), ("array",)),
}
"""The types that a marker is for; the others are for all."""
_EXAMPLES: Mapping[str, str] = {
    "array": 'a list in JSON, as ["a"]',
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "object": 'a mapping in JSON, as {"a": "b"}',
    "string": "a text",
}
FORM = "write type | marker=value, as in integer | default=1, or a mapping of fields"
_FIELD_LIMIT = 5000
"""Fields of a CRD. Types that use one another can multiply."""

_NAME = re.compile(r"[^\s=]+")
_VALUE = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|[^\s"']\S*""", re.DOTALL)
_ESCAPE = re.compile(r'\\(["\\])')
_CEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


_PARTS = re.compile(
    r"""(?P<type>\A(?:\[\]|map\[string\]){0,20}\w{1,63})|(?:(?P<name>\b[A-Za-z]{1,63})?\s{0,9}[:=]\s{0,9})?"""
    r"""(?P<value>"(?:[^"\\]|\\.){0,300}"|'[^']{0,300}'|\[[^]]{0,300}\]|\{[^}]{0,300}\}|!|[^\s|,;()!]+)""",
    re.DOTALL,
)
"""The parts of a field in any form. Its loops are bounded, so that it takes linear time."""


def right_form(text: str) -> str:
    """A field in the form `type | marker=value`, from other forms: `string, required`, `enum=a | b`; '' if a part of it
    has no meaning.
    """
    kind, marks = "", [["", ""]]
    for part in _PARTS.finditer(text.strip()):
        name, value, equals = part["name"], part["value"], re.search("[:=]", part[0])
        if part["type"]:
            kind = part["type"]
        elif name is None and (value == "!" or (value in _FLAGS and not equals)):
            marks.append(["required" if value == "!" else value, ""])
        elif name in MARKERS or (name is None and equals):
            value = _listed(value) if name == "enum" and '"' not in value else value
            marks.append([name or "default", f"={value}"])
        elif name is None and marks[-1][0] == "enum":
            marks[-1][1] += f",{value}"
        else:
            return ""
    if not kind:
        return ""
    return f"{_OTHER_WORDS.get(kind, kind)} | {' '.join(name + value for name, value in marks[1:])}".removesuffix(" | ")


def _listed(value: str) -> str:
    return ",".join(each.strip() for each in value.strip("[]").split(","))


class Mistake(Exception):  # noqa: N818 - it is the user's
    """A mistake in a text of the short schema; the message says what to do."""


def markers(text: str) -> dict[str, str]:
    """The markers of a field by their names. Raises Mistake."""
    found: dict[str, str] = {}
    at, end = 0, len(text.rstrip())
    while at < end:
        if text[at].isspace():
            at += 1
            continue
        named = _NAME.match(text, at)
        name = named[0] if named else ""
        if name not in MARKERS:
            hint = did_you_mean(name, MARKERS, f"the markers are {', '.join(MARKERS)}")
            raise Mistake(f"there is no marker {name}; {hint} A text with spaces needs double quotes")
        if name in found:
            raise Mistake(f"{name} is there twice; remove one")
        at += len(name)
        if text[at : at + 1] == "=":
            found[name], at = _value(name, text, at + 1)
        elif name in _FLAGS:
            found[name] = "true"
        else:
            raise Mistake(f"{name} has no value; write {name}=VALUE")
    return found


def _value(name: str, text: str, at: int) -> tuple[str, int]:
    """The value of a marker that begins at a position, and the position behind it. Raises Mistake."""
    if text[at : at + 1] in ("[", "{"):
        try:
            return text[at : (end := json.JSONDecoder().raw_decode(text, at)[1])], end
        except (ValueError, RecursionError):
            raise Mistake(f"{name} begins like JSON, and is none: {text[at:]}") from None
    found = _VALUE.match(text, at)
    if found is None:
        closed = "closes no quotes" if text[at : at + 1] in ('"', "'") else f"has no value; write {name}=VALUE"
        raise Mistake(f"{name} {closed}")
    value, end = found[0], found.end()
    if value[0] == '"':
        value = _ESCAPE.sub(r"\1", value[1:-1])
    elif value[0] == "'":
        value = value[1:-1]
    return value, end


@dataclass(slots=True)
class FieldReader:
    """Reads the fields of a short schema. It collects the mistakes, and where each part of the CRD is declared."""

    types: Mapping[str, Any]
    mistakes: list[tuple[FieldPath, str]] = field(default_factory=list)
    sources: dict[FieldPath, FieldPath] = field(default_factory=dict)
    """The field of the short schema by the part of the CRD that it declares."""
    _count: int = 0

    def fields(
        self, given: Any, at: FieldPath, place: FieldPath, within: tuple[str, ...] = (), *, in_list: bool = False
    ) -> dict[str, Any]:
        """The schema of a mapping of fields at a path of the short schema and at a place of the CRD; `within` are the
        types around it.
        """
        self.sources.setdefault(place, at)
        found: dict[str, Any] = {"type": "object", "properties": {}}
        if not isinstance(given, Mapping):
            self.mistakes.append((at, f"must be a mapping of fields; {FORM}"))
            return found
        required, rules = [], []
        for name, declared in given.items():
            schema, marked = self._field(declared, (*at, name), (*place, "properties", name), within, in_list)
            found["properties"][name] = schema
            if marked.get("required") == "true":
                required.append(name)
            elif marked.get("immutable") == "true" and "default" not in schema and _CEL_NAME.fullmatch(escaped(name)):
                own = escaped(name)
                rule = f"!has(oldSelf.{own}) || has(self.{own})"
                rules.append({"rule": rule, "message": f"{name} is immutable; it can't be removed"})
        if required:
            found["required"] = required
        if rules:
            found[RULES] = rules
        return found

    def _field(
        self, declared: Any, at: FieldPath, place: FieldPath, within: tuple[str, ...], in_list: bool
    ) -> tuple[dict[str, Any], Mapping[str, str]]:
        """The schema of a field, and its markers."""
        self.sources.setdefault(place, at)
        self._count += 1
        if self._count > _FIELD_LIMIT:
            if self._count == _FIELD_LIMIT + 1:
                self.mistakes.append((at, f"the schema has more than {_FIELD_LIMIT} fields; use object for some"))
            return {"type": "object", PRESERVED: True}, {}
        if isinstance(declared, Mapping):
            return _with_default(self.fields(declared, at, place, within, in_list=in_list)), {}
        if not isinstance(declared, str):
            self.mistakes.append((at, f"is no field; {FORM}"))
            return {"type": "object", PRESERVED: True}, {}
        kind, _, marks = declared.partition("|")
        try:
            marked = markers(marks)
            schema = self._type(kind.strip(), at, place, within, in_list)
            if marked.get("immutable") == "true" and in_list:
                raise Mistake("immutable can't be inside of a list, whose items have no identity; mark the list")
            _mark(schema, marked)
        except Mistake as mistake:
            message, form, trial = str(mistake), right_form(declared), FieldReader(self.types)
            if "|" in form and form != declared:
                trial._field(form, at, place, within, in_list)
                message = message if trial.mistakes else f"{message.partition('; ')[0]}; write {form}"
            self.mistakes.append((at, message))
            return {"type": "object", PRESERVED: True}, {}
        return schema, marked

    def _type(
        self, kind: str, at: FieldPath, place: FieldPath, within: tuple[str, ...], in_list: bool
    ) -> dict[str, Any]:
        """The schema of a type. Raises Mistake."""
        if kind.startswith("[]"):
            items = self._type(kind.removeprefix("[]").strip(), at, (*place, "items"), within, True)
            return {"type": "array", "items": items}
        if kind.startswith("map[string]"):
            inner = kind.removeprefix("map[string]").strip()
            value = self._type(inner, at, (*place, "additionalProperties"), within, in_list)
            return {"type": "object", "additionalProperties": value}
        if kind in within:
            circle = " -> ".join((*within[within.index(kind) :], kind))
            raise Mistake(f"the types refer to one another in a circle: {circle}; use object for one of them")
        if kind in self.types and kind not in TYPES:
            declared = self.types[kind]
            schema, _ = self._field(declared, ("types", kind), place, (*within, kind), in_list)
            return schema
        if kind == "object":
            return {"type": "object", PRESERVED: True}
        if kind in FORMS:
            return dict(FORMS[kind])
        if kind == "float":
            kind = "number"
        if kind in SCALARS:
            return {"type": kind}
        known = (*TYPES, *FORMS, *self.types)
        others = f'the types are {", ".join(known)}, "[]TYPE" for a list and "map[string]TYPE" for a mapping'
        other = _OTHER_WORDS.get(kind.lower())
        hint = f"did you mean {other}?" if other else did_you_mean(kind, known, others)
        raise Mistake(f"there is no type {kind}; {hint}" if kind else f"has no type; {FORM}")


def _with_default(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a mapping, with a default if its fields have some and none is required."""
    if not schema.get("required") and any("default" in each for each in schema["properties"].values()):
        schema["default"] = {}
    return schema


def innermost(schema: Any) -> Any:
    """The schema of the items of a list or the values of a mapping, however deep; of another field its own."""
    inner = schema.get("items") or schema.get("additionalProperties")
    return innermost(inner) if inner else schema


def _mark(schema: dict[str, Any], marked: Mapping[str, str]) -> None:
    """Add markers to the schema of a field. Raises Mistake."""
    for name in _FLAGS:
        if marked.get(name, "true") not in ("true", "false"):
            raise Mistake(f"{name} is {marked[name]}, and must be true or false")
    if marked.get("required") == "true":
        if "default" in marked:
            raise Mistake("is required, and has a default, so that it is never missing; remove one of them")
        schema.pop("default", None)
    item = innermost(schema)
    for name, text in marked.items():
        if name in _OF_TYPES:
            _limit(schema if "array" in _OF_TYPES[name] else item, name, text)
    _refuse_empty_ranges(schema, item)
    if "description" in marked:
        schema["description"] = marked["description"]
    if "default" in marked:
        schema["default"] = _parsed("default", marked["default"], schema)
    if marked.get("immutable") == "true":
        schema[RULES] = [*schema.get(RULES, ()), {"rule": UNCHANGED, "message": "is immutable"}]


def _refuse_empty_ranges(*schemas: Schema) -> None:
    """Raise Mistake if no value is within two limits."""
    for low, high in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        if any(low in each and high in each and each[low] > each[high] for each in schemas):
            raise Mistake(f"{low} is above {high}, so that no value is valid; correct one of them")


def _limit(schema: dict[str, Any], name: str, text: str) -> None:
    """Add a marker about the values to the schema that it is for. Raises Mistake."""
    kind = schema.get("type", "quantity")
    if kind not in _OF_TYPES[name]:
        raise Mistake(f"{name} is for {' or '.join(_OF_TYPES[name])}, and the type is {kind}; remove it")
    if name == "uniqueItems":
        if text == "true":
            if schema["items"].get("type") not in SCALARS:
                raise Mistake(f"uniqueItems is for lists of {', '.join(SCALARS)}; remove it")
            schema["x-kubernetes-list-type"] = "set"
    elif name == "enum":
        schema[name] = list(_options(text, kind))
    elif name == "pattern":
        if go_pattern(text) is None:
            raise Mistake(f"pattern is no regular expression of Go (RE2): {text}")
        schema[name] = text
    else:
        value = _parsed(name, text, {"type": "integer"} if name in _COUNTS else {"type": kind})
        if name in _COUNTS and value < 0:
            raise Mistake(f"{name} is {value}, and can't be negative")
        schema[name] = value


def _options(text: str, kind: str) -> Iterator[Any]:
    """The values of an enum: a list in JSON, or texts between commas. Raises Mistake."""
    if text.startswith("["):
        for value in msgspec.json.decode(text):
            if validate({"type": kind}, value).errors:
                raise Mistake(f"enum has {json.dumps(value)}, and each value must be {_EXAMPLES[kind]}")
            yield value
        return
    if re.search("[|;]", text):
        raise Mistake(f"enum is {text}, and commas separate its values; write them in JSON if they have other signs")
    for each in text.split(","):
        yield _parsed("enum", each.strip(), {"type": kind})


def _parsed(name: str, text: str, schema: Schema) -> Any:
    """The value that the text of a marker stands for, by the type of the schema. Raises Mistake."""
    kind = schema.get("type", "string")
    if kind == "string":
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if value is None or validate({"type": kind}, value).errors:
        raise Mistake(f"{name} has {text or 'an empty text'}, and must be {_EXAMPLES[kind]}")
    return value
