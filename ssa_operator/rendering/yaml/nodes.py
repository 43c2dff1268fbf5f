"""Parsed YAML as nodes whose slots take the values of a render.

Promises:
- A value never changes the structure that was parsed: it is a leaf, a part of a text, or the text of a key.
- Each node has its source location, and so has each field of the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import FieldPath, SourceLocation
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.manifest_values import text_of
from ssa_operator.rendering.values.template_text import Indented
from ssa_operator.rendering.values.tracked_containers import strip_provenance
from ssa_operator.rendering.values.tracked_values import TrackedValue, UnknownValue, call_tracked, is_tracked, untracked


class DocumentError(ValueError):
    """YAML that can't be used; `location` is the template line."""

    def __init__(self, message: str, location: SourceLocation) -> None:
        super().__init__(message)
        self.location = location


_REPEATED = 8
"""The work for each character of a value that an alias repeats."""


class SlotValues(Struct, frozen=True):
    """The values of one render that fill the slots of the nodes."""

    values: Sequence[Any] = ()
    """The values by the number of their placeholder."""
    texts: dict[int, str] | None = None
    """The text of a value within other text, by number, if `text_of` gives another one."""
    sizes: dict[int, int] | None = None
    """The characters of the values that are large, by number: an alias can repeat a value."""
    built: set[int] = field(default_factory=set)
    """The numbers of the large values that a document has already."""
    tracked: bool = False
    """Whether values of the cluster are among them; then `build` returns TrackedValue and UnknownValue, too."""
    has_yaml: bool = False
    """Whether `to_yaml` made a part of the text around them of a value."""

    def has_tracked(self, node: Node) -> bool:
        """Whether a value of the cluster may be in a part of the document."""
        if not self.tracked or type(node) is Constant or type(node) is Faulty:
            return False
        if type(node) is Slot:
            return is_tracked([self.values[node.number]])
        first, last = slot_numbers(node)
        return is_tracked(self.values[first : last + 1])

    def count(self, number: int) -> None:
        """Count a large value. Raises LimitError if aliases repeat large values too often."""
        if number in self.built:
            limits.current().spend(_REPEATED * (self.sizes or {})[number])
        self.built.add(number)

    def text(self, number: int, block: int = 0) -> str:
        """The value as text; `block` is the indentation of the block scalar around it."""
        value = self.texts[number] if self.texts and number in self.texts else self.values[number]
        if self.tracked:
            value = untracked(value)
            if type(value) is dict or type(value) is list:
                value = strip_provenance(value, [])
        if block and type(value) is Indented:
            return re.sub(rf"\n {{1,{min(block, value.width)}}}", "\n", value) if value.width else str(value)
        return text_of(value)


_NO_VALUES = SlotValues()

_NO_NUMBERS = (2**62, -1)


class Constant(Struct, frozen=True):
    """A scalar without a value of the render."""

    location: SourceLocation
    value: Any

    def build(self, _: SlotValues) -> Any:
        return self.value


class Faulty(Struct, frozen=True):
    """A plain scalar that no manifest may have."""

    location: SourceLocation
    message: str

    def build(self, _: SlotValues) -> Any:
        raise DocumentError(self.message, self.location)


class Slot(Struct, frozen=True):
    """A plain scalar that is one value."""

    location: SourceLocation
    number: int

    def build(self, slots: SlotValues) -> Any:
        value = slots.values[self.number]
        if slots.sizes and self.number in slots.sizes:
            slots.count(self.number)
        return str(value) if type(value) is Indented else value


class Mixed(Struct, frozen=True):
    """A scalar of text and values: `parts` has texts, and values by number."""

    location: SourceLocation
    parts: tuple[Any, ...]
    block: int = 0

    def build(self, slots: SlotValues) -> Any:
        if slots.tracked:
            values = [slots.values[part] for part in self.parts if type(part) is int]
            if is_tracked(values):
                return call_tracked(lambda *_: self._text(slots), values, {})
        return self._text(slots)

    def _text(self, slots: SlotValues) -> str:
        text = "".join([part if type(part) is str else slots.text(part, self.block) for part in self.parts])
        limits.current().produce(len(text))  # an alias can repeat it
        return text


class Fields(Struct, frozen=True):
    """A mapping; `merged` has the mappings that `<<` names, in their order."""

    location: SourceLocation
    entries: tuple[tuple[str | Slot | Mixed, Node, SourceLocation], ...]
    merged: tuple[Node, ...] = ()
    _plain: bool = False
    """Whether the text of the template writes each key, once, and nothing is merged: so are nearly all mappings."""
    _constant: Mapping[str, Any] | None = None
    """The whole mapping if it has scalars without a value of the render only."""
    numbers: tuple[int, int] = _NO_NUMBERS
    """The first and the last number of the slots in it."""

    def __post_init__(self) -> None:
        parts = (each for key, value, _ in self.entries for each in (key, value))
        force_setattr(self, "numbers", _joined_numbers(*parts, *self.merged))
        keys = [key for key, _, _ in self.entries if type(key) is str]
        if not self.merged and len(set(keys)) == len(self.entries):
            force_setattr(self, "_plain", True)
            if all(type(node) is Constant for _, node, _ in self.entries):
                force_setattr(self, "_constant", {key: node.build(_NO_VALUES) for key, node, _ in self.entries})

    def build(self, slots: SlotValues) -> dict[str, Any]:
        if self._constant is not None:
            return {**self._constant}
        if self._plain:
            return {
                key: node.value if type(node) is Constant else node.build(slots)  # type: ignore[misc]
                for key, node, _ in self.entries
            }
        fields: dict[str, Any] = {}
        for key, node, location in self.entries:
            value: Any = node.build(slots)
            name: Any = key
            if type(key) is not str:
                name = _build_key(key, slots, location)
                if type(name) is TrackedValue:
                    secret = name.secret
                    provenance = tuple([replace(source, key=True) if secret else source for source in name.provenance])
                    name, value = name.value, TrackedValue(value, provenance)
                    if secret and name in fields:
                        raise DocumentError(f"the key {HIDDEN} is there twice", location)
            if name in fields:
                raise DocumentError(f"the key {name} is there twice", location)
            fields[name] = value
        for other in self.merged:
            found: Any = other.build(slots)
            if isinstance(found, UnknownValue):
                found = {found: found}
            elif isinstance(found, TrackedValue) and isinstance(found.value, dict):
                found = {key: found.derive(value) for key, value in found.value.items()}
            if not isinstance(found, dict):
                raise DocumentError("<< needs a mapping or a list of mappings", other.location)
            fields = {**found, **fields}
        return fields


class Items(Struct, frozen=True):
    """A list."""

    location: SourceLocation
    nodes: tuple[Node, ...]
    numbers: tuple[int, int] = _NO_NUMBERS
    """The first and the last number of the slots in it."""

    def __post_init__(self) -> None:
        force_setattr(self, "numbers", _joined_numbers(*self.nodes))

    def build(self, slots: SlotValues) -> list[Any]:
        return [node.build(slots) for node in self.nodes]


Node: TypeAlias = Constant | Faulty | Slot | Mixed | Fields | Items


def slot_numbers(node: Node | str) -> tuple[int, int]:
    """The first and the last number of the slots in a part of a document: in its text, they are in order."""
    if isinstance(node, Slot):
        return node.number, node.number
    if isinstance(node, Mixed):
        numbers = [part for part in node.parts if type(part) is int]
        return min(numbers), max(numbers)
    return node.numbers if isinstance(node, (Fields, Items)) else _NO_NUMBERS


def _joined_numbers(*nodes: Node | str) -> tuple[int, int]:
    first, last = _NO_NUMBERS
    for node in nodes:
        if type(node) is not Constant and type(node) is not str:
            numbers = slot_numbers(node)
            first, last = min(first, numbers[0]), max(last, numbers[1])
    return first, last


def _build_key(key: str | Slot | Mixed, slots: SlotValues, location: SourceLocation) -> Any:
    """The key; a TrackedValue or an UnknownValue if it comes from the cluster."""
    if isinstance(key, str):
        return key
    if isinstance(key, Mixed):
        return key.build(slots)
    value = slots.values[key.number]
    if isinstance(untracked(value), (dict, list)):
        raise DocumentError("a mapping or a list can't be a key", location)
    if slots.tracked and is_tracked([value]):
        return call_tracked(lambda _: slots.text(key.number), [value], {})
    return slots.text(key.number)


FieldsByName: TypeAlias = dict[str | int, tuple[Node, SourceLocation]]
"""The fields of a mapping by their names, as one render writes them."""


def _by_name(node: Fields, slots: SlotValues) -> FieldsByName:
    found = ((untracked(_build_key(key, slots, at)), value, at) for key, value, at in node.entries)
    return {name: (value, at) for name, value, at in found if isinstance(name, str)}


def node_at(node: Node, path: FieldPath) -> Node | None:
    """The text of a field; None if the template does not write each key of its path, so that one comes with a value."""
    for part in path:
        below: Node | None = None
        if isinstance(node, Fields):
            below = next((value for key, value, _ in node.entries if key == part), None)
            if below is None:
                return next((found for other in node.merged if (found := node_at(other, path))), None)
        elif isinstance(node, Items) and isinstance(part, int) and part < len(node.nodes):
            below = node.nodes[part]
        if below is None:
            return None
        node, path = below, path[1:]
    return node


def value_paths(
    node: Node | None, body: Any, slots: SlotValues, path: FieldPath = ()
) -> Iterator[tuple[FieldPath, bool]]:
    """The outermost fields of a document that come with a value, unless this is a field of the parent as it is, which a
    traced render knows; each with whether its own name does.
    """
    body = untracked(body)
    if slots.has_yaml:
        yield (*path, ""), True
    elif isinstance(node, Fields) and isinstance(body, dict) and not node.merged:
        for key, below, _ in node.entries:
            if isinstance(key, str):
                yield from value_paths(below, body[key], slots, (*path, key))
            else:
                yield (*path, ""), True
    elif isinstance(node, Items) and isinstance(body, list):
        for at, below in enumerate(node.nodes):
            yield from value_paths(below, body[at], slots, (*path, at))
    elif not isinstance(node, Constant) and not _is_of_parent(node, slots):
        yield path, False


def _is_of_parent(node: Node | None, slots: SlotValues) -> bool:
    numbers = (node.number,) if isinstance(node, Slot) else node.parts if isinstance(node, Mixed) else ()
    values = [slots.values[each] for each in numbers if isinstance(each, int)]
    return bool(values) and all(isinstance(each, TrackedValue) and each.is_of_parent for each in values)


def find_location(
    node: Node, path: FieldPath, slots: SlotValues, known: dict[int, FieldsByName] | None = None
) -> SourceLocation:
    """The location of a field, or of the nearest field around it. `known` keeps the names of the mappings of a document
    for the next search: searching each field takes time proportional to their number.
    """
    known = {} if known is None else known
    location = node.location
    for at_part, part in enumerate(path):
        below: Node | None = None
        if isinstance(node, Fields):
            if id(node) not in known:
                known[id(node)] = _by_name(node, slots)
            below, location = known[id(node)].get(part, (None, location))
            for other in node.merged if below is None else ():
                if isinstance(other, Fields) and any(
                    untracked(_build_key(key, slots, at)) == part for key, _, at in other.entries
                ):
                    return find_location(other, path[at_part:], slots, known)
        elif isinstance(node, Items) and isinstance(part, int) and 0 <= part < len(node.nodes):
            below = node.nodes[part]
            location = below.location
        if below is None:
            break
        node = below
    return location
