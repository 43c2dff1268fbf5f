r"""Encodes JSON that the API server reads back unchanged, and decodes JSON that others wrote.

The API server parses a server-side apply body as YAML even if it is JSON. Its parser, go-yaml, refuses surrogate-pair
escapes, `\/` and a raw U+007F, and turns a raw U+0085 into a space. So bodies are ASCII with escapes, except for
characters beyond U+FFFF, which are raw UTF-8.

Promises:
- The API server returns every applied string exactly as it was written, except for keys beyond KEY_LIMIT: it refuses
  those.
- A value that JSON or UTF-8 can't represent (NaN, infinities, lone surrogates) is an error that names the field.
- Bytes that are no JSON of the expected type raise msgspec.DecodeError, and no other exception.
- A text that is no JSON raises ValueError, and no other exception.
- JSON that is nested too deeply to be decoded is read with null in place of what is deeper than NESTING_LIMIT. The API
  server stores 10 000 levels, and one object of one user must not keep the operator from reading all others.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from ssa_operator.objects.source_location import FieldPath, field_text

KEY_LIMIT = 1024
"""The most characters of a key in the encoded body, with its quotes: go-yaml reads no longer ones. An escaped character
counts as six. No key of Kubernetes' own kinds is longer than 317 characters.
"""


def _encoded(value: object) -> msgspec.Raw:
    """An EncodedMapping as a part of other JSON data, which is not encoded again."""
    if isinstance(value, EncodedMapping):
        return msgspec.Raw(value.encoded)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_encode = msgspec.json.Encoder(enc_hook=_encoded).encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
# The end of the range is not \uffff: `re` would take 5 ms to compile that.
_NOT_PLAIN = re.compile("[^\x00-\x7e]")


class EncodingError(ValueError):
    """A value that JSON can't represent, and its field. The message never contains the value."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field or 'the object'} {reason}")
        self.field = field
        self.reason = reason


NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""An empty mapping that many values share."""


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one: clients may write anything into an object."""
    return value if isinstance(value, Mapping) else NOTHING


def pointer_part(name: str) -> str:
    """A name as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


class EncodedMapping(Mapping[str, Any]):
    """A mapping of JSON data that is kept for a long time and rarely read: it takes a fifth of the memory of the
    decoded values. Each access decodes it.
    """

    __slots__ = ("encoded",)

    def __init__(self, mapping: Mapping[str, Any]) -> None:
        """Raises msgspec.MsgspecError and TypeError if it is not JSON data."""
        self.encoded: bytes = mapping.encoded if isinstance(mapping, EncodedMapping) else _encode(mapping)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, EncodedMapping):
            return self.encoded == other.encoded or self.decoded() == other.decoded()
        return isinstance(other, Mapping) and self.decoded() == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def decoded(self) -> dict[str, Any]:
        """The mapping with decoded values, which the caller may change."""
        return _decode(self.encoded)

    def __getitem__(self, key: str) -> Any:
        return self.decoded()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.decoded())

    def __len__(self) -> int:
        return len(self.decoded())


def encoded_once(mapping: Mapping[str, Any], known: Mapping[str, Any] | None) -> EncodedMapping:
    """The encoded mapping: `known` itself if its encoding is the same, so that it is in memory once."""
    encoded = EncodedMapping(mapping)
    return known if isinstance(known, EncodedMapping) and known.encoded == encoded.encoded else encoded


def encode(body: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bytes:
    """The body of a request.

    Raises EncodingError if JSON can't represent the body.
    """
    try:
        encoded = _encode(body)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise _encoding_error(body, str(error)) from None
    if b"null" in encoded:
        # msgspec writes NaN and the infinities as null.
        for field, reason in _find_errors(body, ()):
            raise EncodingError(field, reason)
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    # Only strings can contain such characters, so they can be escaped in the encoded text.
    return _NOT_PLAIN.sub(_escaped, encoded.decode()).encode()


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    return character if character > "\uffff" else f"\\u{ord(character):04x}"


def _encoding_error(body: object, fallback: str) -> EncodingError:
    try:
        for field, reason in _find_errors(body, ()):
            return EncodingError(field, reason)
    except RecursionError:
        return EncodingError("", "is nested too deeply")
    return EncodingError("", f"can't be written as JSON: {fallback}")


def _find_errors(value: object, path: FieldPath) -> Iterator[tuple[str, str]]:
    match value:
        case None | bool() | int():
            return
        case str():
            if not is_unicode(value):
                yield field_text(path), "holds half of a surrogate pair, which is no character"
        case float():
            if not math.isfinite(value):
                yield field_text(path), "is NaN or infinite, which JSON does not have"
        case Mapping():
            for key, item in value.items():
                if not isinstance(key, str):
                    yield field_text(path), f"has a key that is a {type(key).__name__}, not a string"
                elif not is_unicode(key):
                    yield field_text(path), "has a key with half of a surrogate pair, which is no character"
                else:
                    yield from _find_errors(item, (*path, key))
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _find_errors(item, (*path, index))
        case _:
            yield field_text(path), f"is a {type(value).__name__}, which JSON does not have"


def is_unicode(text: str) -> bool:
    """Whether a text has no half of a character (a lone surrogate)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
