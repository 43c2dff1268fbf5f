"""The events of a watch, one a line; the network cuts the stream into pieces anywhere.

Promises:
- The splitter scans each byte once, however many pieces a line has.
- The splitter keeps the bytes after the last line break until their line is complete, LINE_LIMIT bytes at most.
"""

from __future__ import annotations

import msgspec

from ssa_operator.objects.json_codec import decoder

LINE_LIMIT = 64 * 2**20
"""Bytes of a line. An API server stores objects of 1.5 MiB by default, and a JSON escape takes six bytes for one."""


class LineError(ValueError):
    """A line is too long."""


class LineSplitter:
    """Returns the lines that each fed piece completes."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that this piece completes, without line breaks and without empty lines. Raises LineError."""
        if b"\n" not in piece:
            self._parts.append(piece)
            self._size += len(piece)
            if self._size > LINE_LIMIT:
                raise LineError(f"an event is larger than {LINE_LIMIT // 2**20} MiB")
            return []
        lines = piece.split(b"\n")
        if self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
        self._parts = [lines.pop()]
        self._size = len(self._parts[0])
        return [line for line in lines if line]


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class BookmarkMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct):
    metadata: BookmarkMetadata


decode_event = decoder(_Event)
decode_bookmark = decoder(_Bookmark)
