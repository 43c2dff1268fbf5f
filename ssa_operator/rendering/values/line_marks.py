"""Marks in rendered text that lead from each character to the template line that wrote it.

Promises:
- A template never sees a mark: the render removes marks before it reads text as a value or as YAML.
- Each position of the rendered text maps to a template line and to the lines that included it.
- No mark can be forged: a template with a reserved character doesn't load, and values are never part of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.values import limits

CLOSE = "\ue001"
LINE = "\ue002"
PUSH = "\ue003"
"""Begins text that the current line included."""
POP = "\ue004"
"""Ends text that a line included."""

EMPTY = {"{}": "\ue005", "[]": "\ue006"}
"""Characters in place of the YAML text of an empty mapping or list until its neighbours are known."""

RESERVED = re.compile("[\ue000-\ue006]")
"""Characters of the private use area: a template can't contain them literally, a value can."""

MARK = rf"{LINE}[0-9]+\.[0-9]+{CLOSE}|{PUSH}|{POP}"
MARKS = f"{LINE}{PUSH}{POP}"

_MARK = re.compile(rf"{LINE}([0-9]+)\.([0-9]+){CLOSE}|({PUSH})|({POP})")


def line_mark(file: int, line: int) -> str:
    """The mark of a line; `file` is the number of the template in its set."""
    return f"{LINE}{file}.{line}{CLOSE}"


def without_marks(text: str) -> str:
    """The text as YAML or an expression reads it."""
    if text.isascii():
        return text
    text = _MARK.sub("", text)
    for empty, stand_in in EMPTY.items():
        text = text.replace(stand_in, empty)
    return text


def resolve_empty_collections(marked: str) -> str:
    """The text with each empty mapping or list written out, or left out if the lines around it are its siblings."""
    lines = marked.split("\n")
    unmarked = [_MARK.sub("", line) for line in lines]
    for at, line in enumerate(unmarked):
        for empty, stand_in in EMPTY.items():
            if stand_in in line:
                joined = line.strip() == stand_in and _has_siblings(unmarked, at, item=empty == "[]")
                lines[at] = lines[at].replace(stand_in, "" if joined else empty)
    return "\n".join(lines)


def _has_siblings(lines: Sequence[str], at: int, item: bool) -> bool:
    """Whether the nearest line above or below that isn't deeper is an item (or a key) of the same collection."""
    depth = _indentation(lines[at], item)
    for positions in (range(at - 1, -1, -1), range(at + 1, len(lines))):
        others = (lines[position] for position in limits.counted(positions))
        nearest = next((line for line in others if _has_content(line) and _indentation(line, item) <= depth), "")
        if (
            _has_content(nearest)
            and _indentation(nearest, item) == depth
            and (not item or nearest.lstrip(" ").startswith("- "))
        ):
            return True
    return False


def _has_content(line: str) -> bool:
    return bool(line.strip()) and line.strip() not in EMPTY.values() and not line.lstrip().startswith("#")


def _indentation(line: str, item: bool) -> int:
    return len(line) - len(line.lstrip(" " if item else " -"))


class StaticText:
    """The text of a static file, and the location of each character."""

    __slots__ = ("_breaks", "_file", "_last", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self._file = file
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self._last = text.rstrip().count("\n")

    def __call__(self, offset: int) -> SourceLocation:
        """The location of a character. A missing end of the file has the location of the last line."""
        return SourceLocation(self._file, min(bisect_left(self._breaks, offset), self._last) + 1)


class MarkedText:
    """Rendered text without its marks, and the location of each character."""

    __slots__ = ("_locations", "_offsets", "text")

    def __init__(self, marked: str, files: Sequence[str], start: SourceLocation) -> None:
        """Remove the marks from `marked`; `start` is the location of the text before the first mark."""
        self._offsets: list[int] = [0]
        self._locations: list[SourceLocation] = [start]
        stack: list[SourceLocation] = []
        here = start
        parts: list[str] = []
        offset = end = 0
        for mark in _MARK.finditer(marked):
            parts.append(marked[end : mark.start()])
            offset += mark.start() - end
            end = mark.end()
            if mark[1]:
                here = SourceLocation(files[int(mark[1])], int(mark[2]), tuple(reversed(stack)))
            elif mark[3]:
                stack.append(SourceLocation(here.file, here.line))
                continue
            elif stack:
                back = stack.pop()
                here = SourceLocation(back.file, back.line, tuple(reversed(stack)))
            self._offsets.append(offset)
            self._locations.append(here)
        parts.append(marked[end:])
        self.text = "".join(parts)

    def has_one_mark(self, first: int, last: int) -> bool:
        """Whether no line of a template begins between two characters: a value wrote the line breaks there."""
        return bisect_right(self._offsets, first) == bisect_right(self._offsets, last)

    def __call__(self, offset: int) -> SourceLocation:
        """The location that wrote a character."""
        at = bisect_right(self._offsets, offset) - 1
        if at + 1 < len(self._offsets) and self.text[offset : offset + 1] in (" ", "\t"):
            # The blanks before the first mark of a line belong to that mark.
            before = self.text[self.text.rfind("\n", 0, offset) + 1 : self._offsets[at + 1]]
            at += not before.strip(" \t")
        return self._locations[at]
