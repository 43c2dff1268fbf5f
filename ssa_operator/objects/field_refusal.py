"""A field in an Invalid answer of the API server, and the line of a file that wrote it.

Promises:
- The line is that of the first field that the error names.
- An error about the schema of a CRD names its line, too, although the API server names no version then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, parse_field


class FieldRefusal(Struct, frozen=True):
    """One cause of an Invalid answer."""

    field: str
    """The field as the API server spells it."""
    message: str

    @property
    def label(self) -> str:
        """`Invalid value`, `Forbidden`, …"""
        return self.message.partition(": ")[0]

    @property
    def detail(self) -> str:
        """The message without the label and the quoted value (k8s.io/apimachinery/pkg/util/validation/field)."""
        _, _, rest = self.message.partition(": ")
        if self.label not in _QUOTING:
            return rest
        end = _value_end(rest)
        return rest[end + 2 :] if rest.startswith(": ", end) else rest

    @property
    def quoted(self) -> str | None:
        """The quoted value, None without one."""
        _, _, rest = self.message.partition(": ")
        return rest[: _value_end(rest)] if self.label in _QUOTING else None

    def has_detail(self, text: str) -> bool:
        """Whether the detail is this text. The detail of a Forbidden may continue, for example with the difference
        found.

        Older servers quote a value in Go's syntax, which `detail` doesn't recognize: then the detail must end in the
        text.
        """
        detail = self.detail
        if self.label == "Forbidden":
            return detail.startswith(text)
        return detail == text or detail.endswith(f": {text}")


_QUOTING = frozenset({"Invalid value", "Unsupported value", "Duplicate value", "Not found", "Too many"})
_SCALAR = r'"(?:[^"\\]|\\.)*"|-?\d[\w.+-]*|true|false|null'


def _value_end(text: str) -> int:
    if text[:1] in ("{", "["):
        try:
            return json.JSONDecoder().raw_decode(text)[1]
        except (ValueError, RecursionError):
            return 0  # no JSON, a number of thousands of digits, or lists of thousands of levels
    found = re.match(_SCALAR, text)
    return found.end() if found else 0


_SCHEMA = ("spec", "validation")
"""Where the API server has the schema of a CRD whose versions have the same one."""


def location_in(document: Document, fields: Iterable[str], body: Mapping[str, Any]) -> SourceLocation | None:
    """The line that wrote the first of the fields of an error, None without any. `body` is what was sent."""
    for field in fields:
        path = _in_file(parse_field(field, body))
        if path:
            return document.location_of(path)
    return None


def _in_file(path: FieldPath) -> FieldPath:
    return ("spec", "versions", 0, "schema", *path[2:]) if path[:2] == _SCHEMA else path
