"""Bytes among the values of templates: what `b64decode` gives of base64 that is no text, and what `gzip` gives.

Promises:
- A template can do nothing with bytes but encode, compress, hash, compare and measure them. No message has them.
"""

from __future__ import annotations

import gzip as gzip_format
from typing import Any

_LEVEL = 9


class Octets:
    """Bytes. Python's own have methods that write them in ways that no manifest has."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

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
        return Octets(content)


def is_utf8(value: Any) -> bool:
    """Whether a value is a text, or bytes that are UTF-8 text."""
    return isinstance(value, str) or (isinstance(value, Octets) and isinstance(text_or_octets(bytes(value)), str))


def compressed(content: bytes) -> Octets:
    """The bytes in the gzip format, without a time: the same input gives the same bytes."""
    return Octets(gzip_format.compress(content, _LEVEL, mtime=0))
