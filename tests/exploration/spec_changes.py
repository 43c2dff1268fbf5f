"""Draws changes of a parent from its schema: valid ones, ones that the API server refuses, and ones that it accepts but
that make a child invalid.

Promises:
- The same parent, schema and chance give the same change.
- A number that a valid change draws is small: a change of `replicas` never starts a thousand pods.
- A change of metadata changes only the labels and annotations that the schema declares.
- Every change is an operation of a JSON patch (RFC 6902), as `kubectl patch --type=json` takes it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.source_location import FieldPath, field_text
from ssa_operator.schema.samples import TEXTS, Sampler, UnknownValueError, fits, smallest_number
from ssa_operator.schema.string_formats import go_pattern
from ssa_operator.schema.variants import SPECIAL
from tests.exploration.risky_values import risky_values

T = TypeVar("T")

REMOVED = object()
"""The value of a change that removes its field."""

SMALL = 10
"""The largest number that is drawn, unless the schema's minimum or the present value is larger."""

_NOT_CHANGED = frozenset({"apiVersion", "kind", "status"})
"""Fields of a parent that are no user's input."""

_DEPTH_LIMIT = 8

_TEXTS = ("b", "other", SPECIAL)
"""Strings beside the samples. A template that prints values as text breaks at the last one."""

_POSITION = re.compile("0|[1-9][0-9]{0,8}", re.ASCII)
"""A position of a list in a JSON pointer."""

_INVALID_TEXTS = ("", "!", "x" * 300)


class Chance(Protocol):
    """The source of draws; `random.Random` is one."""

    def choice(self, seq: Sequence[T], /) -> T:
        """One of these."""


class PatchError(ValueError):
    """A change that an object can't take, or a patch that no change stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecChange:
    """One changed field of a parent."""

    path: FieldPath
    value: Any = REMOVED

    def __str__(self) -> str:
        if self.value is REMOVED:
            return f"{field_text(self.path)} left out"
        return f"{field_text(self.path)}: {_shown(self.value)}"

    def data(self) -> dict[str, Any]:
        """The operation of a JSON patch."""
        pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.path)
        if self.value is REMOVED:
            return {"op": "remove", "path": pointer}
        return {"op": "replace" if isinstance(self.path[-1], int) else "add", "path": pointer, "value": self.value}

    @classmethod
    def of(cls, data: Any) -> SpecChange:
        """The change of an operation. Raises PatchError."""
        known = isinstance(data, Mapping) and data.get("op") in ("add", "remove", "replace")
        if not known or not str(data.get("path", "")).startswith("/"):
            raise PatchError("a step needs op (add, replace or remove) and a path such as /spec/replicas")
        if data["op"] != "remove" and "value" not in data:
            raise PatchError(f"the step {data['op']} {data['path']} needs a value")
        parts = [part.replace("~1", "/").replace("~0", "~") for part in str(data["path"])[1:].split("/")]
        path = tuple(int(part) if _POSITION.fullmatch(part) else part for part in parts)
        return cls(path=path, value=REMOVED if data["op"] == "remove" else data["value"])


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def changed(parent: Mapping[str, Any], change: SpecChange) -> dict[str, Any]:
    """The parent with a changed field. Raises PatchError if the parent lacks the mapping or list around the field."""
    found: dict[str, Any] = copy.deepcopy(dict(parent))
    inner: Any = found
    try:
        for part in change.path[:-1]:
            # A number may also be a key of a mapping: a JSON pointer doesn't say.
            inner = inner[str(part) if isinstance(inner, dict) else part]
        last: Any = change.path[-1]
        last = str(last) if isinstance(inner, dict) else last
        if change.value is REMOVED:
            del inner[last]
        else:
            inner[last] = copy.deepcopy(change.value)
    except (KeyError, IndexError, TypeError) as error:
        raise PatchError(f"there is no {field_text(change.path)} to change") from error
    return found


class _ChangeKind(StrEnum):
    """The intended kind of a drawn change."""

    VALID = "valid"
    RISKY = "risky"
    """The schema allows it, and Kubernetes may refuse the children."""
    INVALID = "invalid"
    """The schema refuses it."""


_DRAWN = (*[_ChangeKind.VALID] * 5, *[_ChangeKind.RISKY] * 3, *[_ChangeKind.INVALID] * 2)
"""Of ten changes, how many are meant to be of a kind."""


def draw_change(parent: Mapping[str, Any], schema: Schema, chance: Chance) -> SpecChange | None:
    """A change of a parent, None if the schema declares no field that can change."""
    fields = list(changeable_fields(parent, schema))
    for kind in dict.fromkeys((chance.choice(_DRAWN), *_ChangeKind)):
        options = [
            (path, values)
            for path, inner, before, required in fields
            if (values := _candidates(path, inner, before, required=required, kind=kind))
        ]
        if options:
            path, values = chance.choice(options)
            return SpecChange(path=path, value=chance.choice(values))
    return None


def changeable_fields(parent: Mapping[str, Any], schema: Schema) -> Iterator[tuple[FieldPath, Schema, Any, bool]]:
    """The fields that a user changes, as `_fields` gives them."""
    for name, inner in (schema.get("properties") or {}).items():
        if name in _NOT_CHANGED:
            continue
        if name != "metadata" and (inner.get("type") != "object" or inner.get("additionalProperties")):
            yield (name,), inner, parent.get(name), name in (schema.get("required") or ())
        for field in _fields(inner, (name,), parent.get(name), 0):
            if name != "metadata" or field[0][1:-1] in (("labels",), ("annotations",)):
                yield field


def _candidates(path: FieldPath, schema: Schema, before: Any, *, required: bool, kind: _ChangeKind) -> list[Any]:
    """The values that a field can have instead of the present one; REMOVED if it can be left out."""
    match kind:
        case _ChangeKind.VALID:
            found = [value for value in _valid_values(schema, before) if _differs(value, before)]
        case _ChangeKind.RISKY:
            name = next((part for part in reversed(path) if isinstance(part, str)), "")
            return list(risky_values(name, schema, before))
        case _ChangeKind.INVALID:
            found = [value for value in _invalid_values(schema) if _differs(value, before)]
    if before is not None and required is (kind is _ChangeKind.INVALID):
        found.append(REMOVED)
    return found


def _differs(value: Any, before: Any) -> bool:
    return type(value) is not type(before) or value != before


def _fields(schema: Schema, path: FieldPath, value: Any, depth: int) -> Iterator[tuple[FieldPath, Schema, Any, bool]]:
    """The fields below one that exist or can be added: path, schema, present value, and whether it is required."""
    if depth > _DEPTH_LIMIT:
        return
    if isinstance(value, Mapping):
        required = schema.get("required") or ()
        for name, inner in (schema.get("properties") or {}).items():
            yield (*path, name), inner, value.get(name), name in required
            yield from _fields(inner, (*path, name), value.get(name), depth + 1)
        additional = schema.get("additionalProperties")
        if not isinstance(additional, Mapping):
            return
        for name in sorted(value.keys() - (schema.get("properties") or {}).keys()):
            yield (*path, name), additional, value[name], False
            yield from _fields(additional, (*path, name), value[name], depth + 1)
    elif isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        for at, item in enumerate(value):
            yield (*path, at), items, item, True
            yield from _fields(items, (*path, at), item, depth + 1)


def _valid_values(schema: Schema, before: Any) -> Iterator[Any]:
    if schema.get("enum"):
        yield from schema["enum"]
        return
    if schema.get("x-kubernetes-int-or-string"):
        yield from (1, 2, "50%", "1Gi")
        return
    match schema.get("type"):
        case "boolean":
            yield from (False, True)
        case "integer" | "number":
            yield from _numbers(schema, before)
        case "string":
            default = (schema["default"],) if isinstance(schema.get("default"), str) else ()
            yield from (text for text in dict.fromkeys((*default, *TEXTS, *_TEXTS)) if fits(text, schema))
        case "array":
            yield from _lists(schema, before)
        case "object":
            yield from _mappings(schema)


def _numbers(schema: Schema, before: Any) -> Iterator[Any]:
    low = smallest_number(schema)
    high = schema.get("maximum", low + SMALL) - bool(schema.get("exclusiveMaximum"))
    near = (before - 1, before + 1) if isinstance(before, (int, float)) else ()
    # A maximum is drawn where it is small, too: it may be that of replicas.
    options = (low, low + 1, low + 2, *near, *((high,) if high <= SMALL else ()), schema.get("default"))
    limit = max(low, SMALL, before if isinstance(before, (int, float)) else 0)
    yield from dict.fromkeys(each for each in options if each is not None and low <= each <= min(high, limit))


def _lists(schema: Schema, before: Any) -> Iterator[Any]:
    fewest, most = schema.get("minItems", 0), schema.get("maxItems", SMALL)
    present = before if isinstance(before, list) else []
    items = schema.get("items") or {}
    if not fewest:
        yield []
    if len(present) > max(fewest, 1):
        yield present[:-1]
        yield present[1:]
        yield present[::-1]
    added = [*present, *_added_items(schema, items, present)]
    if len(present) < len(added) <= most:
        yield added


def _added_items(schema: Schema, items: Schema, present: Sequence[Any]) -> list[Any]:
    """One more item, with unique keys if the list needs them."""
    try:
        item = Sampler().value(items)
    except UnknownValueError:
        return []
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if isinstance(item, dict):
        for key in keys or [name for name in ("name",) if name in item]:
            inner = (items.get("properties") or {}).get(key) or {}
            taken = [each.get(key) for each in present if isinstance(each, Mapping)]
            free = [value for value in _valid_values(inner, None) if value not in taken]
            if not free:
                return []
            item = {**item, key: free[0]}
    elif schema.get("x-kubernetes-list-type") == "set" and item in present:
        free = [value for value in _valid_values(items, None) if value not in present]
        return free[:1]
    return [item]


def _mappings(schema: Schema) -> Iterator[Any]:
    try:
        yield Sampler().value(schema)
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            yield {"a": Sampler().value(additional)}
            yield {"a": Sampler().value(additional), "example.com/b": Sampler().value(additional)}
        full = {name: Sampler().value(inner) for name, inner in (schema.get("properties") or {}).items()}
    except UnknownValueError:
        return
    if full:
        yield full


def _invalid_values(schema: Schema) -> Iterator[Any]:
    """Values that the schema refuses."""
    kind = schema.get("type")
    yield {"string": 1, "array": "text", "object": "text"}.get(str(kind), ["text"])
    if schema.get("enum"):
        yield "NotListed"
    if kind in ("integer", "number"):
        if "minimum" in schema:
            yield schema["minimum"] - 1
        if "maximum" in schema:
            yield schema["maximum"] + 1
    if kind == "string" and not schema.get("enum"):
        yield from (text for text in _INVALID_TEXTS if not _allows(schema, text))
    if kind == "array" and schema.get("minItems"):
        yield []
    if kind == "object" and schema.get("properties"):
        yield {"unknownField": 1}


def _allows(schema: Schema, text: str) -> bool:
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text)):
        return False
    pattern = go_pattern(schema.get("pattern") or "")
    return pattern is None or pattern.search(text) is not None


def simpler(value: Any) -> Iterator[Any]:
    """Simpler values of the same type, the simplest first."""
    match value:
        case bool():
            return
        case int() if value not in (0, 1):
            yield from (0, 1) if value > 0 else (-1,)
        case str() if len(value) > 1:
            yield from ("a", value[: len(value) // 2], value[: len(value) - 1])
        case list() if value:
            yield []
            if len(value) > 1:
                yield from ([*value[:at], *value[at + 1 :]] for at in range(len(value)))
            yield from ([*value[:at], each, *value[at + 1 :]] for at, old in enumerate(value) for each in simpler(old))
        case dict() if value:
            yield {}
            if len(value) > 1:
                yield from ({name: value[name] for name in value if name != left} for left in value)
            yield from ({**value, name: each} for name, old in value.items() for each in simpler(old))
