"""The lines of a watch, out of pieces that are cut anywhere.

Promises:
- Each byte is looked at once, however many pieces a line comes in.
- What follows the last line break is not a line yet.
"""

from __future__ import annotations


class Lines:
    """Feed pieces, get the lines that they complete."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that this piece completes, without their line breaks; empty ones are left out."""
        if b"\n" not in piece:
            self._parts.append(piece)
            return []
        lines = piece.split(b"\n")
        if self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
        self._parts = [lines.pop()]
        return [line for line in lines if line]
