"""Which values of Secrets can be drawn.

Promises:
- A text that means something is not drawn: a name of the set, an address, JSON, words, a user, a number, a format.
- A value that several fields of Secrets have is drawn in the first of them.
"""

from __future__ import annotations

import re

DRAWN, GIVEN = "drawn", "given"
"""Stand for a value that `generated()` draws, and for one that the author of a parent gives. `Secret/key` stands for
the value of another Secret, and `/key` for another one of the same Secret.
"""

_MEANING = re.compile(
    r"""\s | :// | ^[\[{] | @               # words, addresses, JSON
    | ^(?:[0-9.]+|true|false|)$              # numbers
    | ^[A-Za-z0-9_-]{43}=$                   # a Fernet key
    | ^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$  # an identifier
    """,
    re.VERBOSE,
)
_KEYS = re.compile(
    r"(?:^|[-_.])(?:user(?:-?name)?|login|e?mail|host(?:name)?|port|database|db|id|url|uri)$", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z0-9.-]+", re.ASCII)


def is_drawable(key: str, value: str, names: frozenset[str]) -> bool:
    """Whether a value may be any random text. `names` are those of the objects of the set."""
    return not (_MEANING.search(value) or _KEYS.search(key) or names & {*_NAME.findall(value)})
