"""The values of one content of a Secret, shared by everything that knows it.

Promises:
- Its forms are made once, when the first text is searched.
- Of a long content only hashes stay in memory.
- A content that is no longer current is known for a while, because messages may still quote what was made of it:
  `FormerContents` keeps those that were replaced last.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from ssa_operator.core.redaction.secret_forms import (
    LongForms,
    ShortForms,
    beginnings,
    long_positions,
    lower,
    windows_of,
)

FORMER_BYTES = 8 * 1024 * 1024
"""Memory of the contents of all Secrets that are kept although they are no longer current: of the short ones, and of
the long ones."""

_SHORT = 4096
"""Characters of all values up to which the forms are kept as they are."""

_WINDOWS_LIMIT = 128 * 1024
"""Characters of all known values up to which parts of them are compared."""

_WINDOW_MASK = (1 << 32) - 1


class SecretContent:
    """The values of one content of a Secret, or generated values."""

    __slots__ = ("__weakref__", "_forms", "_values", "_windows", "characters")

    def __init__(self, values: frozenset[str]) -> None:
        self.characters = sum(map(len, values))
        """Characters of all values."""
        self._values: frozenset[str] = values
        self._forms: ShortForms | LongForms | None = None
        self._windows: array[int] | None = None

    def __bool__(self) -> bool:
        return self.characters > 0

    @property
    def long(self) -> bool:
        """Whether only hashes of its forms are kept."""
        return self.characters > _SHORT

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        values = self.characters + 60 * len(self._values) if self._values else 0
        return values + (self._forms.size if self._forms is not None else 0)

    def has_values(self, values: AbstractSet[str]) -> bool:
        """Whether these are its values. False for a long content, which forgets them."""
        return self._values == values

    @property
    def forms(self) -> ShortForms | LongForms:
        """What the values are found with in a text."""
        if self._forms is None:
            self._forms = LongForms(self._values) if self.long else ShortForms(self._values)
            if self.characters > _WINDOWS_LIMIT:
                self._values = frozenset()  # windows over so many characters are not searched
        return self._forms

    def has_part(self, windows: Iterable[str], shows: Callable[[str, str], bool]) -> bool:
        """Whether one of these texts of WINDOW characters is a part of a value. `shows` returns whether a part and its
        value are no secret.
        """
        if self._windows is None:
            self._windows = array("I", sorted({_hash(each) for value in self._values for each in windows_of(value)}))
        known = self._windows
        return any(
            (at := bisect_left(known, _hash(window))) < len(known)
            and known[at] == _hash(window)
            and any(window in lowered and not shows(window, lowered) for lowered in map(lower, self._values))
            for window in windows
        )


class FormerContents:
    """Contents that were replaced, the oldest first. Long ones don't displace short ones: `limit` holds for each."""

    def __init__(self, limit: int = FORMER_BYTES) -> None:
        self._limit = limit
        self._long: dict[SecretContent, int] = {}
        self._short: dict[SecretContent, int] = {}

    def __contains__(self, content: SecretContent) -> bool:
        return content in self._sizes(content)

    def keep(self, contents: Iterable[SecretContent]) -> None:
        """Keep these, and forget the oldest where all take more memory than the limit."""
        for content in contents:
            sizes = self._sizes(content)
            if content and content not in sizes:
                sizes[content] = content.size
                total = sum(sizes.values())
                while total > self._limit:
                    total -= sizes.pop(next(iter(sizes)))

    def _sizes(self, content: SecretContent) -> dict[SecretContent, int]:
        return self._long if content.long else self._short


def find_forms(contents: Iterable[SecretContent], lowered: str) -> dict[int, int]:
    """The end of the longest form of any of these contents at each position of a text where one begins."""
    starts, positions = beginnings(lowered), None
    ends: dict[int, int] = {}
    for forms in (content.forms for content in contents):
        if isinstance(forms, ShortForms):
            found = forms.find(lowered, starts)
        else:
            positions = long_positions(lowered) if positions is None else positions
            found = forms.find(lowered, starts, positions)
        for at, end in found.items():
            ends[at] = max(end, ends.get(at, at))
    return ends


def has_parts(contents: Sequence[SecretContent], windows: AbstractSet[str], shows: Callable[[str, str], bool]) -> bool:
    """Whether one of these texts of WINDOW characters may be a part of a value (`SecretContent.has_part`). Where there
    are too many values, any text may be.
    """
    if sum(content.characters for content in contents) > _WINDOWS_LIMIT:
        return True
    return any(content.has_part(windows, shows) for content in contents)


def _hash(text: str) -> int:
    return hash(text) & _WINDOW_MASK
