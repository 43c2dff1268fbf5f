"""Texts that match a pattern, made from the pattern itself.

Promises:
- Each text matches, because the pattern of Go (RE2) is asked at the end. A pattern with parts that Python doesn't know
  may have no text.
- The texts are short: the first alternative of each group, and the fewest repetitions; the others differ in these.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from ssa_operator.schema.string_formats import go_pattern

_REPETITIONS = (0, 1, 2, 3, 7, 8, 11, 12, 19, 31, 39, 63)
_ALTERNATIVES = 4
_PREFERRED = "aA1x0b-_./ "
_LENGTH_LIMIT = 4096
_SPELLINGS = {"[:alpha:]": "a-zA-Z", "[:alnum:]": "a-zA-Z0-9", "[:lower:]": "a-z", "[:upper:]": "A-Z", r"\z": r"\Z",
              "[:digit:]": "0-9", "[:xdigit:]": "0-9a-fA-F", "[:word:]": r"\w", "[:space:]": r"\s"}  # fmt: skip
"""What Go writes in another way than Python."""


@lru_cache(maxsize=256)
def matching_texts(pattern: str) -> tuple[str, ...]:
    """Texts that a pattern matches, the shortest first; none if it is not understood."""
    known = go_pattern(pattern)
    if known is None:
        return ()
    found = dict.fromkeys(text for text in _made(pattern) if known.search(text) is not None)
    return tuple(sorted(found, key=len))


def _made(pattern: str) -> Iterator[str]:
    for written, meant in _SPELLINGS.items():
        pattern = pattern.replace(written, meant)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # `[[` is a class of its own in the future
            parts = _parser.parse(pattern)
        for choice in range(_ALTERNATIVES):
            for more in _REPETITIONS:
                yield _text(parts, choice, more)
    except (re.error, OverflowError, RecursionError, ValueError):
        return


def _text(parts: Any, choice: int, more: int) -> str:
    """A text of some parts. `choice` is the alternative, and `more` how often a part repeats beyond its least. Raises
    ValueError.
    """
    return "".join(_part(str(name), argument, choice, more) for name, argument in parts)


def _part(name: str, argument: Any, choice: int, more: int) -> str:
    match name:
        case "LITERAL":
            return chr(argument)
        case "ANY":
            return "a"
        case "AT":
            return ""
        case "NOT_LITERAL":
            return "b" if argument == ord("a") else "a"
        case "IN":
            return _member([(str(kind), value) for kind, value in argument], choice)
        case "BRANCH":
            return _text(argument[1][min(choice, len(argument[1]) - 1)], choice, more)
        case "SUBPATTERN":
            return _text(argument[3], choice, more)
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, inner = argument
            text, times = _text(inner, choice, more), int(min(most, least + more))
            if len(text) * times <= _LENGTH_LIMIT:
                return text * times
    raise ValueError(name)


def _member(parts: Sequence[tuple[str, Any]], choice: int) -> str:
    """A character of a class, or one of some alternatives of a character."""
    if choice and all(name == "LITERAL" for name, _ in parts):
        return chr(parts[min(choice, len(parts) - 1)][1])
    lowest = (chr(value if name == "LITERAL" else value[0]) for name, value in parts if name in ("LITERAL", "RANGE"))
    for each in (*_PREFERRED, *lowest):
        if any(_has(name, value, each) for name, value in parts) is not (parts[0][0] == "NEGATE"):
            return str(each)
    raise ValueError("no character")


def _has(name: str, value: Any, character: str) -> bool:
    if name == "CATEGORY":
        is_word = character.isalnum() or character == "_"
        found = {"DIGIT": character.isdigit(), "SPACE": character.isspace(), "WORD": is_word}
        kind = str(value).removeprefix("CATEGORY_")
        return found[kind.removeprefix("NOT_")] is not kind.startswith("NOT_")
    if name == "RANGE":
        return bool(value[0] <= ord(character) <= value[1])
    return name == "LITERAL" and bool(value == ord(character))
