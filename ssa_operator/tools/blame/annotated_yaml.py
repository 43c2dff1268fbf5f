"""Writes data as YAML lines, each with the field that it shows.

Promises:
- A YAML parser reads the same data back from the lines.
- Each scalar, and each mapping and list without content, begins on a line of its own, except for the first field of a
  list's item, which is on the line of the item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.yaml.to_yaml import scalar_text

_BLOCK = re.compile(r"[!-~][ -~\t]*(?:\n[ -~\t]*)*", re.ASCII)
"""Texts that a literal block scalar keeps unchanged: the first line isn't empty and isn't indented."""


class AnnotatedLine(Struct, frozen=True):
    """A line of YAML."""

    text: str
    field: FieldPath | None = None
    """The field whose value the line shows, None for a line without one."""


def yaml_lines(value: Any, path: FieldPath = ()) -> Iterator[AnnotatedLine]:
    """The lines of a value in block style."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{scalar_text(key)}:", item, (*path, key))
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            first, *rest = yaml_lines(item, (*path, at))
            yield AnnotatedLine(f"- {first.text}", first.field)
            yield from (AnnotatedLine(f"  {line.text}" if line.text else "", line.field) for line in rest)
    else:
        yield from _scalar("", value, path)


def _entry(key: str, value: Any, path: FieldPath) -> Iterator[AnnotatedLine]:
    if isinstance(value, (Mapping, list)) and value:
        yield AnnotatedLine(key)
        for line in yaml_lines(value, path):
            yield AnnotatedLine(f"  {line.text}" if line.text else "", line.field)
    else:
        yield from _scalar(f"{key} ", value, path)


def _scalar(start: str, value: Any, path: FieldPath) -> Iterator[AnnotatedLine]:
    """The line of a scalar. A text of several lines becomes a literal block scalar if that keeps it unchanged."""
    if not isinstance(value, str) or "\n" not in value or not _BLOCK.fullmatch(value) or value.endswith("\n\n"):
        yield AnnotatedLine(f"{start}{scalar_text(value)}", path)
        return
    lines = value.removesuffix("\n").split("\n")
    yield AnnotatedLine(f"{start}{'|' if value.endswith(chr(10)) else '|-'}", path)
    yield from (AnnotatedLine(f"  {line}" if line else "") for line in lines)
