"""Converts the values of expressions to JSON data for a manifest, and to text within other text.

Promises:
- A manifest holds plain JSON data: `json_data` refuses every other value.
- Within text, a string stands as it is, and every other value as JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, MappingView
from types import GeneratorType
from typing import Any

from jinja2 import TemplateRuntimeError, Undefined
from jinja2.runtime import Macro

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.tracked_values import TrackedValue, UnknownValue

DEPTH_LIMIT = 100
"""Levels of nesting in a value: no manifest has as many."""

_CONTAINER_SIZE = 64

INTEGERS = range(-(2**63), 2**63)
"""Integers that the API server keeps: it decodes a JSON number as int64 or float64."""


class UnfitValueError(TemplateRuntimeError):
    """A value that can't be put into a manifest."""


class Stringlike:
    """A value that acts as a string in every expression."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        return str(self) == (str(other) if isinstance(other, Stringlike) else other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __le__(self, other: Any) -> bool:
        return str(self) <= str(other)

    def __gt__(self, other: Any) -> bool:
        return str(self) > str(other)

    def __ge__(self, other: Any) -> bool:
        return str(self) >= str(other)

    def __len__(self) -> int:
        return len(str(self))

    def __contains__(self, item: Any) -> bool:
        return str(item) in str(self)

    def __iter__(self) -> Iterator[str]:
        return iter(str(self))

    def __getitem__(self, index: Any) -> str:
        return str(self)[index]


def json_data(value: Any, depth: int = 0, tracked: list[TrackedValue | UnknownValue] | None = None) -> Any:
    """The value as plain JSON data; tuples, ranges, views and generators become lists, template text becomes strings.

    Appends the tracked and the unknown values in it to `tracked`, and leaves the unknown ones as they are. Without
    `tracked`, an unknown value raises AwaitedError.

    Raises UnfitValueError for a value that JSON can't express, and MissingFieldError for a missing field.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _encodable(value)
    if value is None or kind is bool:
        return value
    if kind is int or kind is float:
        return _number(value)
    if kind is not dict and kind is not list:
        if isinstance(value, (TrackedValue, UnknownValue)) and tracked is not None:
            tracked.append(value)
            return value if isinstance(value, UnknownValue) else json_data(value.value, depth, tracked)
        if isinstance(value, TrackedValue):
            return json_data(value.read_untracked(), depth)
        if isinstance(value, (str, Stringlike, Undefined)):
            return _encodable(str(value))  # str() of a missing field raises MissingFieldError
    if depth > DEPTH_LIMIT:
        raise UnfitValueError(f"the value is nested deeper than {DEPTH_LIMIT} levels")
    if kind is dict or isinstance(value, Mapping):
        limits.current().produce(limits.size_of(value) + _CONTAINER_SIZE)
        return {key_text(key): json_data(item, depth + 1, tracked) for key, item in value.items()}
    if isinstance(value, (list, tuple, range, MappingView, GeneratorType)):
        items: Any = value
        if not isinstance(value, (list, tuple)):
            items = [*limits.counted(items)]
        limits.current().produce(limits.size_of(items) + _CONTAINER_SIZE)
        return [json_data(item, depth + 1, tracked) for item in items]
    raise UnfitValueError(_refusal_reason(value))


def content_size(value: Any) -> int:
    """The characters of all texts in plain JSON data or in tracked values; anything else counts as one."""
    kind = type(value)
    if kind is dict:
        return sum(len(key) + content_size(item) for key, item in value.items())
    if kind is list:
        return sum(map(content_size, value))
    if kind is TrackedValue:
        return content_size(value.value)
    return len(value) if isinstance(value, str) else 1


def _number(value: float) -> int | float:
    if isinstance(value, int):
        if value not in INTEGERS:
            raise UnfitValueError("the number does not fit into 64 bits; the API server would change it")
    elif not math.isfinite(value):
        raise UnfitValueError(f"the number {value} does not exist in JSON")
    return value


def key_text(key: Any) -> str:
    """The key of a mapping as a string. Raises UnfitValueError for a key of another type."""
    if type(key) is str:
        return key
    if isinstance(key, (str, Stringlike)):
        return str(key)
    if isinstance(key, TrackedValue):
        return key_text(key.read_untracked())
    described = f"the key {key!r}" if isinstance(key, (int, float)) or key is None else f"{kind_of(key)} as a key"
    raise UnfitValueError(f"a mapping has {described}; keys must be strings")


_KINDS: Mapping[str, str] = {
    "BlockReference": "a block",
    "Cycler": "a cycler",
    "Indented": "a string",
    "Joiner": "a joiner",
    "Json": "a string",
    "LoopContext": "a loop",
    "Macro": "a macro",
    "Markup": "a string",
    "Namespace": "a namespace",
    "NoneType": "null",
    "TemplateModule": "an imported file",
    "Text": "a string",
    "bool": "true or false",
    "bytes": "bytes",
    "dict": "a mapping",
    "dict_items": "a list",
    "dict_keys": "a list",
    "dict_values": "a list",
    "float": "a number",
    "frozenset": "a set",
    "generator": "a list",
    "int": "a number",
    "list": "a list",
    "range": "a list",
    "set": "a set",
    "str": "a string",
    "tuple": "a list",
}


def kind_named(name: str) -> str:
    """The words for a value whose Python type has this name: a string, a mapping."""
    if name in ("builtin_function_or_method", "function", "method", "partial", "type"):
        return "a function"
    return _KINDS.get(name, "a value")


def kind_of(value: Any) -> str:
    """The words for a value of its type: a string, a mapping."""
    return kind_named(type(value).__name__)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnfitValueError("the text holds half of a surrogate pair, which is no character") from None
    return text


def _refusal_reason(value: Any) -> str:
    if isinstance(value, Macro):
        return f"{value.name} is a macro; call it: {value.name}(...)"
    if callable(value):
        name = getattr(value, "__name__", "").lstrip("_").removeprefix("safe_").lower() or "this"
        return f"{name} is a function; call it with (...)"
    if isinstance(value, (set, frozenset)):
        return "a set has no order; use a list, or `| sort`"
    if isinstance(value, bytes):
        return "bytes can't be put into a manifest; use text"
    return f"{kind_of(value)} can't be put into a manifest"


def json_text(value: Any) -> str:
    """Plain data as compact JSON; not escaped for HTML, not limited to ASCII."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text_of(value: Any) -> str:
    """The value as text within other text. Raises the errors of `json_data`."""
    if isinstance(value, str):
        return str(value)
    plain = json_data(value)
    return plain if isinstance(plain, str) else json_text(plain)
