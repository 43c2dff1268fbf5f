"""Writes values as YAML text: all YAML that a command prints or writes, and the filter `to_yaml`.

Promises:
- YAML 1.1, YAML 1.2 and kubectl read the same value back, also of keys: a text that one of them takes for a boolean, a
  number, a date or null is quoted.
- The text is block style, keeps the order of keys, and has no line break at its end.
- A text of several lines is a literal block, so that a diff shows the line that changed, if a block keeps it unchanged
  and it controls no terminal and no log (`objects/messages.py`). The filter writes each text in one line.
- Each scalar, and each mapping and list without content, begins on a line of its own, except for the first field of a
  list's item, which is on the line of the item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.messages import escaped_quoted_yaml, is_risky
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.values import limits

_WORD = re.compile(r"[A-Za-z_/](?:[\w./:@+-]*[\w/])?", re.ASCII)
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that some YAML parser doesn't read as a string."""

# JSON's escapes are valid in YAML. These are characters that JSON doesn't escape and YAML has to, or invisible ones.
_ESCAPED = re.compile("[\x7f-\x9f\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff0-\uffff]")

_PLAIN = re.compile(
    r"""(?![-?:](?:\s|$)|---|\.\.\.|::|(?:=|<<|~)$|[\s,\[\]{}#&*!|>'"%@`])(?:(?!:\s|\s#).)+(?<![\s:])"""
)
"""Texts that need no quotes for their characters."""

_NUMBER = re.compile(r"[-+]?(?:0[xXoObB][0-9a-fA-F]*|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)", re.ASCII)
"""Numbers of any YAML parser, without underscores: YAML 1.1 and kubectl ignore those."""
_NUMBER_IN_YAML_1_1 = re.compile(
    r"[-+]?\.(?:inf|nan)|[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt\s].*)?",
    re.ASCII | re.IGNORECASE,
)
"""Infinity, what is no number, numbers of base 60, dates and times."""

_BLOCK = re.compile(r"[^\s\x00-\x1f\x7f-\xa0\ufeff][^\x00-\x08\x0b-\x1f\x7f-\x9f\x85\u2028\u2029\ufeff\ufffe\uffff]*")
"""Texts that a literal block keeps unchanged: the first line isn't empty and isn't indented."""

_SIMPLE_KEY_LENGTH = 512
"""A longer key gets the mark `?`: without it, YAML looks for the colon only within 1024 characters."""


class AnnotatedLine(Struct, frozen=True):
    """A line of YAML."""

    text: str
    field: FieldPath | None = None
    """The field whose value the line shows, None for a line without one."""


def scalar_text(value: Any) -> str:
    """A string, a number, true, false, null, an empty mapping or an empty list as YAML text in one line."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _WORD.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def plain_text(value: Any) -> str:
    """The same with as few quotes as possible, as kubectl and Helm print it."""
    if isinstance(value, float) and "." not in (text := json.dumps(value)):
        return text.replace("e", ".0e")  # YAML 1.1 has no float without a dot
    if not isinstance(value, str) or is_risky(value) or _ESCAPED.search(value) or not value.isprintable():
        return scalar_text(value)
    digits = value.replace("_", "")
    if _PLAIN.fullmatch(value) and not (
        value.lower() in _WORDS or _NUMBER.fullmatch(digits) or _NUMBER_IN_YAML_1_1.fullmatch(digits)
    ):
        return value
    return "'" + value.replace("'", "''") + "'"


class YamlStyle(Struct, frozen=True, kw_only=True):
    """What may differ between two texts of the same data."""

    scalar: Callable[[Any], str] = scalar_text
    """Writes the values that are neither mappings nor lists with content."""
    key: Callable[[str], str] = scalar_text
    blocks: bool = True
    """Whether a text of several lines is a literal block."""
    indented_lists: bool = True
    """Whether the items of a mapping's list are indented."""


INDENTED = YamlStyle()
"""As templates are written: lists are indented, and only a word is without quotes."""

LIKE_KUBECTL = YamlStyle(scalar=plain_text, key=plain_text, indented_lists=False)
"""As kubectl and Helm print objects."""


def yaml_text(value: Any, scalar: Callable[[Any], str] = scalar_text) -> str:
    """Plain data as the YAML text of the filter `to_yaml`. Raises LimitError if the text would be too long."""
    lines: list[str] = []
    size = 0
    for line in yaml_lines(value, YamlStyle(scalar=scalar, blocks=False)):
        size += len(line.text) + 1
        if size > limits.OUTPUT_LIMIT:
            limits.current().produce(size)
        lines.append(line.text)
    return "\n".join(lines)


def yaml_document(value: Any, style: YamlStyle = LIKE_KUBECTL) -> str:
    """Any JSON value as YAML that controls no terminal and no log."""
    return escaped_quoted_yaml("".join(f"{line.text}\n" for line in yaml_lines(value, style)))


def yaml_lines(value: Any, style: YamlStyle = INDENTED) -> Iterator[AnnotatedLine]:
    """The lines of a value in block style."""
    return _lines(value, style, "", "", ())


def _lines(value: Any, style: YamlStyle, first: str, indent: str, path: FieldPath) -> Iterator[AnnotatedLine]:
    """The lines of a value; `first` is written before the first one, `indent` before the others."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            name, below = style.key(key), (*path, key)
            if len(name) > _SIMPLE_KEY_LENGTH:
                yield AnnotatedLine(f"{first}? {name}")
                name, first = "", indent
            if isinstance(item, (Mapping, list)) and item:
                yield AnnotatedLine(f"{first}{name}:")
                deeper = indent if isinstance(item, list) and not style.indented_lists else f"{indent}  "
                yield from _lines(item, style, deeper, deeper, below)
            else:
                yield from _scalar(item, style, f"{first}{name}: ", f"{indent}  ", below)
            first = indent
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield from _lines(item, style, f"{first}- ", f"{indent}  ", (*path, at))
            first = indent
    else:
        yield from _scalar(value, style, first, indent or "  ", path)


def _scalar(value: Any, style: YamlStyle, first: str, indent: str, path: FieldPath) -> Iterator[AnnotatedLine]:
    if not style.blocks or not isinstance(value, str) or not _is_block(value):
        yield AnnotatedLine(first + style.scalar(value), path)
        return
    content = value.removesuffix("\n")
    kept = "+" if content.endswith("\n") else "" if content != value else "-"
    yield AnnotatedLine(f"{first}|{kept}", path)
    for line in content.split("\n"):
        yield AnnotatedLine(f"{indent}{line}" if line else "")


def _is_block(text: str) -> bool:
    return "\n" in text and _BLOCK.fullmatch(text) is not None and not is_risky(text)
