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
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")


@lru_cache(maxsize=4096)
def go_pattern(pattern: str) -> re.Pattern[str] | None:
    """The compiled pattern, for `search`; None if it can't be translated, or Go refuses it, too."""
    if _UNKNOWN.search(pattern.replace("\\\\", "")):
        return None
    flags = _FLAGS.match(pattern)
    if any("U" in found.group(0) for found in _FLAGS.finditer(pattern)):
        return None
    multiline = flags is not None and "m" in flags[1] and flags[3] == ")"
    leading, rest = (f"(?{flags[1]})", pattern[flags.end() :]) if flags and flags[3] == ")" else ("", pattern)
    if flags and flags[2]:
        return None
    translated = leading.replace("(?)", "") + _translated(_GROUP.sub("(?P<", rest), multiline=multiline)
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, RecursionError, OverflowError):
        return None


def _translated(pattern: str, *, multiline: bool) -> str:
    """The pattern with Go's words for classes and ends in Python's."""
    result: list[str] = []
    position, in_class = 0, False
    while position < len(pattern):
        character = pattern[position]
        step = 1
        if character == "\\" and position + 1 < len(pattern):
            escape = pattern[position + 1]
            step = 2
            character = {"z": "\\Z"}.get(escape, f"\\{escape}") if not in_class else f"\\{escape}"
            if escape == "x" and pattern[position + 2 : position + 3] == "{":
                end = pattern.find("}", position)
                number = int(pattern[position + 3 : end] or "0", 16) if end > 0 else 0
                character, step = re.escape(chr(number)), end + 1 - position
        elif in_class:
            found = _CLASS.match(pattern, position)
            if found and found[1] in _CLASSES:
                character, step = _CLASSES[found[1]], len(found[0])
            elif character == "]":
                in_class = False
            elif character in "[&~|":
                character = f"\\{character}"
        elif character == "[":
            in_class = True
            opening = re.match(r"\[\^?\]?", pattern[position:])
            assert opening is not None
            character, step = opening[0].replace("]", "\\]"), len(opening[0])
        elif character == "$" and not multiline:
            character = "\\Z"
        result.append(character)
        position += step
    return "".join(result)
