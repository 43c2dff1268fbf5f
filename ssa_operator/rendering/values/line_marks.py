"""Marks in rendered text that tell which template line wrote what.

Promises:
- Marks are invisible to templates: they are taken out before text is read as a value or as YAML.
- Each position of the rendered text leads to a template line and to the lines that included it.
- The marked characters can't occur in a template (it is refused at load) or in a value (values never are in the text).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ssa_operator.core.objects.source_location import SourceLocation

CLOSE = "\ue001"
LINE = "\ue002"
PUSH = "\ue003"
"""What follows was included by the line that is the current one here."""
POP = "\ue004"
"""The end of what was included."""

EMPTY = {"{}": "\ue005", "[]": "\ue006"}
"""What stands for the YAML text of an empty mapping or list until its neighbours are known."""

RESERVED = re.compile("[\ue000-\ue006]")
"""Characters of the private use area that templates can't hold literally; values can."""

MARK = rf"{LINE}[0-9]+\.[0-9]+{CLOSE}|{PUSH}|{POP}"
MARKS = f"{LINE}{PUSH}{POP}"

_MARK = re.compile(rf"{LINE}([0-9]+)\.([0-9]+){CLOSE}|({PUSH})|({POP})")


def line_mark(file: int, line: int) -> str:
    """The mark of a line; `file` is the number of the template in its set."""
    return f"{LINE}{file}.{line}{CLOSE}"


def without_marks(text: str) -> str:
    """The text as it will be read."""
    if text.isascii():
        return text
    text = _MARK.sub("", text)
    for empty, stand_in in EMPTY.items():
        text = text.replace(stand_in, empty)
    return text


def settled(marked: str) -> str:
    """The text with its empty mappings and lists written out, or left out among neighbours that they join."""
    lines = marked.split("\n")
    read = [_MARK.sub("", line) for line in lines]
    for at, line in enumerate(read):
        for empty, stand_in in EMPTY.items():
            if stand_in in line:
                merged = line.strip() == stand_in and _has_siblings(read, at, item=empty == "[]")
                lines[at] = lines[at].replace(stand_in, "" if merged else empty)
    return "\n".join(lines)


def _has_siblings(lines: Sequence[str], at: int, item: bool) -> bool:
    """Whether the nearest line above or below that isn't deeper is an item (else a key) of the same collection."""
    depth = _depth(lines[at], item)
    for others in (reversed(lines[:at]), lines[at + 1 :]):
        nearest = next((line for line in others if _content(line) and _depth(line, item) <= depth), "")
        if _content(nearest) and _depth(nearest, item) == depth and (not item or nearest.lstrip(" ").startswith("- ")):
            return True
    return False


def _content(line: str) -> bool:
    return bool(line.strip()) and line.strip() not in EMPTY.values() and not line.lstrip().startswith("#")


def _depth(line: str, item: bool) -> int:
    return len(line) - len(line.lstrip(" " if item else " -"))


class Lines:
    """The places in a file that is taken as it stands."""

    __slots__ = ("_breaks", "_file", "_last", "text")

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self._file = file
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self._last = text.rstrip().count("\n")

    def __call__(self, offset: int) -> SourceLocation:
        """The place of a character; what is missing at the end is missing in the last line."""
        return SourceLocation(self._file, min(bisect_left(self._breaks, offset), self._last) + 1)


class Places:
    """The places in rendered text."""

    __slots__ = ("_offsets", "_places", "text")

    def __init__(self, marked: str, files: Sequence[str], start: SourceLocation) -> None:
        """Take the marks out of `marked`; `start` is the place of what stands before the first one."""
        self._offsets: list[int] = [0]
        self._places: list[SourceLocation] = [start]
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
            self._places.append(here)
        parts.append(marked[end:])
        self.text = "".join(parts)

    def __call__(self, offset: int) -> SourceLocation:
        """The place that wrote a character."""
        at = bisect_right(self._offsets, offset) - 1
        if at + 1 < len(self._offsets):
            # The blanks before the first mark of a line belong to it.
            before = self.text[self.text.rfind("\n", 0, offset) + 1 : self._offsets[at + 1]]
            at += not before.strip(" \t")
        return self._places[at]
