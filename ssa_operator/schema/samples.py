"""Samples of the values that the schema of a CRD allows, and of whole objects.

Promises:
- The same schema gives the same sample.
- A field has its default, or else the first value that its schema allows: of its enum, of texts that occur in clusters,
  or of texts made from its pattern.
- A schema that preserves unknown fields gives an empty mapping.
- The API server accepts a sample object: where a rule (CEL) or an alternative (oneOf) refuses it, fields around the
  error are added, changed or left out until nothing does. What is left is named, with the API server's words.

How it works: `Sampler` makes a value from the schema alone. `sample_object` asks `new_object` what the API server says
of it. Of all changes near the first error it takes one that leaves fewer errors, and begins again.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.objects.json_schema import PRESERVED, RULES, Schema, fields, part_schema, schema_at
from ssa_operator.objects.source_location import FieldPath, value_at, with_value
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.field_errors import ErrorType, FieldError
from ssa_operator.schema.new_object import BLOCKING, RULES_NOT_CHECKED, new_object
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


_LIMIT = 4
"""Values of a field that are tried."""

_DEPTH = 3
"""Levels below an error at which fields are changed."""

_ROUNDS = 24
_TRIALS = 400
"""How many objects are validated for one sample."""
_TRIALS_OF_WHOLE = 40
_PAIRS = 24


class Sample(Struct, frozen=True, kw_only=True):
    """A sample object."""

    body: Mapping[str, Any]
    errors: tuple[FieldError, ...] = ()
    """Why the API server refuses it, because no value is known that it accepts."""


def sample_object(
    definition: Mapping[str, Any],
    version: str,
    metadata: Mapping[str, Any] | None = None,
    *,
    whole: bool = True,
    words: Mapping[str, Any] | None = None,
) -> Sample:
    """A sample of the objects of a CRD, without a status. With `whole`, it has every field if a valid object with all
    is found, otherwise the required ones. `words` are values of fields by name.
    """
    spec, known = definition["spec"], object_schema(definition, version)
    schema = known or {"type": "object"}
    properties = {key: each for key, each in fields(schema).items() if key not in _NOT_SAMPLED}
    is_open = known is None or known.get(PRESERVED)
    required = [name for name in schema.get("required") or () if name not in _NOT_SAMPLED]
    if "spec" in properties:
        required = [*required, "spec"] if "spec" not in required else required
    content = {**schema, "properties": properties, "required": required}
    own = {
        "apiVersion": f"{spec['group']}/{version}",
        "kind": spec["names"]["kind"],
        "metadata": {"name": "sample"} if metadata is None else dict(metadata),
    }
    missing: list[FieldPath] = []
    sampler = Sampler(whole=whole, words=words or {}, missing=missing)
    body = {**own, **({"spec": {}} if is_open else {}), **sampler.value(content)}
    repair = _Repair(definition, version, schema, Sampler(words=words or {}), _TRIALS_OF_WHOLE if whole else _TRIALS)
    found = repair.repaired(body, missing)
    if found.errors and whole:
        least = sample_object(definition, version, metadata, whole=False, words=words)
        return least if len(least.errors) < len(found.errors) else found
    return found


_NOT_SAMPLED = ("apiVersion", "kind", "metadata", "status")

_LITERAL = re.compile(r"'([^']{1,200})'|\"([^\"]{1,200})\"")


class _Repair:
    """Changes an object until the API server accepts it."""

    def __init__(
        self, definition: Mapping[str, Any], version: str, schema: Schema, sampler: Sampler, trials: int
    ) -> None:
        self._definition = definition
        self._version = version
        self._schema = schema
        self._sampler = sampler
        self._trials = trials

    def repaired(self, body: dict[str, Any], missing: Sequence[FieldPath]) -> Sample:
        """The object with as few errors as are known. The fields `missing` stay missing."""
        errors = self._errors(body)
        for _ in range(_ROUNDS):
            better = self._better(body, errors) if _score(errors) > (len(missing), len(missing)) else None
            if better is None:
                break
            body, errors = better
        return Sample(
            body=body, errors=tuple(each for each in map(self._explained, errors) if each != RULES_NOT_CHECKED)
        )

    def _explained(self, error: FieldError) -> FieldError:
        """The error of a missing field, with the API server's words for a value of its type in place of "required"."""
        if error.type is not ErrorType.REQUIRED:
            return error
        schema = schema_at(self._schema, error.path) or {}
        tried = TEXTS[0] if kind_of(schema) == "string" else 1
        return next(iter(validate(schema, tried, error.path).errors), error)

    def _errors(self, body: Mapping[str, Any]) -> list[FieldError]:
        self._trials -= 1
        return list(new_object(body, self._definition, self._version).errors)

    def _better(
        self, body: dict[str, Any], errors: Sequence[FieldError]
    ) -> tuple[dict[str, Any], list[FieldError]] | None:
        """The object with a change that leaves fewer errors, None if none is known."""
        before = _score(errors)
        tried: list[tuple[dict[str, Any], list[FieldError]]] = []
        for changed in self._changes(body, errors):
            if self._trials < 0:
                return None
            found = self._errors(changed)
            if _score(found) < before:
                return changed, found
            if _score(found) == before and len(tried) < _PAIRS:
                tried.append((changed, found))
        for changed, found in tried:
            for again in itertools.islice(self._changes(changed, found), _PAIRS):
                if self._trials < 0:
                    return None
                last = self._errors(again)
                if _score(last) < before:
                    return again, last
        return None

    def _changes(self, body: dict[str, Any], errors: Sequence[FieldError]) -> Iterator[dict[str, Any]]:
        """The object with one change near an error, nearest first."""
        for error in errors:
            path = error.path
            for up in range(min(len(path), 2) + 1):
                at = path[: len(path) - up]
                yield from self._changes_at(body, at)

    def _changes_at(self, body: dict[str, Any], path: FieldPath) -> Iterator[dict[str, Any]]:
        schema, texts = self._schema, list(_literals(self._schema))
        for part in path:
            schema = part_schema(schema, part) or {}
            texts += _literals(schema)
        if not path or path[0] == "metadata":
            for text in texts:
                for name in (text, *matching_texts(text)[:_LIMIT]):
                    yield {**body, "metadata": {**body["metadata"], "name": name}}
            if path:
                return
        for inner, value in self._values(schema, value_at(body, path), path, texts, 0):
            changed = _changed(body, inner, value)
            if changed is not None:
                yield changed

    def _values(
        self, schema: Schema, value: Any, path: FieldPath, texts: Sequence[str], depth: int
    ) -> Iterator[tuple[FieldPath, Any]]:
        """Other values of a field and of those below it; `_GONE` leaves one out."""
        texts = [*texts, *_literals(schema)]
        kind = kind_of(schema)
        if kind == "object":
            present = value if isinstance(value, Mapping) else {}
            yield from self._fields(schema, present, path, texts, depth)
            if depth == 0 and path:
                for every in itertools.islice(self._some(schema, "", texts), 1, None):
                    yield path, {**every, **present}
            if isinstance(additional := schema.get("additionalProperties"), Mapping):
                for key in ("example", *(text for text in texts if len(text) < _KEY_LIMIT)):
                    yield from (((*path, key), found) for found in self._some(additional, key, texts, 1))
        elif kind == "array":
            yield from self._lists(schema.get("items") or {}, value, path, texts, depth)
        else:
            yield from ((path, each) for each in self._some(schema, str(path[-1]) if path else "", texts, 2 * _LIMIT))

    def _fields(
        self, schema: Schema, present: Mapping[str, Any], path: FieldPath, texts: Sequence[str], depth: int
    ) -> Iterator[tuple[FieldPath, Any]]:
        required = schema.get("required") or ()
        known = {key: each for key, each in fields(schema).items() if path or key not in _NOT_SAMPLED}
        for key, each in known.items():
            if key not in present:
                yield from (((*path, key), found) for found in self._some(each, key, texts))
        for key, each in known.items():
            if key in present:
                if depth < _DEPTH:
                    yield from self._values(each, present[key], (*path, key), texts, depth + 1)
                if key not in required and (path or key != "spec"):
                    yield (*path, key), _GONE

    def _lists(
        self, items: Schema, value: Any, path: FieldPath, texts: Sequence[str], depth: int
    ) -> Iterator[tuple[FieldPath, Any]]:
        if isinstance(value, list):
            for at, item in enumerate(value[:2] if depth < _DEPTH else ()):
                yield from self._values(items, item, (*path, at), texts, depth + 1)
            yield from ((path, value[:at]) for at in range(len(value)))
        for count in (1, 2, 3):
            try:
                yield path, [self._sampler.value(items, nth=each) for each in range(count)]
            except UnknownValueError:
                return

    def _some(self, schema: Schema, name: str, texts: Sequence[str], limit: int = _LIMIT) -> Iterator[Any]:
        """Values of a field that the object doesn't have."""
        if kind_of(schema) in ("object", "array"):
            for sampler in (self._sampler, Sampler(whole=True, words=self._sampler.words)):
                try:
                    yield sampler.value(schema, name)
                except UnknownValueError:
                    return
            return
        found = [text for each in texts for text in (each, *matching_texts(each)[:2])]
        literals = [each for each in self._sampler.values(schema, name, found) if each in found]
        yield from literals[:limit]
        yield from itertools.islice(self._sampler.values(schema, name), limit)


_GONE: Any = object()
_KEY_LIMIT = 64


def _score(errors: Sequence[FieldError]) -> tuple[int, int]:
    return sum(error.type in BLOCKING for error in errors), len(errors)


def _literals(schema: Schema) -> Iterator[str]:
    """The texts in the rules of a schema."""
    for rule in schema.get(RULES) or ():
        for found in _LITERAL.finditer(str(rule.get("rule"))):
            yield (found[1] or found[2]).replace("\\\\", "\\")


def _changed(body: dict[str, Any], path: FieldPath, value: Any) -> dict[str, Any] | None:
    """An object with another value of a field; None if there is nothing to change."""
    around, last = value_at(body, path[:-1]), path[-1] if path else None
    if isinstance(around, dict) and value is _GONE:
        return dict(left_out(body, path))
    is_item = isinstance(around, list) and isinstance(last, int) and last < len(around)
    return dict(with_value(body, path, value)) if path and (isinstance(around, dict) or is_item) else None
