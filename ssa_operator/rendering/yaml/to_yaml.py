"""Writes values as YAML text, for the filter `to_yaml`.

Promises:
- A YAML 1.1 parser and a YAML 1.2 parser read the same value back.
- The text is block style, keeps the order of keys, and has no line break at its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from ssa_operator.rendering.values import limits

_PLAIN = re.compile(r"[A-Za-z_/](?:[\w./:@+-]*[\w/])?", re.ASCII)
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that some YAML parser doesn't read as a string."""

# JSON's escapes are valid in YAML. These are characters that JSON doesn't escape and YAML has to, or invisible ones.
_ESCAPED = re.compile("[\x7f-\x9f\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff0-\uffff]")


_SIMPLE_KEY_LENGTH = 512
"""A longer key gets the mark `?`: without it, YAML looks for the colon only within 1024 characters."""


def scalar_text(value: Any) -> str:
    """A string, a number, true, false, null, an empty mapping or an empty list as YAML text in one line."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def yaml_text(value: Any, scalar: Callable[[Any], str] = scalar_text) -> str:
    """Plain data as YAML text; `scalar` writes the values that are neither mappings nor lists with content.

    Raises LimitError if the text would be too long.
    """
    lines: list[str] = []
    size = 0
    for line in _lines(value, scalar, "", ""):
        size += len(line) + 1
        if size > limits.OUTPUT_LIMIT:
            limits.current().produce(size)
        lines.append(line)
    return "\n".join(lines)


def _lines(value: Any, scalar: Callable[[Any], str], first: str, indent: str) -> Iterator[str]:
    """The lines of a value; `first` is written before the first one, `indent` before the others."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            name = scalar_text(key)
            if len(name) > _SIMPLE_KEY_LENGTH:
                yield f"{first}? {name}"
                name, first = "", indent
            if isinstance(item, (dict, list)) and item:
                yield f"{first}{name}:"
                yield from _lines(item, scalar, f"{indent}  ", f"{indent}  ")
            else:
                yield f"{first}{name}: {scalar(item)}"
            first = indent
    elif isinstance(value, list) and value:
        for item in value:
            yield from _lines(item, scalar, f"{first}- ", f"{indent}  ")
            first = indent
    else:
        yield f"{first}{scalar(value)}"
