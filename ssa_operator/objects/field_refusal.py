"""A cause of an Invalid answer of the API server."""

from __future__ import annotations

import json
import re

from msgspec import Struct


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
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\w.+-]*|true|false|null')


def _value_end(text: str) -> int:
    if text[:1] in ("{", "["):
        try:
            return json.JSONDecoder().raw_decode(text)[1]
        except (ValueError, RecursionError):
            return 0  # no JSON, a number of thousands of digits, or lists of thousands of levels
    found = _SCALAR.match(text)
    return found.end() if found else 0
