"""Go's regular expressions (RE2), translated for Python.

Promises:
- A translated pattern matches what Go matches: classes like `\\d` are ASCII, `$` is the very end, and `\\z` and
  `[[:alpha:]]` work.
- A pattern that can't be translated is unknown, and no wrong answer is given for it.

https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from functools import lru_cache

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
# What the two languages read differently, or only one of them knows: lookaround, references, atomic groups, possessive
# repetitions, Unicode classes, `\Q`.
_UNKNOWN = re.compile(r"\\[1-9pPQCGZukN]|\(\?(?:[=!>#(]|<[=!]|P[=>])|[*+?}]\+|\[\[?\^?\[:\^")
_GROUP = re.compile(r"\(\?<(?=[A-Za-z_])")
_CLASS = re.compile(r"\[:(\w+):\]")
_FLAGS = re.compile(r"\(\?([imsU-]*)\)")


@lru_cache(maxsize=4096)
def go_pattern(pattern: str) -> re.Pattern[str] | None:
    """The compiled pattern, for `search`; None if it can't be translated, or Go refuses it, too."""
    if _UNKNOWN.search(pattern.replace("\\\\", "")):
        return None
    translated = _translated(_GROUP.sub("(?P<", pattern))
    try:
        return None if translated is None else re.compile(translated, re.ASCII)
    except (re.error, RecursionError, OverflowError):
        return None


def _translated(pattern: str) -> str | None:
    """The pattern with Go's words for classes, ends and flags in Python's; None if there are none."""
    result: list[str] = []
    # The flags in the middle of each open group (`a(?i)b`), which hold up to its end; its beginning, and whether an
    # alternative would end them.
    flags: list[int] = [0]
    begins, splits = [0], [False]
    position = 0
    while position < len(pattern):
        rest = pattern[position:]
        character, step = rest[0], 1
        if character == "\\" and len(rest) > 1:
            character, step = _escape(rest, in_class=False)
        elif character == "[":
            character, step = _class(rest)
        elif character == "$":
            character = "\\Z"
        elif (found := _FLAGS.match(rest)) is not None:
            if set(found[1]) - {"i", "s"} or not found[1]:
                return None
            splits[-1] = splits[-1] or position != begins[-1]
            flags[-1] += 1
            character, step = f"(?{found[1]}:", len(found[0])
        elif character == "(":
            opening = re.match(r"\((?:\?(?:P<\w+>|[a-zA-Z]*:))?", rest)
            assert opening is not None
            if set(opening[0]) & set("mU") and opening[0].endswith(":"):
                return None
            character, step = opening[0], len(opening[0])
            flags.append(0)
            begins.append(position + step)
            splits.append(False)
        elif character == "|" and splits[-1]:
            return None
        elif character == ")" and len(flags) > 1:
            character = ")" * flags.pop() + ")"
            begins.pop()
            splits.pop()
        result.append(character)
        position += step
    return "".join(result) + ")" * flags[0]


def _escape(rest: str, *, in_class: bool) -> tuple[str, int]:
    """An escape in Python's words, and its length."""
    if rest.startswith("\\x{") and (end := rest.find("}")) > 0:
        return re.escape(chr(int(rest[3:end], 16))), end + 1
    return ("\\Z" if rest[1] == "z" and not in_class else rest[:2]), 2


def _class(rest: str) -> tuple[str, int]:
    """A class of characters in Python's words, and its length."""
    opening = re.match(r"\[\^?\]?", rest)
    assert opening is not None
    result, position = opening[0].replace("]", "\\]"), len(opening[0])
    while position < len(rest) and rest[position] != "]":
        character, step = rest[position], 1
        named = _CLASS.match(rest, position)
        if character == "\\" and position + 1 < len(rest):
            character, step = _escape(rest[position:], in_class=True)
        elif named is not None and named[1] in _CLASSES:
            character, step = _CLASSES[named[1]], len(named[0])
        elif character in "[&~|":
            character = f"\\{character}"
        result += character
        position += step
    return result + rest[position : position + 1], position + 1
