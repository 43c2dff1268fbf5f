"""Samples of whole objects of a CRD.

Promises:
- The same CRD gives the same sample.
- The API server accepts a sample object: where a rule (CEL) or an alternative (oneOf) refuses it, fields around the
  error are added, changed or left out until nothing does. What is left is named, with the API server's words.

How it works: `Sampler` makes a value from the schema alone. `sample_object` asks `new_object` what the API server says
of it. Of all changes near the first error it takes one that leaves fewer errors, and begins again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.json_schema import RULES, Schema, fields, part_schema, schema_at
from ssa_operator.objects.source_location import FieldPath, value_at, with_value
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.field_errors import ErrorType, FieldError
from ssa_operator.schema.new_object import BLOCKING, RULES_NOT_CHECKED, new_object
from ssa_operator.schema.pattern_text import matching_texts
from ssa_operator.schema.samples import TEXTS, Sampler, UnknownValueError, kind_of, left_out
from ssa_operator.schema.schema_validation import validate

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
    is_open = known is None or known.get("x-kubernetes-preserve-unknown-fields")
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
