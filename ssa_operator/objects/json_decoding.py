"""Decodes JSON that others wrote: the answers of API servers, and the texts that their users stored in objects.

Promises:
- Bytes that are no JSON of the expected type raise msgspec.DecodeError, and no other exception.
- A text that is no JSON raises ValueError, and no other exception.
- JSON that is nested too deeply to be decoded is read with null in place of what is deeper than NESTING_LIMIT. The API
  server stores 10 000 levels, and one object of one user must not keep the operator from reading all others.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

NESTING_LIMIT = 128
"""Levels that an object keeps. A template can't render a value of more than 100."""

_DECODES_DEEP = sys.version_info >= (3, 12)
"""Whether the interpreter lets msgspec decode thousands of levels, where code in Python that walks them fails."""

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SQUARE = bytes.maketrans(b"{}", b"[]")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)

Decoded = TypeVar("Decoded")


def decoder(type_: type[Decoded]) -> Callable[[bytes | msgspec.Raw], Decoded]:
    """A function that decodes JSON to this type. It raises msgspec.DecodeError."""
    decode = msgspec.json.Decoder(type_).decode

    def decoded(encoded: bytes | msgspec.Raw) -> Decoded:
        if _DECODES_DEEP and is_deep(whole := bytes(encoded)):
            encoded = without_deep_values(whole)
        try:
            return decode(encoded)
        except RecursionError:
            return decoded(without_deep_values(bytes(encoded)))
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(f"JSON is not UTF-8: {error.reason}") from None

    return decoded


def decode_text(text: str) -> Any:
    """The JSON value of a text, of NESTING_LIMIT levels at most. Raises ValueError."""
    encoded = text.encode(errors="surrogatepass")
    if is_deep(encoded):
        text = without_deep_values(encoded).decode(errors="surrogatepass")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        raise ValueError(f"a number of more than {sys.get_int_max_str_digits()} digits is too large") from error


def is_deep(encoded: bytes) -> bool:
    """Whether JSON may be nested deeper than NESTING_LIMIT; brackets in texts count. It is faster than decoding."""
    brackets = encoded.translate(_SQUARE, _NOT_BRACKETS)
    for level in range(NESTING_LIMIT):
        if len(brackets) <= 2 * (NESTING_LIMIT - level):
            return False
        without_innermost = brackets.replace(b"[]", b"")
        if len(without_innermost) == len(brackets):
            return True
        brackets = without_innermost
    return True


def without_deep_values(encoded: bytes) -> bytes:
    """JSON with null in place of each list and mapping that is nested deeper than NESTING_LIMIT."""
    depth, kept = 0, 0
    parts: list[bytes] = []
    for token in _TOKEN.finditer(encoded):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == NESTING_LIMIT + 1:
                parts.append(encoded[kept : token.start()])
        elif token[0] in (b"]", b"}"):
            if depth == NESTING_LIMIT + 1:
                parts.append(b"null")
                kept = token.end()
            depth -= 1
    if depth <= NESTING_LIMIT:
        parts.append(encoded[kept:])
    return b"".join(parts)
