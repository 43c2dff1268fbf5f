"""Samples of the values that the schema of a CRD allows.

Promises:
- The same schema gives the same sample.
- A field has its default, or else the first value that its schema allows: of its enum, of texts that occur in clusters,
  or of texts made from its pattern.
- A schema that preserves unknown fields gives an empty mapping.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.objects.json_schema import Schema, fields
from ssa_operator.objects.source_location import FieldPath, value_at, with_value
from ssa_operator.schema.pattern_text import matching_texts
from ssa_operator.schema.schema_validation import validate

TEXTS = (
    "example", "example.com", "https://example.com", "example.com/example", "/example", "a", "1", "1Gi", "10m", "5s",
    "EXAMPLE", "0" * 32, "0/1", "v1", "1.0", "1.0.0", "2026-01-31T12:00:00Z", "2026-01-31", "10.0.0.0/8", "192.0.2.1",
    "2001:db8::1", "2001:db8::/32", "ZXhhbXBsZQ==", "* * * * *", "a@example.com", "", "00:00:5e:00:53:01", "#000000",
    "0b5c3c52-6d5b-4d0f-9f5e-3d7a2f1c0e11", "example/example", "50%", "rgb(0,0,0)",
    "example:example", "978-3-16-148410-0", "3fa85f64-5717-3562-b3fc-2c963f66afa6", "000-00-0000", "example.com/v1",
    "2ed6657d-e927-568b-95e1-2665a8aea6a2", "0" * 24, "abcdefghijklmnop",
)  # fmt: skip
"""Texts of the kinds that occur in clusters; the first that fits a field is taken."""

_DEPTH_LIMIT = 12
_EMBEDDED: Mapping[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "example"}}


class UnknownValueError(Exception):
    """No value is known that the schema allows."""


def smallest_number(schema: Schema) -> Any:
    """The smallest number that a schema allows, 0 if it names none."""
    minimum = schema.get("minimum", 0 if schema.get("maximum", 0) >= 0 else schema["maximum"])
    return minimum + bool(schema.get("exclusiveMinimum"))


def left_out(body: Mapping[str, Any], path: FieldPath) -> Any:
    """An object without a field that it has."""
    around = value_at(body, path[:-1])
    if isinstance(around, list):
        return with_value(body, path[:-1], [item for at, item in enumerate(around) if at != path[-1]])
    return with_value(body, path[:-1], {key: each for key, each in around.items() if key != path[-1]})


def fits(text: str, schema: Schema) -> bool:
    """Whether a schema of strings allows a text."""
    return _allows({"type": "string", **schema}, text)


def _allows(schema: Schema, value: Any) -> bool:
    """Whether a schema allows a value, as far as it can be checked."""
    found = validate(schema, value)
    return not found.errors and not found.unchecked


class Sampler(Struct, frozen=True, kw_only=True):
    """Makes values that schemas allow."""

    whole: bool = False
    """Whether mappings have all fields, or the required ones only."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """Values of fields by name, where the schema allows them."""
    missing: list[FieldPath] | None = None
    """Collects the required fields without a known value; None raises UnknownValueError."""

    def value(self, schema: Schema, name: str = "", *, nth: int = 0, path: FieldPath = ()) -> Any:
        """The value of a field with a name. `nth` differs where a list needs different items. Raises
        UnknownValueError.
        """
        if schema.get("default") not in (None, {}) and not nth:
            return copy.deepcopy(schema["default"])
        kind = kind_of(schema)
        if kind == "object":
            return self._mapping(schema, name, nth, path)
        if kind == "array":
            return self._list(schema, name, path)
        found = next(itertools.islice(self.values(schema, name), nth, None), None)
        if found is None:
            raise UnknownValueError
        return found

    def values(self, schema: Schema, name: str = "", more: Sequence[str] = ()) -> Iterator[Any]:
        """The values of a scalar field, first those of `more`."""
        seen: list[Any] = []
        for each in itertools.chain(more, self._scalars(schema, name)):
            if not _is_in(each, seen) and _allows(schema, each):
                seen.append(each)
                yield each

    def _scalars(self, schema: Schema, name: str) -> Iterator[Any]:
        enums = [each["enum"] for each in _parts(schema) if each.get("enum")]
        if enums:
            yield from itertools.chain.from_iterable(enums)
            return
        if name in self.words:
            yield self.words[name]
        kind = kind_of(schema)
        if kind == "boolean":
            yield from (True, False)
        elif kind in ("integer", "number") or schema.get("x-kubernetes-int-or-string"):
            if schema.get("x-kubernetes-int-or-string") and "pattern" in schema:
                yield "1Gi"
            yield from _numbers(schema)
        if kind in ("string", ""):
            yield from TEXTS
            patterns = [each["pattern"] for each in _parts(schema) if each.get("pattern")]
            yield from itertools.chain.from_iterable(map(matching_texts, patterns))
            lengths = [each["minLength"] for each in _parts(schema) if each.get("minLength")]
            yield from ("x" * length for length in lengths if length <= _LONGEST)

    def _list(self, schema: Schema, name: str, path: FieldPath) -> list[Any]:
        least, items = schema.get("minItems", 0), schema.get("items") or {}
        if schema.get("maxItems") == 0:
            return []
        inner = replace(self, missing=self.missing if least else None)
        try:
            return [inner.value(items, name, nth=at, path=(*path, at)) for at in range(min(max(least, 1), _LONGEST))]
        except UnknownValueError:
            if least:
                raise
            return []

    def _mapping(self, schema: Schema, name: str, nth: int, path: FieldPath) -> dict[str, Any]:
        branches = [*_branches(schema)]
        if self.missing is not None and len(branches) > 1:
            try:
                return dict(replace(self, missing=None).value({**schema, "type": "object"}, name, nth=nth, path=path))
            except UnknownValueError:
                return self._fields(branches[0], name, nth, path)
        for last, branch in enumerate(branches, 1 - len(branches)):
            try:
                found = self._fields(branch, name, nth, path)
            except UnknownValueError:
                if last == 0:
                    raise
                continue
            if last == 0 or not validate(schema, found).errors:
                return found
        return self._fields(schema, name, nth, path)

    def _fields(self, schema: Schema, name: str, nth: int, path: FieldPath) -> dict[str, Any]:
        properties, required = fields(schema), schema.get("required") or ()
        additional = schema.get("additionalProperties")
        found: dict[str, Any] = {}
        if schema.get("x-kubernetes-embedded-resource"):
            found = copy.deepcopy(dict(_EMBEDDED))
        whole = self.whole and len(path) <= _DEPTH_LIMIT
        for key in dict.fromkeys((*properties, *required)):
            if key not in found and (whole or key in required):
                part = properties.get(key, additional if isinstance(additional, Mapping) else {})
                try:
                    found[key] = self.value(part, key, nth=nth if _varies(part) else 0, path=(*path, key))
                except UnknownValueError:
                    if key in required and self.missing is None:
                        raise
                    if key in required and self.missing is not None:
                        self.missing.append((*path, key))
        for key in properties:
            if key not in found and len(found) < schema.get("minProperties", 0):
                found[key] = self.value(properties[key], key, path=(*path, key))
        if isinstance(additional, Mapping) or additional is True:
            part = additional if isinstance(additional, Mapping) else {"type": "string"}
            wanted = max(schema.get("minProperties", 0), int(whole and "maxProperties" not in schema))
            for key in _keys(name, wanted - len(found)):
                found[key] = self.value(part, key, path=(*path, key))
        return found


def _keys(name: str, count: int) -> Iterator[str]:
    """Keys of a mapping with a name, whose keys the user chooses."""
    keys = ("memory", "cpu") if name in ("limits", "requests") else ("example",)
    return itertools.islice((*keys, *"abcdefghi"), max(count, 0))


_LONGEST = 100


def kind_of(schema: Schema) -> str:
    """The type of a schema's values; '' for a number or a text."""
    if schema.get("x-kubernetes-int-or-string"):
        return ""
    if "type" in schema:
        return str(schema["type"])
    scalar = {"enum", "pattern", "format", "minLength", "maxLength"} & schema.keys()
    return "string" if scalar else "array" if "items" in schema else "object"


def _varies(schema: Schema) -> bool:
    return kind_of(schema) in ("string", "integer", "number", "") and len(schema.get("enum") or (1, 2)) > 1


def _is_in(value: Any, values: Sequence[Any]) -> bool:
    return any(type(each) is type(value) and each == value for each in values)


def _parts(schema: Schema) -> Iterator[Schema]:
    """A schema and those that it is combined of."""
    yield schema
    for word in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(word) or ():
            yield from _parts(each)


def _numbers(schema: Schema) -> Iterator[Any]:
    parts = [*_parts(schema)]
    yield 1
    for each in parts:
        yield smallest_number(each)
        factor = each.get("multipleOf")
        if factor:
            yield factor
            yield -(-smallest_number(each) // factor) * factor
        if "maximum" in each:
            yield each["maximum"] - bool(each.get("exclusiveMaximum"))
    yield from (2, 3, 8080, 0, 0.5)


_COMBINED = ("allOf", "anyOf", "oneOf")


def _branches(schema: Schema) -> Iterator[Schema]:
    """The schemas of a mapping, one for each alternative, with what the alternative says."""
    merged = {key: value for key, value in schema.items() if key not in _COMBINED}
    for each in schema.get("allOf") or ():
        merged = _merged(merged, each)
    choices = [schema[word] for word in ("oneOf", "anyOf") if schema.get(word)]
    for chosen in itertools.islice(itertools.product(*choices), 16):
        found = merged
        for each in chosen:
            inner = next(_branches(each))
            found = _merged(found, inner)
        others = {name for options in choices for each in options for name in each.get("required") or ()}
        unwanted = others - set(found.get("required") or ())
        properties = fields(found)
        yield {**found, "properties": {name: each for name, each in properties.items() if name not in unwanted}}


def _merged(schema: Schema, other: Schema) -> dict[str, Any]:
    """The schema of what both allow, as far as samples need it."""
    found = {**schema, **{key: value for key, value in other.items() if key not in ("properties", "required", "not")}}
    if isinstance(schema.get("items"), Mapping) and isinstance(other.get("items"), Mapping):
        found["items"] = _merged(schema["items"], other["items"])
    properties = dict(fields(schema))
    for name, each in fields(other).items():
        properties[name] = _merged(properties[name], each) if name in properties else each
    if properties:
        found["properties"] = properties
    required = dict.fromkeys((*(schema.get("required") or ()), *(other.get("required") or ())))
    return {**found, "required": list(required)} if required else found
