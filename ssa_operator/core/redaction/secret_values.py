"""Finds and replaces the known values of Secrets in texts.

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
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote

from ssa_operator.core.objects.json_decoding import decode_text

HIDDEN = "(a Secret's content)"

MIN_LENGTH = 4
"""Characters of a value at least; shorter ones are part of any text."""

_MIN_PART_LENGTH = 6
"""Characters at least of a part of a value that is a secret itself."""

_WINDOW = 8
"""Successive characters of a value that reveal it."""

_MIN_WORD_LENGTH = 8
"""Characters at least of a word that is a secret itself."""

_MAX_LENGTH = 8192
"""Characters of a value at most, because no message is longer; of a longer one the lines count."""

_WINDOWS_LIMIT = 128 * 1024
"""Characters of all known values up to which parts of them are compared."""

_SEPARATORS = re.compile(r"[\s\"'`=:,;@/?&<>(){}\[\]|]+")
_WORDS = re.compile(r"[^a-z0-9]+")
_PLAIN_WORD = re.compile(r"[a-z][a-z.-]*|[A-Z]?[a-z]+|[A-Z_]+")
_NOT_SECRET = frozenset({"true", "false", "null", "none"})


@dataclass(frozen=True)
class Redactor:
    """Replaces the known values of Secrets in texts."""

    values: frozenset[str] = field(default=frozenset(), repr=False)
    """The known values."""
    public: Callable[[], str] = field(default=str, repr=False, compare=False)
    """Returns the text of the parent and its templates, which is not secret; its first line is the parent's name. It is
    called on the first match only.
    """

    def __bool__(self) -> bool:
        return bool(self.values)

    def redact(self, text: str) -> str:
        """The text with each known value replaced by HIDDEN."""
        if not self.values or len(text) < MIN_LENGTH:
            return text
        parts: list[str] = []
        at = 0
        for start, end in self._matches(text):
            parts += (text[at:start], HIDDEN)
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    def contains_secret(self, text: str) -> bool:
        """Whether the text contains a known value."""
        return bool(self.values) and next(self._matches(text), None) is not None

    def may_reveal(self, text: str) -> bool:
        """Whether the text may contain even a part of a known value; for texts that others wrote."""
        if not self.values:
            return False
        known = self._windows
        if known is None or self.contains_secret(text):
            return True
        lowered = _lowered(text)
        windows = (lowered[at : at + _WINDOW] for at in range(len(lowered) - _WINDOW + 1))
        return any(window in known and window not in self._public for window in windows)

    def _matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each known value in the text, from the left; of several at one position, the longest."""
        lowered, forms = _lowered(text), self._forms
        # Most texts contain nothing that a value begins with, and this finds that out in an eighth of the time.
        beginnings = map("".join, zip(*(lowered[at:] for at in range(MIN_LENGTH)), strict=False))
        if forms.keys().isdisjoint(beginnings) and "…" not in lowered:
            return
        at, last = 0, len(lowered) - MIN_LENGTH
        while at <= last:
            end = max(
                (self._end(form, lowered, at) for form in forms.get(lowered[at : at + MIN_LENGTH], ())), default=at
            )
            if not end > at and lowered[at - 1 : at] == "…":
                end = self._end_after_ellipsis(lowered, at)
            if end > at and not self._is_public(lowered[at:end]):
                yield at, end
                at = end
            else:
                at += 1

    def _end(self, form: str, text: str, at: int) -> int:
        """The end of the form that begins at this position; the position itself where the form isn't there."""
        if text.startswith(form, at):
            return at + len(form)
        ellipsis = text.find("…", at, at + len(form))
        return ellipsis if ellipsis >= at + MIN_LENGTH and form.startswith(text[at:ellipsis]) else at

    def _end_after_ellipsis(self, text: str, at: int) -> int:
        """The end of a value that is truncated before this position; the position itself without any."""
        for end in range(len(text), at + MIN_LENGTH - 1, -1):
            if any(form.endswith(text[at:end]) for form in self._endings.get(text[end - MIN_LENGTH : end], ())):
                return end
        rest = text[at:]
        return len(text) if any(rest in form for forms in self._forms.values() for form in forms) else at

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

    @cached_property
    def _forms(self) -> Mapping[str, tuple[str, ...]]:
        """The forms of all values, by their first characters."""
        found: dict[str, dict[str, None]] = {}
        for value in self.values:
            for form in map(_lowered, _forms(value)):
                if len(form) >= MIN_LENGTH:
                    found.setdefault(form[:MIN_LENGTH], {})[form] = None
        return {start: tuple(sorted(forms, key=len, reverse=True)) for start, forms in found.items()}

    @cached_property
    def _endings(self) -> Mapping[str, tuple[str, ...]]:
        """The forms of all values, by their last characters."""
        found: dict[str, list[str]] = {}
        for forms in self._forms.values():
            for form in forms:
                found.setdefault(form[-MIN_LENGTH:], []).append(form)
        return {ending: tuple(forms) for ending, forms in found.items()}

    @cached_property
    def _windows(self) -> frozenset[str] | None:
        """The parts of all values, None where there are too many."""
        if sum(map(len, self.values)) > _WINDOWS_LIMIT:
            return None
        return frozenset(
            lowered[at : at + _WINDOW]
            for lowered in map(_lowered, self.values)
            if not self._is_public(lowered)
            for at in range(len(lowered) - _WINDOW + 1)
        )


NO_SECRETS = Redactor()


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


def union(known: Iterable[frozenset[str]]) -> frozenset[str]:
    """The union of these sets of values."""
    return frozenset().union(*known)


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _lowered(text: str) -> str:
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text


def _forms(value: str) -> set[str]:
    """The ways in which a value may be written."""
    found = {
        value,
        repr(value)[1:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value),
        quote(value, safe=""),
        value.replace("'", "''"),
        " ".join(value.split()),
    }
    found.add(json.dumps(value, ensure_ascii=False)[1:-1].translate(_HTML_ESCAPES))
    data = value.encode(errors="replace")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # As part of a longer value, a value has three forms in base64. Characters with bits of its neighbours are left
        # out.
        for before in range(3):
            first, bits = -(-before * 8 // 6), (before + len(data)) * 8
            core = encode(b"\0" * before + data)[first : bits // 6].decode()
            if len(core) > MIN_LENGTH:
                found.add(core)
    return found


_HTML_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}
