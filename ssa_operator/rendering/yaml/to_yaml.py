"""Writes values as YAML text, for the filter `to_yaml`.

Promises:
- A YAML 1.1 parser and a YAML 1.2 parser read the same value back.
- The text is block style, keeps the order of keys, and has no line break at its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

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
    """Plain data as YAML text; `scalar` writes the values that are neither mappings nor lists with content."""
    return "\n".join(_lines(value, scalar))


def _lines(value: Any, scalar: Callable[[Any], str]) -> list[str]:
    if isinstance(value, dict) and value:
        lines = []
        for key, item in value.items():
            name = scalar_text(key)
            if len(name) > _SIMPLE_KEY_LENGTH:
                lines.append(f"? {name}")
                name = ""
            if isinstance(item, (dict, list)) and item:
                lines.append(f"{name}:")
                lines.extend(f"  {line}" for line in _lines(item, scalar))
            else:
                lines.append(f"{name}: {scalar(item)}")
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            first, *rest = _lines(item, scalar)
            lines.append(f"- {first}")
            lines.extend(f"  {line}" for line in rest)
        return lines
    return [scalar(value)]
