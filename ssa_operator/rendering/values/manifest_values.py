"""Converts the values of expressions to JSON data for a manifest, and to text within other text.

Promises:
- A manifest holds plain JSON data: `json_data` refuses every other value.
- Within text, a string is written unchanged, and every other value as JSON.
- A template can do nothing with bytes but encode, compress, hash, compare and measure them. No message has them.
"""

from __future__ import annotations

import gzip as gzip_format
import json
import math
import operator
from collections.abc import Iterator, Mapping, MappingView, Sequence
from types import GeneratorType
from typing import Any

from jinja2 import TemplateRuntimeError, Undefined
from jinja2.runtime import Macro

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import DEPTH_LIMIT
from ssa_operator.rendering.values.tracked_values import TrackedValue, UnknownValue
from ssa_operator.rendering.values.value_size import size_of

_LEVEL = 9


class Octets:
    """Bytes. Python's own have methods that write them in ways that no manifest has."""

    __slots__ = ("_content", "is_no_text")

    def __init__(self, content: bytes, *, is_no_text: bool = False) -> None:
        """`is_no_text`: they were decoded, and are not UTF-8."""
        self._content = content
        self.is_no_text = is_no_text

    def __bytes__(self) -> bytes:
        return self._content

    def __len__(self) -> int:
        return len(self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Octets) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        return f"{len(self)} bytes"


def text_or_octets(content: bytes) -> str | Octets:
    """The text, if the bytes are UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return Octets(content, is_no_text=True)


def is_utf8(value: Any) -> bool:
    """Whether a value is a text, or bytes that are UTF-8 text."""
    return isinstance(value, str) or (isinstance(value, Octets) and isinstance(text_or_octets(bytes(value)), str))


def compressed(content: bytes) -> Octets:
    """The bytes in the gzip format, without a time: the same input gives the same bytes."""
    return Octets(gzip_format.compress(content, _LEVEL, mtime=0))


NO_TEXT = "bytes are no text; write b64encode for a field that holds base64, such as binaryData"

_CONTAINER_SIZE = 64
_LONG = 64

_SMALL = 2**16
"""Characters of a value that is converted without measuring it first."""

INTEGERS = range(-(2**63), 2**63)
"""Integers that the API server keeps: it decodes a JSON number as int64 or float64."""


class UnfitValueError(TemplateRuntimeError):
    """A value that can't be put into a manifest."""


class Stringlike:
    """A value that acts as a string in every expression."""

    __slots__ = ()

    def parts(self) -> Sequence[Any]:
        """The texts and the values that it consists of."""
        raise NotImplementedError  # no abstract class: those make each isinstance of a render a call of Python

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        return str(self) == (str(other) if isinstance(other, Stringlike) else other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __len__(self) -> int:
        return len(str(self))

    def __contains__(self, item: Any) -> bool:
        return str(item) in str(self)

    def __iter__(self) -> Iterator[str]:
        return iter(str(self))

    def __getitem__(self, index: Any) -> str:
        return str(self)[index]


for _compare in (operator.lt, operator.le, operator.gt, operator.ge):
    setattr(Stringlike, f"__{_compare.__name__}__", lambda self, other, of=_compare: of(str(self), str(other)))


def json_data(value: Any, depth: int = 0, tracked: list[TrackedValue | UnknownValue] | None = None) -> Any:
    """The value as plain JSON data; tuples, ranges, views and generators become lists, template text becomes strings.

    Appends the tracked and the unknown values in it to `tracked`, and leaves the unknown ones as they are. Without
    `tracked`, an unknown value raises AwaitedError.

    Raises UnfitValueError for a value that JSON can't express, MissingFieldError for a missing field, and LimitError
    for one that is too large.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _encodable(value)
    if value is None or kind is bool:
        return value
    if kind is int or kind is float:
        return _number(value)
    return _Conversion(value, tracked).data(value, depth)


class _Conversion:
    """One use of `json_data`, and what it may still read."""

    __slots__ = ("_budget", "_first", "_left", "_tracked", "_whole")

    def __init__(self, whole: Any, tracked: list[TrackedValue | UnknownValue] | None) -> None:
        self._budget = limits.current()
        self._whole: Any = whole
        self._left = _SMALL
        self._first = True
        self._tracked = tracked

    def data(self, value: Any, depth: int) -> Any:  # noqa: C901 - one case a type
        kind = type(value)
        if kind is str:
            self._left -= len(value)
            if self._left < 0:
                self._measure()
            return value if value.isascii() else _encodable(value)
        if value is None or kind is bool:
            return value
        if kind is int or kind is float:
            return _number(value)
        if kind is not dict and kind is not list:
            if isinstance(value, (TrackedValue, UnknownValue)) and self._tracked is not None:
                self._tracked.append(value)
                return value if isinstance(value, UnknownValue) else self.data(value.value, depth)
            if isinstance(value, TrackedValue):
                return self.data(value.read_untracked(), depth)
            if isinstance(value, (str, Stringlike, Undefined)):
                text = str(value)  # str() of a missing field raises MissingFieldError
                self._count(len(text))
                return _encodable(text)
        if depth > DEPTH_LIMIT:
            raise UnfitValueError(f"the value is nested deeper than {DEPTH_LIMIT} levels")
        if kind is dict or isinstance(value, Mapping):
            self._count_entries(value)
            fields = {key_text(key): self.data(item, depth + 1) for key, item in value.items()}
            self._left -= sum(map(len, fields))
            if self._left < 0:
                self._measure()
            return fields
        if isinstance(value, (list, tuple, range, MappingView, GeneratorType)):
            items: Any = value
            if not isinstance(value, (list, tuple)):
                items = [*limits.counted(items)]
            self._count_entries(items)
            return [self.data(item, depth + 1) for item in items]
        raise UnfitValueError(_refusal_reason(value))

    def _count_entries(self, value: Any) -> None:
        size = limits.ENTRY_SIZE * len(value) + _CONTAINER_SIZE
        self._budget.produce(size)
        self._left -= size
        if self._left < 0:
            self._measure()

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            self._measure()

    def _measure(self) -> None:
        """If a value is not small, decide by its total size. A generator's items are known only after the first."""
        self._budget.read(size_of(self._whole).total if self._first else 2 * limits.STEP_LIMIT)
        self._first = False
        self._left = 2 * limits.STEP_LIMIT


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
    "Octets": "bytes",
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
    if isinstance(value, Octets):
        return NO_TEXT
    return f"{kind_of(value)} can't be put into a manifest"


def json_text(value: Any) -> str:
    """Plain data as compact JSON; not escaped for HTML, not limited to ASCII."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text_of(value: Any) -> str:
    """The value as text within other text. Raises the errors of `json_data`."""
    if isinstance(value, str):
        return str(value)
    plain = json_data(value)
    if isinstance(plain, str):
        return plain
    text = json_text(plain)
    if len(text) > _LONG:
        limits.current().spend(len(text))
    return text
