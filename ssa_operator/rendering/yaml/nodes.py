"""Parsed YAML with places for the values of a render.

Promises:
- Filling values in never changes the structure that was parsed: a value is a leaf, a part of a text, or the text of a
  key.
- Each node knows its place, and so does each field of what it becomes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ssa_operator.core.objects.source_location import FieldPath, SourceLocation
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.manifest_values import text_of
from ssa_operator.rendering.values.template_text import Indented
from ssa_operator.rendering.values.tracked_values import TrackedValue, UnknownValue, carried, is_tracked, plain


class DocumentError(ValueError):
    """YAML that can't be used; `place` is the template line."""

    def __init__(self, message: str, location: SourceLocation) -> None:
        super().__init__(message)
        self.location = location


@dataclass(frozen=True, slots=True)
class Filling:
    """The values of one render: by number, and as text where their text isn't the usual one.

    carried: whether values of the cluster are among them; then Observed and Unknown are in what is built.
    """

    values: Sequence[Any] = ()
    texts: dict[int, str] | None = None
    carried: bool = False

    def text(self, number: int, block: int = 0) -> str:
        """The value as text; in a block scalar that is indented by `block` spaces."""
        value = self.texts[number] if self.texts and number in self.texts else self.values[number]
        if self.carried:
            value = plain(value)
        if block and type(value) is Indented:
            return re.sub(rf"\n {{1,{min(block, value.width)}}}", "\n", value) if value.width else str(value)
        return text_of(value)


@dataclass(frozen=True, slots=True)
class Constant:
    """A scalar without a value of the render in it."""

    location: SourceLocation
    value: Any

    def build(self, _: Filling) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Slot:
    """A plain scalar that is one value."""

    location: SourceLocation
    number: int

    def build(self, filling: Filling) -> Any:
        value = filling.values[self.number]
        return str(value) if type(value) is Indented else value


@dataclass(frozen=True, slots=True)
class Mixed:
    """A scalar of text and values: `parts` alternates between text and numbers of values."""

    location: SourceLocation
    parts: tuple[Any, ...]
    block: int = 0

    def build(self, filling: Filling) -> Any:
        if filling.carried:
            values = [filling.values[part] for part in self.parts if type(part) is int]
            if is_tracked(values):
                return carried(lambda *_: self._text(filling), values, {})
        return self._text(filling)

    def _text(self, filling: Filling) -> str:
        text = "".join([part if type(part) is str else filling.text(part, self.block) for part in self.parts])
        limits.current().produce(len(text))  # an alias can repeat it
        return text


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping; `merged` are the mappings that `<<` names, first one first."""

    location: SourceLocation
    entries: tuple[tuple[str | Slot | Mixed, Node, SourceLocation], ...]
    merged: tuple[Node, ...] = ()

    def build(self, filling: Filling) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key, node, location in self.entries:
            value: Any = node.build(filling)
            name: Any = key
            if type(key) is not str:
                name = _key(key, filling, location)
                if type(name) is TrackedValue:
                    name, value = name.value, name.of(value)
            if name in fields:
                raise DocumentError(f"the key {name} is there twice", location)
            fields[name] = value
        for other in self.merged:
            found: Any = other.build(filling)
            if isinstance(found, UnknownValue):
                found = {found: found}
            elif isinstance(found, TrackedValue) and isinstance(found.value, dict):
                found = {key: found.of(value) for key, value in found.value.items()}
            if not isinstance(found, dict):
                raise DocumentError("<< needs a mapping or a list of mappings", other.location)
            fields = {**found, **fields}
        return fields


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    location: SourceLocation
    nodes: tuple[Node, ...]

    def build(self, filling: Filling) -> list[Any]:
        return [node.build(filling) for node in self.nodes]


Node: TypeAlias = Constant | Slot | Mixed | Fields | Items


def _key(key: str | Slot | Mixed, filling: Filling, location: SourceLocation) -> Any:
    """The key, Observed or Unknown where it came from the cluster."""
    if isinstance(key, str):
        return key
    if isinstance(key, Mixed):
        return key.build(filling)
    value = filling.values[key.number]
    if isinstance(plain(value), (dict, list)):
        raise DocumentError("a mapping or a list can't be a key", location)
    if filling.carried and is_tracked([value]):
        return carried(lambda _: filling.text(key.number), [value], {})
    return filling.text(key.number)


def _is_key(key: str | Slot | Mixed, filling: Filling, location: SourceLocation, name: str | int) -> bool:
    found = plain(_key(key, filling, location))
    return isinstance(found, str) and found == name


def find(node: Node, path: FieldPath, filling: Filling) -> SourceLocation:
    """The place of a field, or of the nearest field around it."""
    location = node.location
    for at_part, part in enumerate(path):
        below: Node | None = None
        if isinstance(node, Fields):
            for key, value, at in node.entries:
                if _is_key(key, filling, at, part):
                    below, location = value, at
            for other in node.merged if below is None else ():
                if isinstance(other, Fields) and any(
                    plain(_key(key, filling, at)) == part for key, _, at in other.entries
                ):
                    return find(other, path[at_part:], filling)
        elif isinstance(node, Items) and isinstance(part, int) and 0 <= part < len(node.nodes):
            below = node.nodes[part]
            location = below.location
        if below is None:
            break
        node = below
    return location
