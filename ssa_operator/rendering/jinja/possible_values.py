"""The values that an expression of a template may have, as far as the text of the templates shows without a parent.

Promises:
- A value is a set of texts, a list, a mapping, a field of the parent, a macro, an imported file, or text with holes.
- A value with more than OPTIONS_LIMIT texts, or a value that is too large, counts as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jinja2 import nodes
from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.objects.template_contents import PARENT_NAMESPACE

_PLAIN = re.compile(r"[A-Za-z0-9](?:[\w./-]*[A-Za-z0-9])?", re.ASCII)

OPTIONS_LIMIT = 64
"""Texts that one expression may give; an expression with more counts as unknown."""

TEXT_LIMIT = 2**20
"""Characters of all texts that one expression may give."""

ITEMS_LIMIT = 1000
"""Items of a list or a mapping that a template writes, with those in its items, each as often as it is there."""

_WIDTH_LIMIT = 1024

Branch: TypeAlias = tuple[tuple[int, int], ...]
"""The conditions around a piece of text: the number of each condition, and the number of its arm."""


class AnyValue(Struct, frozen=True):
    """A value that only a render knows."""


class Texts(Struct, frozen=True):
    """One of these texts; if not `complete`, perhaps another one."""

    options: frozenset[str]
    complete: bool = True


class ParentField(Struct, frozen=True):
    """A field of the parent."""

    path: tuple[str, ...]


class PossibleItems(Struct, frozen=True):
    """A list with these items."""

    values: tuple[Value, ...]


class Entries(Struct, frozen=True):
    """A mapping with these entries."""

    values: tuple[tuple[str, Value], ...]

    def get(self, name: str) -> Value:
        return dict(self.values).get(name, UNKNOWN)


class Body(Struct, frozen=True, eq=False):
    """A macro, or the body of `{% call %}`."""

    file: str
    parameters: tuple[str, ...]
    defaults: tuple[nodes.Expr, ...]
    body: Sequence[nodes.Node]
    scope: Scope


class Module(Struct, frozen=True, eq=False):
    """An imported file: its macros and variables."""

    scope: Scope


class Fragment(Struct, frozen=True, eq=False):
    """Text of a template: the result of a macro or of a block assignment."""

    pieces: tuple[Piece, ...]


Value: TypeAlias = AnyValue | Texts | ParentField | PossibleItems | Entries | Body | Module | Fragment
Scope: TypeAlias = dict[str, Value]

UNKNOWN = AnyValue()
PARENTS_NAMESPACE = Texts(frozenset({PARENT_NAMESPACE}))


class Piece(Struct, frozen=True, kw_only=True):
    """A piece of the expanded text: text, or a hole for a value."""

    text: str = ""
    location: SourceLocation
    branch: Branch
    value: Value | None = None
    """The value of a hole."""
    expression: nodes.Node | None = None
    """The expression of a hole."""


def data_value(data: Any) -> Value:
    """Plain data as a value. A text that could change the YAML around it is not known."""
    if isinstance(data, Mapping):
        return Entries(tuple((key, data_value(item)) for key, item in data.items()))
    if isinstance(data, list):
        return PossibleItems(tuple(map(data_value, data)))
    shown = str(data).lower() if isinstance(data, bool) else str(data)
    return text(shown) if data is not None and _PLAIN.fullmatch(shown) else UNKNOWN


def bounded(value: PossibleItems | Entries) -> Value:
    """The list or mapping, UNKNOWN if it is too large. It counts its parts one by one, up to the limit."""
    pending: list[Value] = [value]
    count = 0
    while pending:
        part = pending.pop()
        if isinstance(part, PossibleItems):
            pending += part.values
        elif isinstance(part, Entries):
            pending += [item for _, item in part.values]
        count += 1
        if count > ITEMS_LIMIT:
            return UNKNOWN
    return value


def options_of(value: Value | None) -> list[str]:
    """The texts that a value may be, in order; empty if it is not a text."""
    return sorted(value.options) if isinstance(value, Texts) else []


def known_texts(value: Value | None, absent: str | None) -> tuple[str | None, ...]:
    """The texts that an argument may be, with None if it may be another one."""
    if value is None:
        return (absent,)
    return tuple(options_of(value)) if isinstance(value, Texts) and value.complete else (None,)


def in_arm(fragment: Fragment, arm: tuple[int, int]) -> Iterator[Piece]:
    """The pieces of a text in one arm of a condition."""
    return (replace(piece, branch=(*piece.branch, arm)) for piece in fragment.pieces)


def limited_texts(options: frozenset[str], complete: bool) -> Value:
    """These texts as a value, UNKNOWN if they are too many."""
    return Texts(options, complete) if len(options) <= OPTIONS_LIMIT else UNKNOWN


def concatenated(values: Iterable[Value]) -> Value:
    """The texts that some values give one after the other."""
    options, complete = frozenset({""}), True
    for value in values:
        known = as_texts(value)
        if known is None:
            return UNKNOWN
        options = frozenset(one + other for one in options for other in known.options)
        complete = complete and known.complete
        if len(options) > OPTIONS_LIMIT or sum(map(len, options)) > TEXT_LIMIT:
            return UNKNOWN
    return Texts(options, complete)


def as_texts(value: Value) -> Texts | None:
    """A value as texts, None if it is not a text or has holes."""
    if isinstance(value, Texts):
        return value
    if isinstance(value, Fragment) and all(piece.value is None and not piece.branch for piece in value.pieces):
        return text("".join(piece.text for piece in value.pieces))
    return None


METHODS = frozenset({"items", "keys", "split", "values"})
"""The methods whose results are known if what they are called on is."""


def entries_of(value: Entries, method: str) -> Value:
    """What `items`, `keys` or `values` gives of a mapping."""
    index = {"keys": 0, "values": 1}.get(method)
    pairs = [(text(key), each) for key, each in value.values]
    return PossibleItems(tuple(PossibleItems(pair) if index is None else pair[index] for pair in pairs))


def split(value: Texts, arguments: Sequence[Value]) -> Value:
    """The parts of a text that is known, between separators that are known."""
    whole = only_text(value)
    separator = only_text(arguments[0]) if arguments else None
    if whole is None or len(arguments) > 1 or (arguments and not separator):
        return UNKNOWN
    return bounded(PossibleItems(tuple(map(text, whole.split(separator)))))


def replaced(value: Value, old: Value, new: Value) -> Value:
    """Texts in which one text is replaced by another one, if both are known."""
    before, after = only_text(old), only_text(new)
    if not isinstance(value, Texts) or not before or after is None:
        return UNKNOWN
    if sum(len(each) + each.count(before) * len(after) for each in value.options) > TEXT_LIMIT:
        return UNKNOWN
    return Texts(frozenset(each.replace(before, after) for each in value.options), value.complete)


def only_text(value: Value | None) -> str | None:
    """The text that a value is, None if it may be another one."""
    is_one = isinstance(value, Texts) and value.complete and len(value.options) == 1
    return next(iter(value.options)) if is_one and isinstance(value, Texts) else None


def text(value: str) -> Texts:
    """A known text as a value."""
    return Texts(frozenset({value}))


def placed(fragment: Fragment, arguments: Sequence[Value]) -> Fragment:
    """The text of an include, moved to the right as far as its first line has less than an indentation."""
    (width, *_) = options_of(arguments[0])
    before = ""
    for piece in fragment.pieces:
        before += piece.text if piece.value is None else "x"
        if before.strip():
            break
    line = before.lstrip("\n").split("\n")[0]
    missing = int(width) - (len(line) - len(line.lstrip(" ")))
    if missing <= 0:
        return fragment
    return indented(fragment, (text(str(missing)), text("true")), {})


def indented(fragment: Fragment, arguments: Sequence[Value], named: Mapping[str, Value]) -> Fragment:
    """The text with more blanks at the beginning of each line but the first."""
    (width, *_) = [*options_of(arguments[0] if arguments else named.get("width")), "4"]
    blanks = " " * min(int(width[:9]), _WIDTH_LIMIT) if width.isdecimal() else ""
    starts = "true" in options_of(arguments[1] if len(arguments) > 1 else named.get("first"))
    found = []
    for piece in fragment.pieces:
        if piece.value is not None:
            found += [replace(piece, text=blanks, value=None, expression=None)] if starts and blanks else []
            starts = False
            found.append(piece)
            continue
        first, *others = piece.text.split("\n")
        lines = [blanks + first if first and starts else first, *(blanks + line if line else "" for line in others)]
        starts = not others[-1] if others else starts and not first
        found.append(replace(piece, text="\n".join(lines)))
    return Fragment(tuple(found))
