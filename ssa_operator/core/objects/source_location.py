"""The template line that wrote a part of a manifest, and paths of fields.

Promises:
- A location names a template file relative to the templates folder, and a line counted from 1.
- Line ends and control characters in the name of a file are shown as escapes.
- Every error shows the location in one form: `echoes.example.com/deployment.yaml.j2:7`, followed by the including
  lines, innermost first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from ssa_operator.core.objects.visible_text import visible_line

FieldPath: TypeAlias = tuple[str | int, ...]
"""A field of an object: names of mappings and positions of lists, outermost first."""


class SourceLocation(Struct, frozen=True):
    """A line of a template file, and the lines that included it, innermost first."""

    file: str
    line: int
    included_from: tuple[SourceLocation, ...] = ()

    def __str__(self) -> str:
        chain = "".join(
            f" (included from {visible_line(location.file)}:{location.line})" for location in self.included_from
        )
        return f"{visible_line(self.file)}:{self.line}{chain}"


def field_text(path: FieldPath) -> str:
    """The field as Kubernetes' messages write it: `spec.containers[0].image`, `metadata.labels[a.b/c]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part and part.replace("_", "a").replace("-", "a").isalnum():
            text += f".{part}" if text else part
        else:
            text += f"[{part}]"
    return text


def parse_field(text: str, body: object = None) -> FieldPath:
    """The path of a field in the API server's messages; the inverse of `field_text`.

    It reads all of Kubernetes' spellings: `spec.ports[0].port`, `.spec.ports[0]["port"]`, and selectors of list maps
    (`containers[name="web"].image`). A selector needs the `body` to find its position; without one it ends the path.
    """
    parts: list[str | int] = []
    for key, bracket in _FIELD_PARTS.findall(text):
        if key:
            parts.append(key)
            continue
        inner = bracket[1:-1]
        position = int(inner) if inner.isdigit() else _position_of(inner, value_at(body, tuple(parts)))
        if position is None and _SELECTOR.search(inner):
            break
        parts.append(inner.strip('"') if position is None else position)
    return tuple(parts)


_FIELD_PARTS = re.compile(r"""([^.\[\]]+)|(\[(?:"[^"]*"|[^\]"]|"[^"]*")*\])""")
_SELECTOR = re.compile(r"""([A-Za-z]\w*)=("[^"]*"|[^,]+)""")


def _position_of(inner: str, items: object) -> int | None:
    """The position of the item that `name="web"` or `containerPort=80,protocol="TCP"` selects from a list."""
    keys = [(key, value.strip('"')) for key, value in _SELECTOR.findall(inner)]
    if not keys or not isinstance(items, list):
        return None
    for position, item in enumerate(items):
        if isinstance(item, dict) and all(str(item.get(key)) == value for key, value in keys):
            return position
    return None


def value_at(body: object, path: FieldPath, absent: object = None) -> Any:
    """The value of a field in plain data; `absent` where the data lacks the field."""
    for part in path:
        if isinstance(body, Mapping):
            body = body.get(part, absent)
        elif isinstance(body, list) and isinstance(part, int) and 0 <= part < len(body):
            body = body[part]
        else:
            return absent
    return body
