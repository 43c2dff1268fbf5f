"""Splits the stream of a watch into lines; the network cuts it into pieces anywhere.

Promises:
- The splitter scans each byte once, however many pieces a line has.
- The splitter keeps the bytes after the last line break until their line is complete.
"""

from __future__ import annotations


class LineSplitter:
    """Returns the lines that each fed piece completes."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that this piece completes, without line breaks and without empty lines."""
        if b"\n" not in piece:
            self._parts.append(piece)
            return []
        lines = piece.split(b"\n")
        if self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
        self._parts = [lines.pop()]
        return [line for line in lines if line]
