"""How long Python's `re` may take for a pattern: proven linear, or named as worse.

Promises:
- A pattern that is called linear takes at most a fixed number of steps for each character of a text.
- A pattern of which this can't be proven is not called linear.

`re` tries the paths of an automaton one after the other. So its time is the number of paths that read the same text:
two loops that both read it, one after the other, make it quadratic ("infinite degree of ambiguity"), and a loop that
reads it in two ways makes it exponential ("exponential degree of ambiguity"). Both are properties of products of the
automaton with itself: Weber and Seidl, On the degree of ambiguity of finite automata, 1991. Looking for a pattern in a
text begins with a loop that reads everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

FULL, MATCH, SEARCH, EVERY = "fullmatch", "match", "search", "findall"
"""What is asked of a pattern: the whole text, its beginning, a part, or all parts."""

_COPIES = 3
"""How often a part with a bounded repetition is written out; more of them read no other texts."""

_SINGLE = (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN)
"""Parts that read one character."""

_LOOKS = frozenset({"looks"})
"""Stands for a condition on what follows that is no single character."""

_SAMPLES = "\t\n\r aAzZ09_-.:\"'\\/[](){}é٣\u2028\x85𐀀"


def slowness(pattern: str, flags: int, asked: str) -> str:
    """Why a pattern is not proven linear, '' if it is."""
    parsed = parser.parse(pattern, flags)
    try:
        return _Automaton(parsed, parsed.state.flags, asked).slowness()
    except _UnprovableError as error:
        return str(error)


class _UnprovableError(Exception):
    """A part of a pattern that the proof does not know."""


@dataclass(slots=True)
class _Part:
    """A part of a pattern: the places of its characters at which it may begin and end."""

    first: list[tuple[int, frozenset[str]]]
    """Places, each with the characters that must not come there."""
    last: list[tuple[int, frozenset[str]]]
    """Places, each with the characters that must not follow."""
    empty: list[frozenset[str]]
    """The ways to read nothing, each with the characters that must not follow."""


@dataclass(slots=True)
class _Automaton:
    parsed: Any
    flags: int
    asked: str
    alphabet: frozenset[str] = frozenset()
    reads: list[frozenset[str]] = field(default_factory=list)
    """The characters that each place reads."""
    follows: list[list[tuple[int, frozenset[str]]]] = field(default_factory=list)
    """The places after each place, each with the characters that go there."""
    anchored: bool = False
    """Whether the pattern begins at the beginning of the text."""
    ends: bool = False
    """Whether the pattern must reach the end of the text."""
    after: frozenset[str] | None = None
    """The characters before which the pattern does not begin; None if it begins anywhere."""

    def slowness(self) -> str:
        self.alphabet = frozenset(_SAMPLES) | frozenset(_neighbours(self.parsed))
        self.anchored, self.ends = self.asked in (FULL, MATCH), self.asked == FULL
        whole = self._sequence(self.parsed, outermost=True)
        accepting = set() if self.ends else self._accepting(whole)
        if not self.ends and frozenset() in whole.empty:
            accepting = set(range(len(self.reads)))  # it matches everywhere
        scan = None if self.anchored else self._scan(whole)
        if twice := self._in_two_ways(accepting):
            return f"exponential: two ways to read {twice!r} again and again"
        loops = [place for place in range(len(self.reads)) if self._can_repeat(place, set())]
        for one, other in product(loops, repeat=2):
            passes = one == scan and self.asked == EVERY
            if one == other or other in accepting or (one in accepting and not passes):
                continue
            if other not in self._reachable([one], set()):
                continue
            # A new search may read again what the last one read beyond its match.
            if text := self._twice(one, other, [set() if passes else accepting] * 2 + [accepting]):
                return f"quadratic: two loops read {text!r}"
        return ""

    def _accepting(self, whole: _Part) -> set[int]:
        """The places after which the pattern matches, whatever follows."""
        last: dict[int, frozenset[str]] = {}
        for place, forbidden in whole.last:
            last[place] = last.get(place, forbidden) & forbidden
        while True:
            found = {
                place
                for place, forbidden in last.items()
                if forbidden <= frozenset().union(*(reads for each, reads in self.follows[place] if each in last))
            }
            if len(found) == len(last):
                return found
            last = {place: last[place] for place in found}

    def _scan(self, whole: _Part) -> int:
        """Add the loop that looks for the beginning of the pattern."""
        scan = self._place(self.alphabet)
        self.follows[scan].append((scan, self.alphabet))
        begin = scan
        if self.after is not None:
            begin = self._place(self.alphabet - self.after)
            self.follows[scan].append((begin, self.reads[begin]))
        self._join([(begin, frozenset())], whole.first)
        return scan

    # The automaton of Glushkov: each character of the pattern is a place.

    def _place(self, reads: frozenset[str]) -> int:
        self.reads.append(reads)
        self.follows.append([])
        return len(self.reads) - 1

    def _join(self, last: Sequence[tuple[int, frozenset[str]]], first: Sequence[tuple[int, frozenset[str]]]) -> None:
        for (before, forbidden), (place, barred) in product(last, first):
            if reads := self.reads[place] - forbidden - barred:
                self.follows[before].append((place, reads))

    def _sequence(self, parts: Any, *, outermost: bool = False) -> _Part:
        whole = _Part([], [], [frozenset()])
        items = list(parts)
        for at, (op, argument) in enumerate(items):
            part = self._part(op, argument, begins=outermost and at == 0, ends=outermost and at == len(items) - 1)
            self._join(whole.last, part.first)
            whole.first += [(place, barred | skip) for skip in whole.empty for place, barred in part.first]
            whole.last = part.last + [
                (place, forbidden | skip) for skip in part.empty for place, forbidden in whole.last
            ]
            whole.empty = [one | other for one in whole.empty for other in part.empty]
        return whole

    def _part(self, op: Any, argument: Any, *, begins: bool, ends: bool) -> _Part:
        if op in _SINGLE:
            place = self._place(self._characters(op, argument))
            return _Part([(place, frozenset())], [(place, frozenset())], [])
        if op is ops.BRANCH:
            options = [self._sequence(each) for each in argument[1]]
            return _Part(*([x for each in options for x in getattr(each, name)] for name in ("first", "last", "empty")))
        if op is ops.GROUPREF and self.parsed.state.groupwidths[argument] == (1, 1):
            place = self._place(self.alphabet)
            return _Part([(place, frozenset())], [(place, frozenset())], [])
        if op is ops.SUBPATTERN:
            return self._sequence(argument[3])
        if op is ops.ATOMIC_GROUP:
            return self._sequence(argument)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            return self._repeat(*argument, possessive=op is ops.POSSESSIVE_REPEAT)
        if op is ops.AT:
            return self._position(argument, begins=begins, ends=ends)
        if op in (ops.ASSERT, ops.ASSERT_NOT):
            return self._look(argument[0], argument[1], wanted=op is ops.ASSERT, begins=begins)
        raise _UnprovableError(f"it has {op}")

    def _repeat(self, least: int, most: int, parts: Any, *, possessive: bool) -> _Part:
        endless = most == ops.MAXREPEAT
        copies = max(1, min(least, _COPIES)) if endless else max(1, min(most, _COPIES))
        whole = _Part([], [], [frozenset()])
        for copy in range(copies):
            part = self._sequence(parts)
            if endless and copy == copies - 1:
                self._join(part.last, part.first)
            if copy >= least and not part.empty:
                part.empty = [frozenset()]
            self._join(whole.last, part.first)
            whole.first += [(place, barred | skip) for skip in whole.empty for place, barred in part.first]
            whole.last = part.last + [
                (place, forbidden | skip) for skip in part.empty for place, forbidden in whole.last
            ]
            whole.empty = [one | other for one in whole.empty for other in part.empty]
        if possessive and endless and len(parts) == 1 and parts[0][0] in _SINGLE:
            reads = self._characters(*parts[0])  # a possessive loop goes on as long as it can
            whole.last = [(place, forbidden | reads) for place, forbidden in whole.last]
            whole.empty = [forbidden | reads for forbidden in whole.empty]
        return whole

    def _position(self, kind: Any, *, begins: bool, ends: bool) -> _Part:
        if begins and kind in (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING):
            if self.flags & re.MULTILINE and kind is ops.AT_BEGINNING:
                self.after = self.alphabet - {"\n"} if self.after is None else self.after
            else:
                self.anchored = True
        elif begins and kind is ops.AT_BOUNDARY:
            self.after = self._characters(ops.IN, [(ops.CATEGORY, ops.CATEGORY_WORD)])
        elif ends and kind in (ops.AT_END, ops.AT_END_STRING):
            self.ends = True
        return _Part([], [], [frozenset()] if not ends or self.ends else [self.alphabet])

    def _look(self, direction: int, parts: Any, *, wanted: bool, begins: bool) -> _Part:
        low, high = parts.getwidth()
        single = parts[0] if len(parts) == 1 and low == high == 1 else None
        if direction > 0:
            if single is not None and single[0] in _SINGLE:
                reads = self._characters(*single)
                return _Part([], [], [self.alphabet - reads if wanted else reads])
            # What it looks at is read, and then the rest of the pattern is.
            return _Part(self._sequence(parts).first, [], [_LOOKS])
        if begins and single is not None and single[0] in _SINGLE:
            reads = self._characters(*single)
            self.after = self.alphabet - reads if wanted else reads
        return _Part([], [], [_LOOKS])  # Python looks back at a fixed number of characters only

    def _characters(self, op: Any, argument: Any) -> frozenset[str]:
        return frozenset(each for each in self.alphabet if self._reads(op, argument, each))

    def _reads(self, op: Any, argument: Any, character: str) -> bool:
        code = ord(character)
        folded = {code, ord(character.swapcase())} if self.flags & re.IGNORECASE and character.isascii() else {code}
        match op:
            case ops.ANY:
                return bool(self.flags & re.DOTALL) or character != "\n"
            case ops.LITERAL:
                return argument in folded
            case ops.NOT_LITERAL:
                return argument not in folded
            case ops.RANGE:
                return any(argument[0] <= each <= argument[1] for each in folded)
            case ops.CATEGORY:
                text = _CATEGORIES[str(argument).removeprefix("CATEGORY_")]
                return re.match(text, character, self.flags & re.ASCII) is not None
        negated = argument[0][0] is ops.NEGATE
        return any(self._reads(kind, each, character) for kind, each in argument[negated:]) is not negated

    # Its products.

    def _in_two_ways(self, accepting: set[int]) -> str:
        """A character that a loop reads in two ways, '' if there is none."""
        kept = [place for place in range(len(self.reads)) if place not in accepting]
        for place in kept:
            if self._can_repeat(place, accepting):
                for at, (one, reads) in enumerate(self.follows[place]):
                    for other, also in self.follows[place][at + 1 :]:
                        both = reads & also
                        if both and self._rejoin(one, other, place, accepting):
                            return min(both)
        return ""

    def _can_repeat(self, place: int, accepting: set[int]) -> bool:
        return place in self._reachable([each for each, _ in self.follows[place]], accepting)

    def _reachable(self, places: Sequence[int], accepting: set[int]) -> set[int]:
        found, left = set[int](), [each for each in places if each not in accepting]
        while left:
            place = left.pop()
            if place not in found:
                found.add(place)
                left += [each for each, _ in self.follows[place] if each not in accepting]
        return found

    def _rejoin(self, one: int, other: int, place: int, accepting: set[int]) -> bool:
        """Whether two places lead back to a place by the same text."""
        if one in accepting or other in accepting:
            return False
        return (place, place) in self._products((one, other), [accepting] * 2)

    def _twice(self, one: int, other: int, accepting: list[set[int]]) -> str:
        """A character that begins a text that a loop, another loop and the way from the first to the second read."""
        start, end = (one, one, other), (one, other, other)
        for (a, x), (b, y), (c, z) in product(*(self.follows[each] for each in start)):
            both = x & y & z
            if both and end in self._products((a, b, c), accepting):
                return min(both)
        return ""

    def _products(self, start: tuple[int, ...], accepting: list[set[int]]) -> set[tuple[int, ...]]:
        """The places that copies of the automaton reach together, each without its accepting ones."""
        found, left = set[tuple[int, ...]](), [start]
        while left:
            places = left.pop()
            if places in found or any(place in ends for place, ends in zip(places, accepting, strict=True)):
                continue
            found.add(places)
            left += [
                tuple(place for place, _ in steps)
                for steps in product(*(self.follows[each] for each in places))
                if frozenset.intersection(*(reads for _, reads in steps))
            ]
        return found


_CATEGORIES = {
    "DIGIT": r"\d",
    "NOT_DIGIT": r"\D",
    "SPACE": r"\s",
    "NOT_SPACE": r"\S",
    "WORD": r"\w",
    "NOT_WORD": r"\W",
}


def _neighbours(parts: Any) -> Iterator[str]:
    """The characters of a pattern, and those next to them."""
    if isinstance(parts, int) and not isinstance(parts, bool):
        yield from (chr(each) for each in (parts - 1, parts, parts + 1) if 0 <= each < 0x110000)
    elif isinstance(parts, (list, tuple, parser.SubPattern)):
        for each in parts:
            yield from _neighbours(each)
