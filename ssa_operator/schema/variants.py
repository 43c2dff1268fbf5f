"""Variants of a parent that its CRD allows, each with one field changed, to find what a template doesn't expect.

Promises:
- The same parent and the same schema give the same variants, in the same order, and at most `limit` of them.
- The first variants leave out optional fields. The others give a field its smallest and largest value, each value that
  its schema lists, an empty value, or a string of special characters, where the schema allows them.
- A value fits the keywords of its field's schema. A field whose pattern fits no known string is left as it is.
- Every risky value is valid by the schema of its field, and Kubernetes may refuse it in the children that use it. The
  risky values depend only on the field's name, its type, and its present value, so that they exist for every CRD.
- No risky number is one that starts many pods. What a CRD has copied of Kubernetes (selectors, affinities, tolerations,
  references) is left out at most: Kubernetes refuses other values of it than the CRD does.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec import Struct

from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.source_location import FieldPath, field_text
from ssa_operator.schema.data import built_in_schemas
from ssa_operator.schema.samples import Sampler, UnknownValueError, fits, smallest_number
from ssa_operator.schema.schema_validation import validate, validate_lists

LIMIT = 48
"""Variants of one parent."""

SPECIAL = "'\"{{ spec }}: &a *b # {% x %}\n- é\U0001f4a5\\"
"""A string that would break templates which print values as YAML."""

_DEPTH_LIMIT = 8
_INTEGER = 2**31 - 1


_ANY_TEXT = {"a string of special characters": SPECIAL, "an empty string": ""}


class Variant(Struct, frozen=True, kw_only=True):
    """A parent with one changed field."""

    field: FieldPath
    change: str
    """What its value is, to follow the field's name: left out, 0."""
    body: Mapping[str, Any]
    unlimited: bool = False
    """Whether the value is a large number, because the schema has no maximum."""
    any_text: bool = False
    """Whether the value is a text that no name may be, because the schema allows any text."""

    def __str__(self) -> str:
        return f"{field_text(self.field)} {self.change}"


def variants(
    parent: Mapping[str, Any],
    schema: Schema,
    allowed: Callable[[Mapping[str, Any]], bool] = lambda _: True,
    limit: int = LIMIT,
) -> list[Variant]:
    """The variants of a parent's spec; `allowed` is whether the API server accepts a parent."""
    spec = (schema.get("properties") or {}).get("spec")
    if not isinstance(spec, Mapping):
        return []
    fields = list(_fields(spec, ("spec",), parent.get("spec"), 0))
    left_out = [
        Variant(field=path, change="left out", body=_without(parent, path))
        for path, _, value, optional in fields
        if optional and value is not None
    ]
    # One change of each field before the second of any: no field takes all of the room.
    changes = [
        [(path, change, value) for change, value in _values(each) if value != before]
        for path, each, before, _ in fields
    ]
    ordered = (each for round_ in itertools.zip_longest(*changes) for each in round_ if each is not None)
    changed = (
        Variant(
            field=path, change=change, body=body, unlimited=value == _INTEGER, any_text=_ANY_TEXT.get(change) == value
        )
        for path, change, value in ordered
        if (body := _with(parent, schema, path, value)) is not None
    )
    found = (each for each in itertools.chain(left_out, changed) if allowed(each.body))
    return list(itertools.islice(found, limit))


def _fields(schema: Schema, path: FieldPath, value: Any, depth: int) -> Iterator[tuple[FieldPath, Schema, Any, bool]]:
    """The fields below a field: path, schema, the parent's value, and whether it is optional."""
    required = schema.get("required") or ()
    for name, inner in (schema.get("properties") or {}).items():
        own = value.get(name) if isinstance(value, Mapping) else None
        copied = _is_of_kubernetes(inner)
        yield (*path, name), {} if copied else inner, own, name not in required
        if depth < _DEPTH_LIMIT and not copied:
            yield from _fields(inner, (*path, name), own, depth + 1)
    items = schema.get("items")
    if isinstance(items, Mapping) and depth < _DEPTH_LIMIT and not _is_of_kubernetes(items):
        own = value[0] if isinstance(value, list) and value else None
        yield (*path, 0), items, own, False
        yield from _fields(items, (*path, 0), own, depth + 1)


def _is_of_kubernetes(schema: Schema) -> bool:
    """Whether an object has exactly the fields of one of Kubernetes' own types, as a selector or an affinity."""
    names = frozenset(schema.get("properties") or ())
    return len(names) > 1 and names in _types()


@cache
def _types() -> frozenset[frozenset[str]]:
    return frozenset(frozenset(each.get("properties") or ()) for each in built_in_schemas().types.values())


# Values.


def _values(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Values that a schema allows, each with its description."""
    if schema.get("enum"):
        yield from ((repr(value) if value == "" else str(value), value) for value in schema["enum"])
        return
    if schema.get("x-kubernetes-int-or-string"):
        return
    match schema.get("type"):
        case "boolean":
            yield from (("false", False), ("true", True))
        case "integer" | "number":
            for value in (smallest_number(schema), _largest(schema)):
                yield str(value), value
        case "string":
            yield from ((change, text) for change, text in _ANY_TEXT.items() if fits(text, schema))
        case "array" if not schema.get("minItems"):
            yield "an empty list", []
        case "object" if not schema.get("required") and not schema.get("minProperties"):
            yield "an empty mapping", {}


def _largest(schema: Schema) -> Any:
    return schema.get("maximum", max(_INTEGER, smallest_number(schema))) - bool(schema.get("exclusiveMaximum"))


# Changes.


def _without(parent: Mapping[str, Any], path: FieldPath) -> Mapping[str, Any]:
    found: Any = copy.deepcopy(dict(parent))
    inner = found
    for part in path[:-1]:
        inner = inner[part]
    del inner[path[-1]]
    return dict(found)


def _with(parent: Mapping[str, Any], schema: Schema, path: FieldPath, value: Any) -> Mapping[str, Any] | None:
    """The parent with a field, and the least of what must be around it; None if that is not known."""
    found: Any = copy.deepcopy(dict(parent))
    inner: Any = found
    part: Any
    try:
        for at, part in enumerate(path):
            schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
            last = at == len(path) - 1
            if isinstance(part, int) is not isinstance(inner, list):
                return None  # the schema says `items` of a mapping
            if isinstance(part, int) and len(inner) <= part:
                inner.append(None)
            known = inner[part] if isinstance(part, int) else inner.get(part)
            if last:
                inner[part] = copy.deepcopy(value)
            elif known is None:
                inner[part] = Sampler().value(schema)
            inner = inner[part]
    except UnknownValueError:
        return None
    return dict(found)


_LABEL_LIMIT = 63
_NAME_LIMIT = 253

_TEXTS = ("", "Not A Name", "a_b", "-a", "x" * (_LABEL_LIMIT + 1), "x" * (_NAME_LIMIT + 1))
"""Texts for a field whose name has no known meaning: none is a valid name of an object, and most are not valid label
values.
"""

_NUMBERS = (-1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FieldRisk:
    """What Kubernetes often refuses in fields whose names have one of these words."""

    words: frozenset[str]
    texts: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


_RISKS = (
    _FieldRisk(words=frozenset({"image"}), texts=(" image",)),
    _FieldRisk(words=frozenset({"port"}), texts=("70000", "no-such-port-at-all", "1-"), numbers=(65_536, 70_000)),
    _FieldRisk(
        words=frozenset({"capacity", "cpu", "disk", "limit", "memory", "quota", "request", "size", "storage"}),
        texts=("1x", "-1Gi", "1 Gi", "1Ki", "1Gi", "2Gi", "1.5.5"),
    ),
    _FieldRisk(words=frozenset({"cron", "schedule"}), texts=("* * *", "61 * * * *", "@sometimes")),
    _FieldRisk(words=frozenset({"domain", "host", "hostname", "ip", "url"}), texts=("-.example.com", "256.1.1.1", "*")),
    _FieldRisk(words=frozenset({"directory", "mount", "path"}), texts=("a:b", "../a", "a", "/a/../b")),
    _FieldRisk(words=frozenset({"policy", "protocol", "strategy", "type"}), texts=("Unknown", "NoSuchValue")),
    _FieldRisk(words=frozenset({"cidr", "subnet"}), texts=("10.0.0.0", "10.0.0.0/99")),
    _FieldRisk(words=frozenset({"key", "env", "variable"}), texts=("a=b", "1a", "a b")),
    _FieldRisk(words=frozenset({"interval", "period", "second", "timeout"}), texts=("5", "5 parsecs", "-5s")),
    _FieldRisk(words=frozenset({"percent", "surge", "unavailable"}), texts=("-1%", "150%", "5%%"), numbers=(101,)),
    _FieldRisk(words=frozenset({"gid", "group", "uid", "user"}), numbers=(2**31,)),
    _FieldRisk(words=frozenset({"priority"}), numbers=(2_000_000_000,)),
)

_WORD = re.compile(r"[A-Z]{1,64}(?![a-z])|[A-Z]?[a-z]+")

_MAPPINGS: tuple[Mapping[str, str], ...] = (
    {"a": "x" * (_LABEL_LIMIT + 1)},
    {"a": "not a value!"},
    {"not a key!": "b"},
    {"x" * (_LABEL_LIMIT + 1): "b"},
    {"a/b/c": "d"},
)
"""No labels, and often no keys of a ConfigMap either."""


def risky_values(name: str, schema: Schema, before: Any) -> Iterator[Any]:
    """The risky values of a field with a name, other than its present value."""
    if schema.get("enum"):
        return
    for value in _of_type(name, schema, before):
        differs = type(value) is not type(before) or value != before
        if differs and not validate(schema, value).errors and not validate_lists(schema, value):
            yield value


def _of_type(name: str, schema: Schema, before: Any) -> Iterator[Any]:
    words = {word.lower() for word in _WORD.findall(name)}
    words |= {word.removesuffix("s") for word in words}
    risks = [risk for risk in _RISKS if risk.words & words]
    texts = tuple(text for risk in risks for text in risk.texts) or _TEXTS
    texts = tuple(dict.fromkeys(("", *texts)))
    numbers = (*(number for risk in risks for number in risk.numbers), *_NUMBERS)
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
        case "array":
            yield from _repetitions(before)


def _repetitions(before: Any) -> Iterator[list[Any]]:
    """Lists with an item twice, and with an item that differs from another one only in fields that are not keys."""
    if not isinstance(before, Sequence) or isinstance(before, str) or not before:
        return
    yield [*before, before[0]]
    if isinstance(before[0], Mapping) and "name" in before[0] and len(before[0]) > 1:
        yield [*before, {"name": before[0]["name"]}]
