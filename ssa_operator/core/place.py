"""Where a piece of a manifest was written.

Promises:
- A place names a template file relative to the templates folder and a line that starts at 1.
- `str(place)` is what users read in every error: `echoes.example.com/deployment.yaml.j2:7`,
  followed by the includers, innermost first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

FieldPath: TypeAlias = tuple[str | int, ...]
"""A field of an object: names of mappings and positions of lists, outermost first."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a template file, and the lines that included it, innermost first."""

    file: str
    line: int
    included_from: tuple[Place, ...] = ()

    def __str__(self) -> str:
        chain = "".join(f" (included from {place.file}:{place.line})" for place in self.included_from)
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


def parse_field(text: str) -> FieldPath:
    """The path of a field as the API server's messages spell it; the inverse of `field_text`.

    Both of Kubernetes' spellings are understood: `spec.ports[0].port` and `.spec.ports[0]["port"]`.
    A selector of a list map (`[name="web"]`) has no position and ends the path: what is known so far is returned.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        if text[position] == "[":
            end = text.find("]", position)
            if end < 0:
                break
            inner = text[position + 1 : end]
            if "=" in inner:
                break
            parts.append(int(inner) if inner.isdigit() else inner.strip('"'))
            position = end + 1
        elif text[position] == ".":
            position += 1
        else:
            end = position
            while end < len(text) and text[end] not in ".[":
                end += 1
            parts.append(text[position:end])
            position = end
    return tuple(parts)
