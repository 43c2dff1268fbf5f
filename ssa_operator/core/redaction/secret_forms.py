"""The ways in which a message may write the values of a Secret, and how they are found in a text.

Promises:
- A value is found as it is, in upper or lower case, in base64 (also as part of a longer value), escaped or quoted as
  Go, Python, JSON and URLs do, and truncated with `…`.
- The forms of few values are kept as texts. Of many values only hashes are kept, eight bytes a form: a text is found if
  it has a form's beginning, length and hash. What `…` cuts off is hidden by the word then, even if it is no value.
- The time is linear in the length of the text, also where many `…` are in it, and hardly depends on the number of
  values.
"""

from __future__ import annotations

import base64
import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from urllib.parse import quote
from weakref import WeakSet

SHORTEST = 4
"""Characters of a form at least; shorter ones are part of any text."""

_ELLIPSIS = "…"
_HTML_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}
_URL_SAFE = str.maketrans("+/", "-_")
_BASE64_LIKE = re.compile(r"[A-Za-z0-9._+/=-]+", re.ASCII)
"""A text that only URLs escape."""


def lower(text: str) -> str:
    """The text in lower case, if that has as many characters."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text


def beginnings(lowered: str) -> Mapping[str, Sequence[int]]:
    """What a form may begin with in a text, with its positions."""
    found: dict[str, list[int]] = {}
    for at in range(len(lowered) - SHORTEST + 1):
        found.setdefault(lowered[at : at + SHORTEST], []).append(at)
    return found


def forms(values: Iterable[str]) -> Iterator[str]:
    """The ways in which these values may be written, in lower case."""
    for value in values:
        for form in map(lower, _forms(value)):
            if len(form) >= SHORTEST:
                yield form


class ShortForms:
    """The forms of few values, as they are."""

    __slots__ = ("_beginnings", "_parts", "_texts")

    def __init__(self, values: Iterable[str]) -> None:
        starts: dict[str, dict[str, None]] = {}
        for form in forms(values):
            starts.setdefault(form[:SHORTEST], {})[form] = None
        self._beginnings = {start: tuple(found) for start, found in starts.items()}
        self._texts = "\n".join(form for known in self._beginnings.values() for form in known)
        self._parts = frozenset(beginnings(self._texts))

    def find(self, lowered: str, starts: Mapping[str, Sequence[int]], cuts: Sequence[int]) -> dict[int, int]:
        """The end of the longest form at each position where one begins. `starts` are `beginnings(lowered)`, `cuts` are
        `cuts_of(lowered)`.
        """
        found = {}
        for start in self._beginnings.keys() & starts.keys():
            for at in starts[start]:
                end = max(_end(form, lowered, at, cuts) for form in self._beginnings[start])
                if end > at:
                    found[at] = end
        for cut, following in _pairs(cuts, len(lowered)):
            at = cut + 1
            if lowered[at : at + SHORTEST] in self._parts:
                length = longest_part(lowered[at:following], self._texts, from_end=False)
                if length:
                    found.setdefault(at, at + length)
        return found


def cuts_of(text: str) -> list[int]:
    """The positions at which a text is cut off, each with an ellipsis."""
    return [found.start() for found in re.finditer(_ELLIPSIS, text)]


def _pairs(cuts: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    """Each cut with the next one, the last one with the end."""
    return zip(cuts, (*cuts[1:], end), strict=False)


def longest_part(text: str, known: str, *, from_end: bool) -> int:
    """Characters at the end or at the beginning of a text that are a part of `known`; 0 for fewer than SHORTEST."""
    least, most = 0, len(text)
    while least < most:
        length = (least + most + 1) // 2 if least else min(SHORTEST, most)
        if (text[-length:] if from_end else text[:length]) in known:
            least = length
        else:
            most = length - 1 if least else 0
    return least if least >= SHORTEST else 0


def _end(form: str, text: str, at: int, cuts: Sequence[int]) -> int:
    """The end of the form that begins at this position; the position itself where the form isn't there."""
    if text.startswith(form, at):
        return at + len(form)
    next_cut = bisect_left(cuts, at)
    ellipsis = cuts[next_cut] if next_cut < len(cuts) else len(text)
    cut_off = at + SHORTEST <= ellipsis < at + len(form) and next_cut < len(cuts)
    return ellipsis if cut_off and form.startswith(text[at:ellipsis]) else at


# An entry of LongForms: the hash of the form's beginning, its length, and its hash.
_BEGINNING = 6
_LENGTH_BITS, _HASH_BITS = 12, 24
_AFTER_BEGINNING = _LENGTH_BITS + _HASH_BITS
_LONGEST = (1 << _LENGTH_BITS) - 1
_HASH_MASK, _BEGINNING_MASK = (1 << _HASH_BITS) - 1, (1 << (64 - _AFTER_BEGINNING)) - 1

_BLANK = re.compile(r"\s")


class LongForms:
    """The forms of many values, as hashes."""

    __slots__ = ("__weakref__", "_entries", "_lines", "_short")

    def __init__(self, values: AbstractSet[str]) -> None:
        entries, lines = set[int](), list[str]()
        short: dict[str, dict[str, None]] = {}
        for form in forms(values):
            if _BLANK.search(form) is not None:
                lines.append(form)
            if len(form) < _BEGINNING:
                short.setdefault(form[:SHORTEST], {})[form] = None
            elif len(form) <= _LONGEST:
                entries.add(_entry(form))
            else:
                entries.update(map(_entry, _pieces(form)))
        self._entries = array("Q", sorted(entries))
        self._short = {start: tuple(known) for start, known in short.items()}
        # Forms without blanks are words, and a word that is cut off is hidden in any case.
        self._lines = "\n".join(lines)
        _LONG_BEGINNINGS.add(self)

    @property
    def entries(self) -> array[int]:
        return self._entries

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return self._entries.itemsize * len(self._entries) + len(self._lines) + 250 * len(self._short)

    def find(
        self, lowered: str, starts: Mapping[str, Sequence[int]], cuts: Sequence[int], positions: Iterable[int]
    ) -> dict[int, int]:
        """As of ShortForms. `positions` are `long_positions(lowered)`."""
        found = {}
        for at in positions:
            end = self._end(lowered, at, cuts)
            if end > at:
                found[at] = end
        for start in self._short.keys() & starts.keys():
            for at in starts[start]:
                end = max(_end(form, lowered, at, cuts) for form in self._short[start])
                if end > at:
                    found[at] = max(end, found.get(at, at))
        for at, end in self._cut_off(lowered, cuts):
            found[at] = max(end, found.get(at, at))
        return found

    def _end(self, text: str, at: int, cuts: Sequence[int]) -> int:
        """The end of the longest form at a position; the position itself if none begins there."""
        entries, end = self._entries, at
        key = _beginning(text[at : at + _BEGINNING]) << _AFTER_BEGINNING
        limit, place = key + (1 << _AFTER_BEGINNING), bisect_left(entries, key)
        while place < len(entries) and entries[place] < limit:
            length = entries[place] >> _HASH_BITS & _LONGEST
            wanted = key | length << _HASH_BITS | hash(text[at : at + length]) & _HASH_MASK
            place = bisect_left(entries, wanted, place)
            if at + length <= len(text) and place < len(entries) and entries[place] == wanted:
                end = max(end, at + length)
            else:
                next_cut = bisect_left(cuts, at + _BEGINNING)
                if next_cut < len(cuts) and cuts[next_cut] < at + length:
                    end = max(end, cuts[next_cut])
            place = bisect_left(entries, key | (length + 1) << _HASH_BITS, place)
        return end

    def _cut_off(self, text: str, cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
        """What may be a part of a value before and after each `…`."""
        before = 0
        for at, following in _pairs(cuts, len(text)):
            start, end = at, at + 1
            while start > before and not _is_word_end(text[start - 1]):
                start -= 1
            while end < following and not _is_word_end(text[end]):
                end += 1
            start = min(start, at - longest_part(text[before:at], self._lines, from_end=True))
            end = max(end, at + 1 + longest_part(text[at + 1 : following], self._lines, from_end=False))
            for first, part in ((start, text[start:at]), (at + 1, text[at + 1 : end])):
                inner = part.strip()
                if len(inner) >= SHORTEST:
                    begins = first + part.index(inner)
                    yield begins, begins + len(inner)
            before = at + 1


def _is_word_end(letter: str) -> bool:
    return letter.isspace() or letter == _ELLIPSIS


class _LongBeginnings:
    """What the forms of all LongForms of the process begin with, as one bit for each hash: most positions of a text are
    the beginning of none.
    """

    __slots__ = ("_added", "_bits", "_known")

    _BITS = 25

    def __init__(self) -> None:
        self._bits = bytearray()
        self._known: WeakSet[LongForms] = WeakSet()
        self._added = 0

    def add(self, known: LongForms) -> None:
        """Add the beginnings of these forms. Those of forms that are no longer in memory go now and then."""
        self._known.add(known)
        self._added += len(known.entries)
        if self._bits and self._added < 1 << (self._BITS - 3):
            self._set(known)
            return
        self._bits = bytearray(1 << (self._BITS - 3))
        self._added = sum(len(each.entries) for each in self._known)
        for each in self._known:
            self._set(each)

    def _set(self, known: LongForms) -> None:
        bits, shift, mask = self._bits, _AFTER_BEGINNING, (1 << self._BITS) - 1
        for entry in known.entries:
            at = entry >> shift & mask
            bits[at >> 3] |= 1 << (at & 7)

    def positions(self, lowered: str) -> list[int]:
        """The positions of a text at which a form may begin."""
        bits, mask = self._bits, (1 << self._BITS) - 1
        return [
            at
            for at in range(len(lowered) - _BEGINNING + 1)
            if bits[(found := hash(lowered[at : at + _BEGINNING]) & mask) >> 3] & 1 << (found & 7)
        ]


_LONG_BEGINNINGS = _LongBeginnings()


def long_positions(lowered: str) -> list[int]:
    """The positions of a text at which a form of any LongForms may begin."""
    return _LONG_BEGINNINGS.positions(lowered)


def _pieces(form: str) -> Iterator[str]:
    """A form in pieces that an entry has room for."""
    size = -(-len(form) // -(-len(form) // _LONGEST))
    return (form[at : at + size] for at in range(0, len(form), size))


def _entry(form: str) -> int:
    return _beginning(form[:_BEGINNING]) << _AFTER_BEGINNING | len(form) << _HASH_BITS | hash(form) & _HASH_MASK


def _beginning(text: str) -> int:
    return hash(text) & _BEGINNING_MASK


def _forms(value: str) -> set[str]:
    """The ways in which a value may be written."""
    if _BASE64_LIKE.fullmatch(value) is not None:
        quoted = value.replace("+", "%2B").replace("=", "%3D")
        found = {value, quoted, quoted.replace("/", "%2F")}
    else:
        plain = json.dumps(value, ensure_ascii=False)[1:-1]
        found = {
            value,
            repr(value)[1:-1],
            json.dumps(value)[1:-1],
            plain,
            plain.translate(_HTML_ESCAPES),
            quote(value),
            quote(value, safe=""),
            value.replace("'", "''"),
            " ".join(value.split()),
        }
    data = value.encode(errors="replace")
    # As part of a longer value, a value has three forms in base64. Characters with bits of its neighbours are left out.
    for before in range(3):
        first, bits = -(-before * 8 // 6), (before + len(data)) * 8
        core = base64.b64encode(b"\0" * before + data)[first : bits // 6].decode()
        if len(core) > SHORTEST:
            found.add(core)
            if "+" in core or "/" in core:
                found.add(core.translate(_URL_SAFE))
    return found
