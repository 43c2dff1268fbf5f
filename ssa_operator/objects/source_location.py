"""The template line that wrote a part of a manifest, and paths of fields.

Promises:
- A location names a template file relative to the templates folder, and a line counted from 1.
- Line ends and control characters in the name of a file are shown as escapes.
- Every error shows the location in one form: `echoes.example.com/deployment.yaml.j2:7`, followed by the including
  lines, innermost first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from msgspec import Struct

from ssa_operator.objects.messages import near_names, visible_line

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


def location_data(location: SourceLocation | None) -> dict[str, Any]:
    """The file and line for JSON, nothing without a location."""
    return {} if location is None else {"file": location.file, "line": location.line}


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

    The names may be any text of a parent, such as a key of a thousand quotation marks: each character is read a fixed
    number of times.
    """
    parts: list[str | int] = []
    value: Any = body
    for part, in_brackets in _parts(text):
        found: str | int = part
        # A name that the body has is taken literally, whatever characters it has.
        if in_brackets and not (isinstance(value, Mapping) and part in value):
            position = int(part) if _POSITION.fullmatch(part) else _position_of(part, value)
            if position is None and _SELECTOR.search(part):
                break
            found = part.strip('"') if position is None else position
        parts.append(found)
        value = value_at(value, (found,))
    return tuple(parts)


_NAME = re.compile(r"[^.\[\]]+")
_BRACKETS = re.compile(r"""\[((?:[^\]"]++|"[^"]*+")*+)\]""")
# The API server has no longer lists, and Python converts no number of thousands of digits.
_POSITION = re.compile(r"[0-9]{1,9}")
_SELECTOR = re.compile(r"""(?<![A-Za-z0-9_])([A-Za-z][A-Za-z0-9_]*+)=("[^"]*+"|[^,]+)""")


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a field, each with whether it is in brackets. A bracket in quotation marks ends no part, unless one
    of the quotation marks has no second one.
    """
    at, quoted = 0, True
    while at < len(text):
        if text[at] == "[":
            found = _BRACKETS.match(text, at) if quoted else None
            quoted = found is not None
            end = found.end() - 1 if found else text.find("]", at)
            if end < 0:
                yield text[at + 1 :], False  # the message was shortened
                return
            yield text[at + 1 : end], True
            at = end + 1
        elif name := _NAME.match(text, at):
            yield name[0], False
            at = name.end()
        else:
            at += 1


def _position_of(inner: str, items: object) -> int | None:
    """The position of the item that `name="web"` or `containerPort=80,protocol="TCP"` selects from a list.

    The API server adds the default of a key that an item lacks, so the only item without other values may be it.
    """
    keys = {key: value.strip('"') for key, value in _SELECTOR.findall(inner)}
    if not keys or not isinstance(items, list):
        return None
    possible = []
    for position, item in enumerate(items):
        if isinstance(item, dict) and all(str(item.get(key, value)) == value for key, value in keys.items()):
            if keys.keys() <= item.keys():
                return position
            possible.append(position)
    return possible[0] if len(possible) == 1 else None


def value_at(body: object, path: FieldPath, absent: object = None) -> Any:
    """The value of a field in plain data; `absent` if the data lacks the field."""
    for part in path:
        if isinstance(body, Mapping):
            body = body.get(part, absent)
        elif isinstance(body, list) and isinstance(part, int) and 0 <= part < len(body):
            body = body[part]
        else:
            return absent
    return body


def with_value(body: Any, path: FieldPath, value: Any) -> Any:
    """Plain data with another value at a field, and with the mappings around it that are missing."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(body, list):
        return [with_value(item, rest, value) if at == first else item for at, item in enumerate(body)]
    fields = body if isinstance(body, Mapping) else {}
    return {**fields, first: with_value(fields.get(first), rest, value)}


def without_value(body: Any, path: FieldPath) -> Any:
    """Plain data without a field that it has, and without the mappings that only this field filled."""
    first, rest = path[0], path[1:]
    below = without_value(body[first], rest) if rest else None
    if isinstance(body, list):
        return [below if at == first else item for at, item in enumerate(body)]
    others = {key: item for key, item in body.items() if key != first}
    return {**others, first: below} if below else others


def first_difference(
    wanted: Any, live: Any, path: FieldPath = (), mutable: AbstractSet[str] = frozenset()
) -> FieldPath | None:
    """The first field of a manifest that an object lacks or has with another value, None without one. `path` leads to
    both values, and `mutable` are fields right below that don't count. What is null in a manifest is no value.
    """
    below: Iterable[tuple[str | int, Any, Any]] = ()
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        below = ((name, value, live.get(name)) for name, value in wanted.items() if name not in mutable)
    elif isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        below = ((at, *pair) for at, pair in enumerate(zip(wanted, live, strict=True)))
    elif wanted is not None and wanted != live:
        return path
    found = (first_difference(value, other, (*path, name)) for name, value, other in below)
    return next((each for each in found if each is not None), None)


def leaves(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """The values in plain data that are neither mappings nor lists, each with its field."""
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
    if entries is None:
        yield path, value
    for part, item in entries or ():
        yield from leaves(item, (*path, part))


def names_in(path: FieldPath) -> tuple[str, ...]:
    """A field without positions in lists."""
    return tuple(part for part in path if isinstance(part, str))


def misspelt_field(path: FieldPath, siblings: Iterable[str]) -> str | None:
    """A question with the field that is most similar to the last one of a path, among those beside it; None if none is
    similar. `check`, `render`, `dev` and the status of a parent ask alike.
    """
    near = near_names(str(path[-1]), siblings)
    return f"did you mean {field_text((*path[:-1], near[0]))}?" if near else None
