"""Compresses encoded objects that are kept for a long time and rarely read, each against another object of its kind.

Promises:
- An object that is similar to another one shrinks to about a tenth. Decompressing takes less time than decoding.
- Secrets are not compressed, because the other object stays in memory.
"""

from __future__ import annotations

import zlib
from typing import TypeAlias

from ssa_operator.objects.identity import GroupKind

EXAMPLES_LIMIT = 4
"""Objects of one kind that others are compressed against: the objects of different templates differ."""

Examples: TypeAlias = dict[GroupKind, list[bytes]]
"""The encoded objects of each kind that others were compressed against; the last used one is at the end."""

_WORTHWHILE = 3
"""An object that does not shrink by this factor becomes another example."""

_LARGEST = 64 * 1024
"""Bytes. Larger objects stay uncompressed, because compressing them takes milliseconds."""

_SECRET = GroupKind("", "Secret")

# Raw deflate streams: the header and checksum of zlib's format are not needed. A higher level costs more and saves
# little.
_LEVEL, _WINDOW, _MEMORY = 3, -15, 5


def compress(encoded: bytes, kind: GroupKind, examples: Examples) -> tuple[bytes, bytes | None]:
    """The bytes to keep of an encoded object, and the example that they are compressed against; None if they are not
    compressed.
    """
    if kind == _SECRET or len(encoded) > _LARGEST:
        return encoded, None
    known = examples.setdefault(kind, [])
    smallest: tuple[bytes, bytes] | None = None
    for example in reversed(known):
        compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, example)
        compressed = compressor.compress(encoded) + compressor.flush()
        if smallest is None or len(compressed) < len(smallest[0]):
            smallest = compressed, example
        if len(compressed) * _WORTHWHILE < len(encoded):
            break
    else:
        if len(known) < EXAMPLES_LIMIT:
            known.append(encoded)
            return encoded, None
    assert smallest is not None
    if known[-1] is not smallest[1]:
        known.remove(smallest[1])
        known.append(smallest[1])
    return smallest


def decompress(compressed: bytes, example: bytes | None) -> bytes:
    """The encoded object; the arguments are what `compress` returned."""
    if example is None:
        return compressed
    return zlib.decompressobj(_WINDOW, example).decompress(compressed)
