"""What is known of the content of Secrets, so that it can be kept out of what is said.

Promises:
- A text in which a known value stands is never passed on with it: neither as it is, in any case of letters, nor in
  base64 (also within something longer), escaped or quoted as Go, Python, JSON and URLs do it, nor cut off with `…`.
- Values are a Secret's entries as a whole, their lines, the texts in what is JSON, and those words in them that look
  like chance.
- What the parent or its templates spell out themselves is no secret, nor what they make of the parent's name:
  `postgres` stays `postgres`, and the host `web-db.default.svc` what it is.
- Looking costs by the length of the text, however many values are known.
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

HIDDEN = "(a Secret's content)"

SHORTEST = 4
"""Characters of a value that is looked for; shorter ones stand in any text."""

_PIECE = 6
"""Characters of the part of a value that is looked for by itself."""

_WINDOW = 8
"""So many characters of a value in a row give it away."""

_WORD = 8
_LONGEST = 8192
"""Characters of a value that is looked for as a whole: no message is longer. Of a longer one the lines are."""

_COMPARED = 128 * 1024
"""Characters of known values whose parts are looked for."""

_SEPARATORS = re.compile(r"[\s\"'`=:,;@/?&<>(){}\[\]|]+")
_WORDS = re.compile(r"[^a-z0-9]+")
_PLAIN_WORD = re.compile(r"[a-z][a-z.-]*|[A-Z]?[a-z]+|[A-Z_]+")
_UNTELLING = frozenset({"true", "false", "null", "none"})


@dataclass(frozen=True)
class Redactor:
    """Values that are not to be said, and the texts that say them anyway (`public`, asked for when it matters; the
    first line is the parent's name).
    """

    values: frozenset[str] = field(default=frozenset(), repr=False)
    public: Callable[[], str] = field(default=str, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.values)

    def redacted(self, text: str) -> str:
        """The text with each known value in it replaced."""
        if not self.values or len(text) < SHORTEST:
            return text
        parts: list[str] = []
        at = 0
        for start, end in self._found(text):
            parts += (text[at:start], HIDDEN)
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    def holds(self, text: str) -> bool:
        """Whether a known value stands in the text."""
        return bool(self.values) and next(self._found(text), None) is not None

    def reveals(self, text: str) -> bool:
        """Whether even a part of a known value may stand in the text: for words that somebody else chose."""
        if not self.values:
            return False
        known = self._windows
        if known is None or self.holds(text):
            return True
        lowered = _lowered(text)
        windows = (lowered[at : at + _WINDOW] for at in range(len(lowered) - _WINDOW + 1))
        return any(window in known and window not in self._public for window in windows)

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        """Where known values stand in the text, from the left, the longest first."""
        lowered, forms = _lowered(text), self._forms
        at, last = 0, len(lowered) - SHORTEST
        while at <= last:
            end = max((self._end(form, lowered, at) for form in forms.get(lowered[at : at + SHORTEST], ())), default=at)
            if not end > at and lowered[at - 1 : at] == "…":
                end = self._end_after_cut(lowered, at)
            if end > at and not self._is_public(lowered[at:end]):
                yield at, end
                at = end
            else:
                at += 1

    def _end(self, form: str, text: str, at: int) -> int:
        """Where the form that may begin at a position ends, the position itself where it doesn't stand there."""
        if text.startswith(form, at):
            return at + len(form)
        cut = text.find("…", at, at + len(form))
        return cut if cut >= at + SHORTEST and form.startswith(text[at:cut]) else at

    def _end_after_cut(self, text: str, at: int) -> int:
        """Where a value ends whose beginning is cut off before a position, the position itself where there is none."""
        for end in range(len(text), at + SHORTEST - 1, -1):
            if any(form.endswith(text[at:end]) for form in self._endings.get(text[end - SHORTEST : end], ())):
                return end
        rest = text[at:]
        return len(text) if any(rest in form for forms in self._forms.values() for form in forms) else at

    def _is_public(self, found: str) -> bool:
        if re.search(rf"(?<![a-z0-9]){re.escape(found)}(?![a-z0-9])", self._public):
            return True
        # A host or another object's name: the parent's with words of the templates.
        name = self._public.partition("\n")[0]
        beginning, rest = found[: len(name)], found[len(name) :]
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
        """What to look for by its first characters."""
        found: dict[str, dict[str, None]] = {}
        for value in self.values:
            for form in map(_lowered, _forms(value)):
                if len(form) >= SHORTEST:
                    found.setdefault(form[:SHORTEST], {})[form] = None
        return {start: tuple(sorted(forms, key=len, reverse=True)) for start, forms in found.items()}

    @cached_property
    def _endings(self) -> Mapping[str, tuple[str, ...]]:
        """What to look for by its last characters."""
        found: dict[str, list[str]] = {}
        for forms in self._forms.values():
            for form in forms:
                found.setdefault(form[-SHORTEST:], []).append(form)
        return {ending: tuple(forms) for ending, forms in found.items()}

    @cached_property
    def _windows(self) -> frozenset[str] | None:
        """The parts of the values, None where they are too many."""
        if sum(map(len, self.values)) > _COMPARED:
            return None
        return frozenset(
            lowered[at : at + _WINDOW]
            for lowered in map(_lowered, self.values)
            if not self._is_public(lowered)
            for at in range(len(lowered) - _WINDOW + 1)
        )


NO_SECRETS = Redactor()


def values_of(secret: Mapping[str, Any]) -> frozenset[str]:
    """The values of a Secret as the API server returned it."""
    found: set[str] = set()
    for entries, encoded in ((secret.get("data"), True), (secret.get("stringData"), False)):
        for entry in entries.values() if isinstance(entries, Mapping) else ():
            if not isinstance(entry, str):
                continue
            text = _decoded(entry) if encoded else None
            if text is None:
                found.update(pieces(entry))
            elif told := frozenset(pieces(text)):
                found.update(told, pieces(entry))
    return frozenset(found)


def pieces(text: str) -> Iterator[str]:
    """A text and what of it is worth hiding by itself."""
    whole = text.strip()
    if whole.lower() in _UNTELLING:
        return
    if len(whole) < SHORTEST:
        # It would be found in any word: only where it is quoted.
        yield from (f"{mark}{whole}{mark}" for mark in "'\"" if len(whole) > 1)
        return
    if len(whole) <= _LONGEST:
        yield whole
    for line in whole.splitlines():
        stripped = line.strip()
        if len(stripped) >= _PIECE:
            yield stripped
    for word in _SEPARATORS.split(whole):
        if len(word) >= _WORD and not _PLAIN_WORD.fullmatch(word):
            yield word
            inner = _decoded(word)
            if inner is not None and len(inner) >= _PIECE and inner.isprintable():
                yield inner
                yield from (part for part in inner.split(":") if len(part) >= _PIECE)
    if whole[0] in "{[":
        try:
            found = json.loads(whole)
        except ValueError:
            return
        yield from (leaf for leaf in texts(found) if len(leaf) >= _PIECE)


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
    """All of these values."""
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
    """How a value may be written."""
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
    found.add(json.dumps(value, ensure_ascii=False)[1:-1].translate(_FOR_HTML))
    data = value.encode(errors="replace")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # Within something longer, a value has three forms; characters that hold bits of its neighbours are left out.
        for before in range(3):
            first, bits = -(-before * 8 // 6), (before + len(data)) * 8
            core = encode(b"\0" * before + data)[first : bits // 6].decode()
            if len(core) > SHORTEST:
                found.add(core)
    return found


_FOR_HTML = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}
