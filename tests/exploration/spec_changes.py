"""The changes of a parent that its schema suggests: valid ones, ones that the API server refuses, and ones that it
accepts but that may make a child invalid.

Promises:
- The same parent and schema give the same changes in the same order.
- No change starts many pods: numbers are small.
- Of the metadata, only labels and annotations change that the schema declares.
- Every risky value is valid by the schema of its field. Risky values depend only on the field's name, its type and its
  present value, so that they exist for every CRD.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.source_location import FieldPath, with_value
from ssa_operator.schema.samples import TEXTS, Sampler, UnknownValueError, fits, left_out, smallest_number
from ssa_operator.schema.schema_validation import validate, validate_lists
from ssa_operator.schema.string_formats import go_pattern
from ssa_operator.schema.variants import SPECIAL


class Absent(Enum):
    """The value of a change that removes its field."""

    REMOVED = "left out"


REMOVED = Absent.REMOVED

SMALL = 10
"""The largest number of a valid change, unless the schema's minimum or the present value is larger."""

_NOT_CHANGED = frozenset({"apiVersion", "kind", "status"})
"""Fields of a parent that are no user's input."""

_DEPTH_LIMIT = 9

_TEXTS = ("b", "other", SPECIAL)
"""Strings beside the samples. A template that prints values as text breaks at the last one."""

_INVALID_TEXTS = ("", "!", "x" * 300)


class ChangeKind(StrEnum):
    """What the API server is expected to do with a change."""

    VALID = "valid"
    RISKY = "risky"
    """The schema allows it, and Kubernetes may refuse the children."""
    INVALID = "invalid"
    """The schema refuses it."""


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One changed field of a parent."""

    path: FieldPath
    value: Any = REMOVED

    def applied_to(self, parent: Mapping[str, Any]) -> dict[str, Any]:
        """The parent with the changed field."""
        changed = left_out(parent, self.path) if self.value is REMOVED else with_value(parent, self.path, self.value)
        return dict(changed)


class Field(NamedTuple):
    """A field that exists, or that can be added where it belongs."""

    path: FieldPath
    schema: Schema
    before: Any
    """The present value, None without one."""
    required: bool


def changes(parent: Mapping[str, Any], schema: Schema, kind: ChangeKind) -> list[SpecChange]:
    """The changes of a kind."""
    return [
        SpecChange(field.path, value)
        for field in changeable_fields(parent, schema)
        for value in _new_values(field, kind)
        if type(value) is not type(field.before) or value != field.before
    ]


def changeable_fields(parent: Mapping[str, Any], schema: Schema) -> Iterator[Field]:
    """The fields that a user changes."""
    for name, inner in (schema.get("properties") or {}).items():
        if name in _NOT_CHANGED:
            continue
        if name != "metadata" and (inner.get("type") != "object" or inner.get("additionalProperties")):
            yield Field((name,), inner, parent.get(name), name in (schema.get("required") or ()))
        for field in _fields(inner, (name,), parent.get(name)):
            if name != "metadata" or field.path[1:-1] in (("labels",), ("annotations",)):
                yield field


def _fields(schema: Schema, path: FieldPath, value: Any) -> Iterator[Field]:
    """The fields below one that exist or can be added."""
    if len(path) > _DEPTH_LIMIT:
        return
    below: list[Field] = []
    if isinstance(value, Mapping):
        declared, required = schema.get("properties") or {}, schema.get("required") or ()
        below += [Field((*path, name), inner, value.get(name), name in required) for name, inner in declared.items()]
        if isinstance(additional := schema.get("additionalProperties"), Mapping):
            more = sorted(value.keys() - declared.keys())
            below += [Field((*path, name), additional, value[name], required=False) for name in more]
    elif isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        below += [Field((*path, at), items, item, required=True) for at, item in enumerate(value)]
    for field in below:
        yield field
        yield from _fields(field.schema, field.path, field.before)


def _new_values(field: Field, kind: ChangeKind) -> Iterator[Any]:
    """The values that a field can have instead of the present one."""
    if field.before is not None and kind is not ChangeKind.RISKY and field.required is (kind is ChangeKind.INVALID):
        yield REMOVED
    match kind:
        case ChangeKind.VALID:
            yield from _valid_values(field.schema, field.before)
        case ChangeKind.RISKY:
            yield from risky_values(next(part for part in reversed(field.path) if isinstance(part, str)), field)
        case ChangeKind.INVALID:
            yield from _invalid_values(field.schema)


# Valid values.


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
    # A maximum counts where it is small, too: it may be that of replicas.
    options = (low, low + 1, low + 2, *near, *((high,) if high <= SMALL else ()), schema.get("default"))
    limit = max(low, SMALL, before if isinstance(before, (int, float)) else 0)
    yield from dict.fromkeys(each for each in options if each is not None and low <= each <= min(high, limit))


def _lists(schema: Schema, before: Any) -> Iterator[Any]:
    fewest, most = schema.get("minItems", 0), schema.get("maxItems", SMALL)
    present = before if isinstance(before, list) else []
    if not fewest:
        yield []
    if len(present) > max(fewest, 1):
        yield from (present[:-1], present[1:], present[::-1])
    added = [*present, *_added_items(schema, schema.get("items") or {}, present)]
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
        return [value for value in _valid_values(items, None) if value not in present][:1]
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


# Invalid values.


def _invalid_values(schema: Schema) -> Iterator[Any]:
    """Values that the schema refuses."""
    kind = schema.get("type")
    yield {"string": 1, "array": "text", "object": "text"}.get(str(kind), ["text"])
    if schema.get("enum"):
        yield "NotListed"
    if kind in ("integer", "number"):
        yield from (schema[limit] + by for limit, by in (("minimum", -1), ("maximum", 1)) if limit in schema)
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


# Risky values.

_LABEL_LIMIT = 63
_NAME_LIMIT = 253

_NO_NAMES = ("Not A Name", "a_b", "-a", "x" * (_LABEL_LIMIT + 1), "x" * (_NAME_LIMIT + 1))
"""Texts for a field whose name has no known meaning: none is a valid name of an object, and most are not valid label
values.
"""

_RISKS: tuple[tuple[str, tuple[str | int, ...]], ...] = (
    ("image", (" image",)),
    ("port", (65_536, 70_000, "70000", "no-such-port-at-all", "1-")),
    (
        "capacity cpu disk limit memory quota request size storage",
        ("1x", "-1Gi", "1 Gi", "1Ki", "1Gi", "2Gi", "1.5.5"),
    ),
    ("cron schedule", ("* * *", "61 * * * *", "@sometimes")),
    ("domain host hostname ip url", ("-.example.com", "256.1.1.1", "*")),
    ("directory mount path", ("a:b", "../a", "a", "/a/../b")),
    ("policy protocol strategy type", ("Unknown", "NoSuchValue")),
    ("cidr subnet", ("10.0.0.0", "10.0.0.0/99")),
    ("key env variable", ("a=b", "1a", "a b")),
    ("interval period second timeout", ("5", "5 parsecs", "-5s")),
    ("percent surge unavailable", (101, "-1%", "150%", "5%%")),
    ("gid group uid user", (2**31,)),
    ("priority", (2_000_000_000,)),
)
"""What Kubernetes often refuses in fields whose names have one of these words."""

_NUMBERS = (-1, 0)

_WORD = re.compile(r"[A-Z]{1,64}(?![a-z])|[A-Z]?[a-z]+")

_MAPPINGS: tuple[Mapping[str, str], ...] = (
    {"a": "x" * (_LABEL_LIMIT + 1)},
    {"a": "not a value!"},
    {"not a key!": "b"},
    {"x" * (_LABEL_LIMIT + 1): "b"},
    {"a/b/c": "d"},
)
"""No labels, and often no keys of a ConfigMap either."""


def risky_values(name: str, field: Field) -> Iterator[Any]:
    """The risky values of a field with a name."""
    schema = field.schema
    for value in () if schema.get("enum") else _risky_values(name, schema, field.before):
        if not validate(schema, value).errors and not validate_lists(schema, value):
            yield value


def _risky_values(name: str, schema: Schema, before: Any) -> Iterator[Any]:
    words = {word.lower() for word in _WORD.findall(name)}
    words |= {word.removesuffix("s") for word in words}
    risks = [value for known, values in _RISKS if words & set(known.split()) for value in values]
    numbers = [*(value for value in risks if isinstance(value, int)), *_NUMBERS]
    texts = ["", *([value for value in risks if isinstance(value, str)] or _NO_NAMES)]
    if schema.get("x-kubernetes-int-or-string"):
        yield from (*numbers, *texts)
        return
    match schema.get("type"):
        case "integer" | "number":
            yield from numbers
        case "string":
            yield from texts
        case "object" if isinstance(schema.get("additionalProperties"), Mapping):
            present = before if isinstance(before, Mapping) else {}
            yield from ({**present, **more} for more in _MAPPINGS)
        case "array" if isinstance(before, list) and before:
            yield [*before, before[0]]
            if isinstance(before[0], Mapping) and "name" in before[0] and len(before[0]) > 1:
                yield [*before, {"name": before[0]["name"]}]
