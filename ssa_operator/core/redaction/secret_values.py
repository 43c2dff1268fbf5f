"""Finds and replaces the values of Secrets in texts, for commands that show objects, diffs and snapshots.

What the operator itself publishes does not depend on it: equality would tell an author of a parent which guess is right
(`core.redaction.redacted_report`).

Promises:
- A redacted text contains no known value: not as it is, in upper or lower case, in base64 (also as part of a longer
  value), escaped or quoted as Go, Python, JSON and URLs do, and not truncated with `…`.
- The values are a Secret's whole entries, their lines, the texts in entries that are JSON, and words in them that look
  random.
- A text that the parent or its templates contain is not secret, and neither is a name that they make of the parent's
  name: `postgres` stays `postgres`, and the host `web-db.default.svc` stays what it is.
- The time to redact a text depends on the length of the text, and not on the number of known values.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ssa_operator.core.objects.json_decoding import decode_text
from ssa_operator.core.objects.secret_fields import HIDDEN
from ssa_operator.core.redaction.secret_content import SecretContent, find_forms
from ssa_operator.core.redaction.secret_forms import SHORTEST, lower

MIN_LENGTH = SHORTEST
"""Characters of a value at least."""

_MIN_PART_LENGTH = 6
"""Characters at least of a part of a value that is a secret itself."""

_MIN_WORD_LENGTH = 8
"""Characters at least of a word that is a secret itself."""

_MAX_LENGTH = 8192
"""Characters of a value at most, because no message is longer; of a longer one the lines count."""

_SEPARATORS = re.compile(r"[\s\"'`=:,;@/?&<>(){}\[\]|]+")
_WORDS = re.compile(r"[^a-z0-9]+")
_PLAIN_WORD = re.compile(r"[a-z][a-z.-]*|[A-Z]?[a-z]+|[A-Z_]+")
_NOT_SECRET = frozenset({"true", "false", "null", "none"})


@dataclass(frozen=True)
class Redactor:
    """Replaces the values of Secrets in texts."""

    values: frozenset[str] = field(default=frozenset(), repr=False)
    """The values."""
    public: Callable[[], str] = field(default=str, repr=False, compare=False)
    """Returns the text of the parent and its templates, which is not secret; its first line is the parent's name. It is
    called on the first match only.
    """
    contents: tuple[SecretContent, ...] = field(default=(), repr=False)
    """More values."""

    def __bool__(self) -> bool:
        return bool(self._contents)

    def redact(self, text: str) -> str:
        """The text with each value replaced by HIDDEN."""
        if len(text) < MIN_LENGTH:
            return text
        parts: list[str] = []
        at = 0
        for start, end in self._matches(text):
            parts += (text[at:start], HIDDEN)
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    def contains_secret(self, text: str) -> bool:
        """Whether the text contains a value."""
        return next(self._matches(text), None) is not None

    def _matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each value in the text, from the left; of several at one position, the longest."""
        if not self._contents:
            return
        lowered, after = lower(text), 0
        ends = find_forms(self._contents, lowered)
        for at in sorted(ends):
            if at >= after and not self._is_public(lowered[at : ends[at]]):
                yield at, ends[at]
                after = ends[at]

    @cached_property
    def _contents(self) -> tuple[SecretContent, ...]:
        own = (SecretContent(self.values),) if self.values else ()
        return (*filter(None, self.contents), *own)

    def _is_public(self, match: str) -> bool:
        if re.search(rf"(?<![a-z0-9]){re.escape(match)}(?![a-z0-9])", self._public):
            return True
        # A host or another object's name is the parent's name with words of the templates.
        name = self._public.partition("\n")[0]
        beginning, rest = match[: len(name)], match[len(name) :]
        return (
            bool(name) and beginning == name and rest[:1] in ("-", ".") and self._words.issuperset(_WORDS.split(rest))
        )

    @cached_property
    def _public(self) -> str:
        return self.public().lower()

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORDS.split(self._public)) | {""}


NO_SECRETS = Redactor()


def content_of(secret: Mapping[str, Any]) -> SecretContent:
    """The content of a live Secret."""
    return SecretContent(values_of(secret))


def values_of(secret: Mapping[str, Any]) -> frozenset[str]:
    """The values of a live Secret."""
    found: set[str] = set()
    for entries, encoded in ((secret.get("data"), True), (secret.get("stringData"), False)):
        for entry in entries.values() if isinstance(entries, Mapping) else ():
            if not isinstance(entry, str):
                continue
            text = _decoded(entry) if encoded else None
            if text is None:
                found.update(secret_parts(entry))
            elif parts := frozenset(secret_parts(text)):
                found.update(parts, secret_parts(entry))
    return frozenset(found)


def secret_parts(text: str) -> Iterator[str]:
    """A text, and those of its parts that are secrets themselves."""
    whole = text.strip()
    if whole.lower() in _NOT_SECRET:
        return
    if len(whole) < MIN_LENGTH:
        # A short value is part of many words, so only its quoted form is a secret.
        yield from (f"{mark}{whole}{mark}" for mark in "'\"" if len(whole) > 1)
        return
    if len(whole) <= _MAX_LENGTH:
        yield whole
    for line in whole.splitlines():
        stripped = line.strip()
        if len(stripped) >= _MIN_PART_LENGTH:
            yield stripped
    for word in _SEPARATORS.split(whole):
        if len(word) >= _MIN_WORD_LENGTH and not _PLAIN_WORD.fullmatch(word):
            yield word
            inner = _decoded(word)
            if inner is not None and len(inner) >= _MIN_PART_LENGTH and inner.isprintable():
                yield inner
                yield from (part for part in inner.split(":") if len(part) >= _MIN_PART_LENGTH)
    if whole[0] in "{[":
        try:
            found = decode_text(whole)
        except ValueError:
            return
        yield from (leaf for leaf in texts(found) if len(leaf) >= _MIN_PART_LENGTH)


def texts(value: Any) -> Iterator[str]:
    """Every text in plain data: strings and numbers, and the keys of mappings."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
