"""Errors about the fields of an object, in the words of the API server.

Promises:
- An error reads as the API server writes it: `spec.replicas: Invalid value: 0: spec.replicas in body should be ...`.
- Each error has the path of its field, even if the API server names none (`<nil>`).

The words are those of k8s.io/apimachinery (pkg/util/validation/field).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from ssa_operator.objects.json_schema import Schema, fields, value_parts
from ssa_operator.objects.source_location import FieldPath


class ErrorType(StrEnum):
    """The kind of an error about a field."""

    INVALID = "Invalid value"
    TYPE = "Invalid value "
    """A value of another type; the trailing space is not shown."""
    REQUIRED = "Required value"
    FORBIDDEN = "Forbidden"
    DUPLICATE = "Duplicate value"
    NOT_SUPPORTED = "Unsupported value"
    TOO_LONG = "Too long"
    TOO_MANY = "Too many"


REASONS: Mapping[str, ErrorType] = {
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueRequired": ErrorType.REQUIRED,
    "FieldValueDuplicate": ErrorType.DUPLICATE,
}
"""What a failed rule is by its `reason`; `ErrorType.INVALID` without one."""

OMITTED: Any = object()
"""Stands for a value that the message leaves out."""

NO_FIELD = "<nil>"
"""What the API server writes for an error of the whole object."""


class FieldError(Struct, frozen=True, kw_only=True):
    """One reason why the API server refuses an object."""

    path: FieldPath
    """The field, or the one around it."""
    field: str
    """The field as the API server writes it."""
    type: ErrorType
    value: Any = OMITTED
    """The value that is wrong."""
    detail: str = ""

    @property
    def message(self) -> str:
        """The error without its field."""
        words = str(self.type).strip()
        if self.value is not OMITTED and self.type in _WITH_VALUE:
            words += f": {_shown(self.value)}"
        return f"{words}: {self.detail}" if self.detail else words

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


_WITH_VALUE = frozenset(
    {ErrorType.INVALID, ErrorType.TYPE, ErrorType.DUPLICATE, ErrorType.NOT_SUPPORTED, ErrorType.TOO_MANY}
)


def error_field(path: FieldPath) -> str:
    """A path as the validation of schemas writes it: `spec.ports[0].name`, and `NO_FIELD` for the whole object."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".") or NO_FIELD


def error_at(
    path: FieldPath,
    value: Any = "",
    detail: str = "",
    kind: ErrorType = ErrorType.INVALID,
    shown: FieldPath | None = None,
) -> FieldError:
    """The error of the field at a path; `shown` is the field in the API server's words where they name another one."""
    return FieldError(path=path, field=error_field(shown or path), type=kind, value=value, detail=detail)


class Place(Struct, frozen=True):
    """A part of an object, where the API server tells fields (`a.b`) from keys of a map (`a[b]`)."""

    path: FieldPath = ()
    text: str = ""
    """The API server's words; '' for the whole object."""

    def field(self, name: str) -> Place:
        """A field of it."""
        return Place((*self.path, name), f"{self.text}.{name}".removeprefix("."))

    def key(self, name: str) -> Place:
        """The value of a key of it."""
        return Place((*self.path, name), f"{self.text}[{name}]")

    def item(self, position: int) -> Place:
        """An item of it."""
        return Place((*self.path, position), f"{self.text}[{position}]")

    def below(self, part: str | int, schema: Schema) -> Place:
        """A field, the value of a key, or an item, by its schema."""
        if isinstance(part, int):
            return self.item(part)
        return self.field(part) if part in fields(schema) else self.key(part)

    def error(self, kind: ErrorType, value: Any = "", detail: str = "") -> FieldError:
        """The error of it."""
        return FieldError(path=self.path, field=str(self), type=kind, value=value, detail=detail)

    def __str__(self) -> str:
        return self.text or NO_FIELD


def walk(schema: Schema, value: Any, place: Place = Place()) -> Iterator[tuple[Schema, Any, Place]]:  # noqa: B008 - a value
    """A value and all in it that has a schema: the schema, the value and the place of each."""
    yield schema, value, place
    for part, inner, item in value_parts(schema, value):
        yield from walk(inner, item, place.below(part, schema))


def mapping_items(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """The items of a list at a path that are mappings, each with its own path; none of another value."""
    for at, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, Mapping):
            yield (*path, at), item


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (bool, int, float)):
        return number_text(value)
    return as_json(value)


def as_json(value: Any) -> str:
    """JSON as Go writes it: sorted keys, no spaces, no HTML characters."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def number_text(value: bool | float) -> str:
    """A number or boolean as Go's `%v` writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:]:0>2}"
    return text


ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"} | {
    each: f"\\{each}" for each in '"\\'
}
"""The characters that Go writes with a backslash in a quoted text."""


def quoted(text: str) -> str:
    """The text in double quotes, as Go's `%q` writes it."""
    return '"' + "".join(map(_quoted_character, text)) + '"'


def _quoted_character(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character == " " or (character.isprintable() and not character.isspace()):
        return character
    number = ord(character)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
