"""Texts that match a pattern, made from the pattern itself.

Promises:
- Each text matches, because the pattern of Go (RE2) is asked at the end. A pattern with parts that are not understood
  may have no text.
- The texts are short: the first alternative of each group, and the fewest repetitions; the others differ in these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ssa_operator.schema.string_formats import go_pattern

_LENGTHS = (0, 1, 2, 3, 7, 8, 11, 12, 19, 31, 39, 63)
_ALTERNATIVES = 4
_CLASSES = {"d": "1", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "t": "\t", "n": "\n"}
_POSIX = {
    "alpha": "a",
    "alnum": "a",
    "lower": "a",
    "upper": "A",
    "digit": "1",
    "xdigit": "a",
    "word": "a",
    "space": " ",
}
_PREFERRED = "aA1x0b-_./"
_MANY = 1000
_LENGTH_LIMIT = 4096
_DEPTH_LIMIT = 50


@lru_cache(maxsize=256)
def matching_texts(pattern: str) -> tuple[str, ...]:
    """Texts that a pattern matches, the shortest first; none if it is not understood."""
    known = go_pattern(pattern)
    if known is None:
        return ()
    found = dict.fromkeys(text for text in _made(pattern) if known.search(text) is not None)
    return tuple(sorted(found, key=len))


def _made(pattern: str) -> Iterator[str]:
    for choice in range(_ALTERNATIVES):
        for length in _LENGTHS:
            try:
                yield _PatternReader(pattern, choice, length).read()
            except _UnknownSyntaxError:
                return


class _UnknownSyntaxError(Exception):
    """The pattern has a part that no text is made of, or its text is long."""


class _PatternReader:
    """Reads a pattern and writes a text that it matches."""

    def __init__(self, pattern: str, choice: int, more: int) -> None:
        """`choice` is the alternative, and `more` how often a part repeats beyond its least."""
        self._pattern = pattern
        self._choice = choice
        self._more = more
        self._at = 0
        self._depth = 0

    def read(self) -> str:
        """The text. Raises _UnknownSyntaxError."""
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise _UnknownSyntaxError
        return text

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise _UnknownSyntaxError
        self._at += 1
        return self._pattern[self._at - 1]

    def _ahead(self, *words: str) -> bool:
        return any(self._pattern.startswith(word, self._at) for word in words)

    def _alternatives(self) -> str:
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise _UnknownSyntaxError
        found = [self._sequence()]
        while self._ahead("|"):
            self._at += 1
            found.append(self._sequence())
        self._depth -= 1
        return found[min(self._choice, len(found) - 1)]

    def _sequence(self) -> str:
        parts = []
        while self._at < len(self._pattern) and not self._ahead("|", ")"):
            part = self._part()
            least, most = self._repetitions()
            times = max(least, min(most, least + self._more))
            if len(part) * times > _LENGTH_LIMIT:
                raise _UnknownSyntaxError
            parts.append(part * times)
        return "".join(parts)

    def _part(self) -> str:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escaped()
        return "" if character in "^$" else "a" if character == "." else character

    def _group(self) -> str:
        if self._ahead("?"):
            while self._next() not in ":>)":
                pass
            if self._pattern[self._at - 1] == ")":
                return ""
        text = self._alternatives()
        if self._next() != ")":
            raise _UnknownSyntaxError
        return text

    def _escaped(self) -> str:
        character = self._next()
        if character in "AzbB":
            return ""
        if character in "pPQxC":
            raise _UnknownSyntaxError
        return _CLASSES.get(character, character)

    def _class(self) -> str:
        """A character of a class."""
        negated = self._ahead("^")
        self._at += negated
        ranges: list[tuple[str, str]] = []
        while not self._ahead("]") or not ranges:
            low = self._member()
            high = low
            if self._ahead("-") and not self._ahead("-]"):
                self._at += 1
                high = self._member()
            ranges.append((low, high))
        self._at += 1
        for each in (*_PREFERRED, *(low for low, _ in ranges)):
            if any(low <= each <= high for low, high in ranges) is not negated:
                return str(each)
        raise _UnknownSyntaxError

    def _member(self) -> str:
        if self._ahead("[:"):
            end = self._pattern.find(":]", self._at)
            name = self._pattern[self._at + 2 : end]
            if end < 0 or name not in _POSIX:
                raise _UnknownSyntaxError
            self._at = end + 2
            return _POSIX[name]
        character = self._next()
        return self._escaped() if character == "\\" else character

    def _repetitions(self) -> tuple[int, int]:
        """How often the last part repeats, at least and at most."""
        least, most = 1, 1
        if self._ahead("*", "+", "?"):
            least, most = {"*": (0, _MANY), "+": (1, _MANY), "?": (0, 1)}[self._next()]
        elif self._ahead("{"):
            end = self._pattern.find("}", self._at)
            low, comma, high = self._pattern[self._at + 1 : max(end, self._at)].partition(",")
            if not low.isdigit() or not (high.isdigit() or not high):
                return 1, 1
            self._at = end + 1
            least, most = int(low), int(high) if high else _MANY if comma else int(low)
        if self._ahead("?"):
            self._at += 1
        return least, most
