"""Places in a text: lines and columns of characters, and the positions of the Language Server Protocol.

Promises:
- A line and a column count characters from 0. A position counts the units of the encoding that the client and the
  server agreed on: UTF-16 by default.
- A place outside of the text is moved to its nearest end. A place within a character is moved to its beginning.
- A line ends with a line feed, a carriage return, or both, as the protocol says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

UTF_8, UTF_16, UTF_32 = "utf-8", "utf-16", "utf-32"

_CODECS = {UTF_8: ("utf-8", 1), UTF_16: ("utf-16-le", 2), UTF_32: ("utf-32-le", 4)}

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of one line."""

    line: int
    column: int
    end: int
    """The column after its last character."""


@dataclass(frozen=True, slots=True)
class Target:
    """A part of a file, to which an editor goes."""

    path: Path
    span: Span


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their ends."""
    return _LINE_END.split(text)


def units(text: str, encoding: str = UTF_16) -> int:
    """The length of a text in the units of an encoding."""
    codec, size = _CODECS[encoding]
    return len(text) if text.isascii() else len(text.encode(codec, "surrogatepass")) // size


def column_of(line: str, character: int, encoding: str = UTF_16) -> int:
    """The column of a position's character in a line."""
    if character <= 0:
        return 0
    if line.isascii():
        return min(character, len(line))
    left = character
    for column, each in enumerate(line):
        left -= units(each, encoding)
        if left < 0:
            return column
    return len(line)


def whole_line(line: str, number: int) -> Span:
    """A line without its indentation."""
    text = line.strip()
    begin = line.index(text) if text else 0
    return Span(number, begin, begin + len(text))
