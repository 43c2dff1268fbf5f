"""Where a piece of a manifest was written.

Promises:
- A place names a template file relative to the templates folder and a line that starts at 1.
- `str(place)` is what users read in every error: `echoes.example.com/deployment.yaml.j2:7`,
  followed by the includers, innermost first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

FieldPath: TypeAlias = tuple[str | int, ...]
"""A field of an object: names of mappings and positions of lists, outermost first."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a template file, and the lines that included it, innermost first."""

    file: str
    line: int
    included_from: tuple[SourceLocation, ...] = ()

    def __str__(self) -> str:
        chain = "".join(f" (included from {location.file}:{location.line})" for location in self.included_from)
        return f"{self.file}:{self.line}{chain}"


def field_text(path: FieldPath) -> str:
    """The field as Kubernetes writes it: `spec.containers[0].image`, `metadata.labels[a.b/c]`."""
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
    """The path of a field as the API server's messages spell it; the inverse of `field_text`.

    Kubernetes' spellings are understood: `spec.ports[0].port`, `.spec.ports[0]["port"]`, and the selectors of list maps
    (`containers[name="web"].image`), which have a position only within a `body`; without one they end the path.
    """
    parts: list[str | int] = []
    for key, bracket in _FIELD_PARTS.findall(text):
        if key:
            parts.append(key)
            continue
        inner = bracket[1:-1]
        position = int(inner) if inner.isdigit() else _selected(inner, _value_at(body, parts))
        if position is None and _SELECTOR.search(inner):
            break
        parts.append(inner.strip('"') if position is None else position)
    return tuple(parts)


_FIELD_PARTS = re.compile(r"""([^.\[\]]+)|(\[(?:"[^"]*"|[^\]"]|"[^"]*")*\])""")
_SELECTOR = re.compile(r"""([A-Za-z]\w*)=("[^"]*"|[^,]+)""")


def _selected(inner: str, items: object) -> int | None:
    """The position of the item that `name="web"` or `containerPort=80,protocol="TCP"` selects from a list."""
    keys = [(key, value.strip('"')) for key, value in _SELECTOR.findall(inner)]
    if not keys or not isinstance(items, list):
        return None
    for position, item in enumerate(items):
        if isinstance(item, dict) and all(str(item.get(key)) == value for key, value in keys):
            return position
    return None


def _value_at(body: object, path: list[str | int]) -> object:
    for part in path:
        if isinstance(body, dict) and isinstance(part, str):
            body = body.get(part)
        elif isinstance(body, list) and isinstance(part, int) and part < len(body):
            body = body[part]
        else:
            return None
    return body
