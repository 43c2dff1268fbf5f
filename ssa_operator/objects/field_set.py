"""Sets of fields, as managedFields write them, and their operations: those of structured-merge-diff.

Promises:
- Everything that other clients wrote there is read without an error: invalid fieldsV1 owns nothing, and a manager owns
  a field as a whole if it is nested deeper than NESTING_LIMIT.
- Fields are named as users write them: `spec.replicas`, `spec.template.spec.containers[name=web].image`.
- Texts contain names of fields and keys of list maps, and no other values.
- A `FieldSets` decodes each set once, however many entries, states of the object and questions use it.

The encoding (`f:` a field, `k:` a key of a list map, `v:` a value of a set, `i:` a position, `.` the item itself) is
that of https://github.com/kubernetes-sigs/structured-merge-diff, fieldpath/serialize.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ssa_operator.objects.json_codec import NOTHING, decoder, is_deep, without_deep_values
from ssa_operator.objects.merge_keys import ABSENT, ListIndex, keys_of, reader
from ssa_operator.objects.source_location import field_text

Path: TypeAlias = tuple[str, ...]
"""A field as fieldsV1 spells it, outermost first: `("f:spec", "f:replicas")`."""

FieldSet: TypeAlias = "Mapping[str, FieldSet]"
"""A decoded fieldsV1: each step with what is below it. An empty set below a step is the whole field. Sets don't change,
and share their parts.
"""

ReadFields: TypeAlias = "Callable[[bytes], FieldSet]"
"""A function that decodes fieldsV1: `field_set`, or a `FieldSets`."""

_decode = decoder(Any)


# Reading.


def field_set(fields_v1: bytes, known: dict[str, bool] | None = None) -> FieldSet:
    """An encoded fieldsV1, without steps that can't be read; empty if it is invalid. `known` remembers which steps can
    be read.
    """
    try:
        decoded = _decode(without_deep_values(fields_v1) if is_deep(fields_v1) else fields_v1)
    except msgspec.DecodeError:
        return NOTHING
    return checked(decoded, known)


class FieldSets:
    """The field sets of one comparison, by their encoding."""

    __slots__ = ("_known", "_sets")

    def __init__(self) -> None:
        self._sets: dict[bytes, FieldSet] = {}
        self._known: dict[str, bool] = {}

    def __call__(self, fields_v1: bytes) -> FieldSet:
        """What `field_set` gives."""
        found = self._sets.get(fields_v1)
        if found is None:
            found = self._sets[fields_v1] = field_set(fields_v1, self._known)
        return found


def checked(value: object, known: dict[str, bool] | None = None) -> FieldSet:
    """The field set in a decoded value of NESTING_LIMIT levels at most: the value itself if it is valid."""
    if not isinstance(value, dict):
        return {}
    if known is None:
        known = {}
    replaced: dict[str, FieldSet | None] | None = None
    for step, below in value.items():
        if not (step == "." or step.startswith("f:")):
            readable = known.get(step)
            if readable is None:
                readable = known[step] = _is_item(step)
            if not readable:
                replaced = replaced or {}
                replaced[step] = None
                continue
        if below or not isinstance(below, dict):
            inner = checked(below, known)
            if inner is not below:
                replaced = replaced or {}
                replaced[step] = inner
    if replaced is None:
        return value
    found = {step: replaced.get(step, below) for step, below in value.items()}
    return {step: below for step, below in found.items() if below is not None}


def _is_item(step: str) -> bool:
    """Whether a step selects items of a list."""
    kind, colon, name = step.partition(":")
    if colon and kind in ("k", "v"):
        try:
            value = step_value(name)
        except (msgspec.DecodeError, ValueError):
            return False
        return kind == "v" or isinstance(value, dict)
    return kind == "i" and name.isascii() and name.isdigit() and len(name) <= _POSITION_DIGITS


_POSITION_DIGITS = 9


def step_value(name: str) -> Any:
    """What a step of a checked set writes after `k:` or `v:`: the keys of an item, or the item itself."""
    return _decode(name.encode())


def path_text(path: Path) -> str:
    """The field as users write it."""
    text = ""
    for step in path:
        kind, _, name = step.partition(":")
        if kind == "f":
            part = field_text((name,))
            text += f".{part}" if text and not part.startswith("[") else part
        elif kind == "k":
            text += "[" + ",".join(f"{key}={value}" for key, value in step_value(name).items()) + "]"
        else:
            text += f"[{name}]"
    return text


def field_names(path: Path) -> tuple[str, ...]:
    """A field without the items of lists that it is in."""
    return tuple(step[2:] for step in path if step.startswith("f:"))


# Sets and fields.


def set_of(paths: Iterable[Path]) -> FieldSet:
    """The set of some fields."""
    root: dict[str, Any] = {}
    for path in paths:
        at = root
        for step in path:
            at = at.setdefault(step, {})
    return root


def has(fields: FieldSet, path: Path) -> bool:
    """Whether a set has a field itself, not only fields below it or the value that it is in."""
    for step in path:
        if step not in fields:
            return False
        fields = fields[step]
    return _has_itself(fields)


def _has_itself(fields: FieldSet) -> bool:
    return not fields or "." in fields


def covers(fields: FieldSet, path: Path) -> bool:
    """Whether a set has a field, something below it, or a whole value that it is in."""
    for step in path:
        if step not in fields:
            return False
        fields = fields[step]
        if not fields:
            return True
    return True


def leaves(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """The fields below which a set has no others."""
    for step, below in fields.items():
        if step != ".":
            if not below or (len(below) == 1 and "." in below):
                yield (*prefix, step)
            yield from leaves(below, (*prefix, step))


def union(sets: Sequence[FieldSet]) -> FieldSet:
    """The fields of all these sets."""
    if len(sets) == 1:
        return sets[0]
    steps = dict.fromkeys(step for each in sets for step in each)
    return {step: union([each[step] for each in sets if step in each]) for step in steps}


def split(fields: FieldSet, path: Path) -> tuple[FieldSet, FieldSet]:
    """A set without a field, and the part of it that is the field and what is below."""
    first, rest = path[0], path[1:]
    if first not in fields:
        return fields, {}
    others = {step: below for step, below in fields.items() if step != first}
    if not rest:
        return others, {first: fields[first]}
    below, taken = split(fields[first], rest)
    if not taken:
        return fields, {}
    # A manager that owns only the keys of an item would keep an empty item when the manifest drops it.
    bare = first.startswith("k:") and below.keys() <= {".", *(f"f:{key}" for key in keys_of(first))}
    return (others if bare or not below else {**others, first: below}), {first: taken}


def lost_fields(before: bytes, after: bytes, read: ReadFields = field_set) -> tuple[Path, ...]:
    """The fields of the encoded set `before` that `after` lacks: for a lost item of a list, the item alone."""
    if not before or before == after:
        return ()
    return tuple(sorted(_lost(read(before), read(after), ())))


def _lost(before: FieldSet, after: FieldSet, prefix: Path) -> Iterator[Path]:
    for step, below in before.items():
        if step == ".":
            continue
        left = after.get(step)
        if left == below:
            continue
        if _has_itself(below) and (left is None or not _has_itself(left)):
            yield (*prefix, step)
        else:
            yield from _lost(below, left or {}, (*prefix, step))


# Sets and bodies.


def changed_fields(
    fields_v1: bytes, before: Mapping[str, Any], after: Mapping[str, Any], read: ReadFields = field_set
) -> tuple[Path, ...]:
    """The outermost fields of an encoded set whose values differ between two bodies."""
    return tuple(sorted(_changed(read(fields_v1), before, after, ())))


def _changed(fields: FieldSet, before: object, after: object, prefix: Path) -> Iterator[Path]:
    old_at, new_at = reader(before), reader(after)
    for step, below in fields.items():
        old, new = (old_at(step), new_at(step)) if step != "." else (None, None)
        if old != new:
            if below:
                yield from _changed(below, old, new, (*prefix, step))
            else:
                yield (*prefix, step)


def lacking(fields: FieldSet, body: object, kept: FieldSet = NOTHING) -> FieldSet:
    """The outermost fields of a set that neither a body nor the set `kept` has. A body has no positions in lists."""
    found: dict[str, FieldSet] = {}
    # The fields of mappings are read without a call: each apply asks for all fields of its manifest.
    mapping = body if isinstance(body, (dict, Mapping)) else None
    part_of = reader(body, ABSENT, merged=True) if mapping is None else None
    for step, below in fields.items():
        if step != ".":
            part = part_of(step) if part_of is not None else ABSENT
            if mapping is not None and step.startswith("f:"):
                part = mapping.get(step[2:], ABSENT)
            if part is ABSENT and step not in kept:
                found[step] = {}
            elif below:
                inner = lacking(below, None if part is ABSENT else part, kept.get(step, NOTHING))
                if inner:
                    found[step] = inner
    return found


def select(fields: FieldSet, body: object) -> tuple[FieldSet, FieldSet]:
    """The fields of a set that a body has, and the other fields."""
    within: dict[str, FieldSet] = {}
    others: dict[str, FieldSet] = {}
    part_of = reader(body, ABSENT, merged=True)
    for step, below in fields.items():
        part = part_of(step)
        if part is ABSENT:
            others[step] = below
        elif not below:
            within[step] = below
        else:
            inner, outer = select(below, part)
            if inner:
                within[step] = inner
            if outer:
                others[step] = outer
    return within, others


def without_fields(value: Any, fields: FieldSet) -> Any:
    """A part of a body without the leaves of a set."""
    if isinstance(value, Mapping):
        result = dict(value)
        for step, below in fields.items():
            key = step.partition(":")[2]
            if key in result:
                if below:
                    result[key] = without_fields(result[key], below)
                else:
                    del result[key]
        return result
    if isinstance(value, list):
        index = ListIndex(value)
        below_of = {at: below for step, below in fields.items() for at in index.selected(step)}
        return [
            without_fields(item, below_of.get(at, NOTHING))
            for at, item in enumerate(value)
            if at not in below_of or below_of[at]
        ]
    return value


class ListTypes:
    """How lists are merged, by the field sets of all managers of an object."""

    __slots__ = ("below", "is_set", "keys")

    def __init__(self, sets: Iterable[FieldSet] = ()) -> None:
        self.keys: tuple[str, ...] = ()
        """The names of the keys, if this value is a list map."""
        self.is_set = False
        """Whether this value is a list of which each item has its owners."""
        self.below: dict[str, ListTypes] = {}
        """The values below: `k:` stands for each item."""
        for fields in sets:
            self.add(fields)

    def add(self, fields: FieldSet) -> None:
        """Add what a field set says of this value."""
        for step, below in fields.items():
            if is_key := step.startswith("k:"):
                self.keys = self.keys or tuple(keys_of(step))
            elif step.startswith("v:"):
                self.is_set = True
            if below:
                self.below.setdefault("k:" if is_key else step, ListTypes()).add(below)

    def field(self, name: str) -> ListTypes:
        """Those below a field."""
        return self.below.get(f"f:{name}", _ATOMIC)

    @property
    def item(self) -> ListTypes:
        """Those below an item of a list map."""
        return self.below.get("k:", _ATOMIC)


_ATOMIC = ListTypes()
