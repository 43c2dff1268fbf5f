"""Values that a CRD allows and that Kubernetes may refuse in the children.

Promises:
- Every risky value is valid by the schema of its field, and Kubernetes may refuse it in the children that use it. The
  risky values depend only on the field's name, its type, and its present value, so that they exist for every CRD.
- No risky number is one that starts many pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssa_operator.objects.json_schema import Schema
from ssa_operator.schema.schema_validation import validate, validate_lists

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
