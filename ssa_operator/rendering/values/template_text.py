"""Template text with values in it: the output of macros, blocks and files.

Promises:
- A value can't become YAML syntax: a placeholder stands for it until the YAML around it is parsed.
- An expression that compares, measures, encodes or joins template text uses the text that the manifest will have.
- `indent` and `trim` change the layout of text and not the values in it.

How it works:
While a template runs, its output is no string. Jinja's compiled code yields pieces, and `concat` joins them to a Text:
the template's own strings, with marks of their lines, and between them the printed values as objects. The output of a
macro or a block is a Text, too, so a value stays an object however often the text around it is passed on.

`RenderedText` writes the Text of a whole file. Each value becomes a placeholder with its number, and only this text is
parsed as YAML (`rendering.yaml.documents`). So no character of a value reaches the parser. A
scalar that is one placeholder gets the value with its type afterwards; in a longer scalar the value's text takes the
place of the placeholder.

An operation on a Text is of one of two kinds. One that needs the characters (a comparison, a length, an encoding) reads
`str(text)`, with the values written out; its result is a value as any other. One that changes only the layout
(`indent`, `trim`, `placed`) goes through `_relayout`: that puts placeholders in, changes the string, and splits it at
the placeholders again, so that the values pass through untouched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.line_marks import (
    CLOSE,
    EMPTY,
    LINE,
    MARK,
    MARKS,
    POP,
    PUSH,
    resolve_empty_collections,
    without_marks,
)
from ssa_operator.rendering.values.manifest_values import Stringlike, content_size, json_data, json_text, text_of
from ssa_operator.rendering.values.tracked_values import TrackedValue, call_tracked, untracked

OPEN = "\ue000"
"""Opens the placeholder of a value in the text that is parsed as YAML; `line_marks.CLOSE` closes it."""

PLACEHOLDER = re.compile(f"{OPEN}([0-9]+){CLOSE}")


class ValuePiece:
    """A value among the pieces of a text."""

    __slots__ = ("data",)

    def __init__(self, value: Any) -> None:
        self.data = value


class TrackedPiece(ValuePiece):
    """A value of the cluster among the pieces: `data` is a TrackedValue (of plain data or Json) or an UnknownValue.

    A value of a child that is not ready stays a TrackedValue until the whole file is rendered, because `default` may
    still read it.
    """

    __slots__ = ()


class Json(Stringlike):
    """The result of `tojson`: the structure if it is a whole scalar, and JSON text within other text."""

    __slots__ = ("_indent", "_text", "data")

    def __init__(self, value: Any, indent: int | None = None, text: str | None = None) -> None:
        """`indent` is as in `json.dumps`; `text` is the JSON text if it is known already."""
        self.data = json_data(value)
        self._indent = indent
        self._text = text

    def parts(self) -> Sequence[Any]:
        return (self.data,)

    def __str__(self) -> str:
        if self._text is None:
            if self._indent is None:
                self._text = json_text(self.data)
            else:
                limits.current().produce(_indentation_size(self.data, self._indent))
                self._text = json.dumps(self.data, ensure_ascii=False, indent=self._indent)
            limits.current().produce(len(self._text))
        return self._text

    def indented(self, width: int, first: bool, blank: bool) -> Json:
        """The same structure, with its text indented."""
        return Json(self.data, self._indent, _indented(str(self), width, first, blank))


def _indentation_size(data: Any, indent: int, depth: int = 1) -> int:
    """The characters of blanks before the lines of JSON."""
    if not isinstance(data, (dict, list)):
        return 0
    items: Iterable[Any] = data.values() if isinstance(data, dict) else data
    return (len(data) + 1) * depth * indent + sum(_indentation_size(item, indent, depth + 1) for item in items)


class YamlText(str):
    """Template text that `to_yaml` made of a value."""

    __slots__ = ()


Piece: TypeAlias = "str | ValuePiece | Json"


class Text(Stringlike):
    """Template text and the values in it, in order."""

    __slots__ = ("_read", "pieces")

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self.pieces = pieces
        self._read: str | None = None

    def parts(self) -> Sequence[Any]:
        return [piece.data if isinstance(piece, ValuePiece) else piece for piece in self.pieces]

    def __str__(self) -> str:
        """The text with its values written out."""
        if self._read is None:
            self._read = _joined(map(_piece_text, self.pieces))
        return self._read

    def marked_as_included(self) -> Text:
        """The text with its own locations; the location that it is written to is the one that included it."""
        if len(self.pieces) > _MANY:
            limits.current().produce(limits.size_of(self.pieces))
        return Text((PUSH, *self.pieces, POP))


_MANY = 64
_LARGE = 256


def _joined(texts: Iterable[str]) -> str:
    """The texts as one. Raises LimitError before it would be too long."""
    parts: list[str] = []
    size = 0
    for text in texts:
        size += len(text)
        if size > limits.OUTPUT_LIMIT:
            limits.current().produce(size)
        parts.append(text)
    limits.current().produce(size)
    return "".join(parts)


def _piece_text(piece: Piece, *, is_untracked: bool = False) -> str:
    """The text of a piece; with `is_untracked`, of a value of the cluster without its provenance."""
    if isinstance(piece, str):
        return without_marks(piece)
    if not isinstance(piece, ValuePiece):
        return str(piece)
    return text_of(untracked(piece.data) if is_untracked else piece.data)


def tracked_string(text: Text) -> Any:
    """The text as a string, with the provenance of the values of the cluster in it."""
    values = [piece.data for piece in text.pieces if type(piece) is TrackedPiece]
    if not values:
        return str(text)
    return call_tracked(lambda *_: _joined(_piece_text(each, is_untracked=True) for each in text.pieces), values, {})


def concat(pieces: Iterable[Any]) -> Text:
    """Join the pieces of a macro, a block or a file; Jinja calls it."""
    flat: list[Piece] = []
    size = 0
    for piece in pieces:
        if isinstance(piece, str):
            size += len(piece)
            flat.append(piece)
        elif isinstance(piece, Text):
            size += sum(len(part) for part in piece.pieces if isinstance(part, str))
            flat.extend(piece.pieces)
        else:
            flat.append(piece)
    limits.current().produce(size + 8 * len(flat))
    return Text(tuple(flat))


class RenderedText:
    """The text of one rendered file with numbered placeholders, and the values that they stand for."""

    __slots__ = ("has_yaml", "marked", "sizes", "texts", "tracked", "values")

    def __init__(self, pieces: Iterable[Any]) -> None:
        """Raises LimitError for too much text."""
        self.tracked = False
        self.has_yaml = False
        """Whether `to_yaml` made a part of the text of a value."""
        self.values: list[Any] = []
        self.texts: dict[int, str] = {}
        self.sizes: dict[int, int] = {}
        """The characters of the values that are large, by number."""
        marked = "".join(self._parts(pieces))
        self.marked = resolve_empty_collections(marked) if any(empty in marked for empty in EMPTY.values()) else marked

    def _parts(self, pieces: Iterable[Any]) -> list[str]:
        parts: list[str] = []
        values, limit, size = self.values, limits.OUTPUT_LIMIT, 0
        for piece in pieces:
            kind = type(piece)
            if kind is str:
                size += len(piece)
                parts.append(piece)
            elif kind is ValuePiece:
                value = piece.data
                # The size of most values needs no call.
                short = type(value) is str and len(value) <= _LARGE
                size += len(value) if short else self._size(value)
                if type(value) is Indented and value.first:
                    parts.append(" " * value.width)
                parts.append(_placeholder(len(values)))
                values.append(value)
            else:
                for part in piece.pieces if kind is Text else (piece,):
                    if isinstance(part, str):
                        self.has_yaml |= type(part) is YamlText
                        size += len(part)
                        parts.append(part)
                        continue
                    value = self._unwrapped(part)
                    provenance = value.provenance if type(value) is TrackedValue else None
                    value = untracked(value)
                    text = str(value) if isinstance(value, Json) else value
                    if isinstance(value, Json):
                        self.texts[len(self.values)] = text
                        value = value.data
                    if isinstance(text, Indented) and text.first:
                        parts.append(" " * text.width)
                    size += self._size(value)
                    parts.append(_placeholder(len(self.values)))
                    self.values.append(value if provenance is None else TrackedValue(value, provenance))
            if size > limit:
                raise limits.LimitError(
                    f"the template renders more than {limits.OUTPUT_LIMIT // 2**20} MiB, "
                    "which is more than the API server takes"
                )
        return parts

    def _size(self, value: Any) -> int:
        """The characters of the next value."""
        size = len(value) if type(value) is str else content_size(value)
        if size > _LARGE or type(value) is dict or type(value) is list:
            self.sizes[len(self.values)] = size
        return size

    def _unwrapped(self, part: ValuePiece | Json) -> Any:
        """The value of a piece, or the piece itself if it is Json; an UnknownValue if a child is not ready."""
        if type(part) is not TrackedPiece:
            return part if isinstance(part, Json) else part.data
        self.tracked = True
        return part.data.readable() if type(part.data) is TrackedValue else part.data


_PLACEHOLDERS = tuple(f"{OPEN}{number}{CLOSE}" for number in range(256))


def _placeholder(number: int) -> str:
    return _PLACEHOLDERS[number] if number < len(_PLACEHOLDERS) else f"{OPEN}{number}{CLOSE}"


class Indented(str):
    """A value that a template indented for the block scalar around it.

    It is the indented text. A block scalar removes the indentation of the block from it, as it does with text.
    """

    __slots__ = ("first", "width")
    width: int
    first: bool


def indent(text: Any, width: int, first: bool, blank: bool) -> Text | Json | str:
    """Spaces before each line but the first (with `first`: all lines), and before empty lines only with `blank`."""
    if isinstance(text, Text):
        space = " " * width
        lines = re.compile(r"\n" if blank else rf"\n(?=(?:{MARK})*[^\n{MARKS}])")
        return _relayout(text, lambda raw: (space if first else "") + lines.sub("\n" + space, raw), width)
    if isinstance(text, Json):
        return text.indented(width, first, blank)
    return _indented(text_of(text), width, first, blank)


def placed(text: Any, width: int, *, all_lines: bool, ends_line: bool = False) -> Any:
    """A text of a template, moved to the right so that its first line with content has at least `width` blanks before
    it: all lines but those that separate documents, or this one alone. With `ends_line`, its last line has an end. Any
    other value is unchanged.
    """
    if not isinstance(text, Text):
        return text

    def moved(raw: str) -> str:
        head = _FIRST_CONTENT.match(raw)
        if head is None:
            return raw
        if ends_line and not re.sub(MARK, "", raw[-_TAIL:]).endswith("\n"):
            raw += "\n"
        blanks = len(re.sub(MARK, "", head[0][head[0].rfind("\n") + 1 :]))
        space = " " * max(0, width - blanks)
        if not space:
            return raw
        start = raw.rfind("\n", 0, head.end()) + 1
        rest = _LINE_WITH_CONTENT.sub("\n" + space, raw[start:]) if all_lines else raw[start:]
        return raw[:start] + ("" if _SEPARATOR.match(raw[start:]) else space) + rest

    return _relayout(text, moved, width + ends_line)


_TAIL = 256
"""Characters at the end of a text that have its last line break, if marks alone follow it."""

_FIRST_CONTENT = re.compile(rf"(?:\s|{MARK})*(?=[^\s{MARKS}])")
_SEPARATOR = re.compile(rf"(?:{MARK})*---(?:\s|\Z)")
_LINE_WITH_CONTENT = re.compile(rf"\n(?!(?:{MARK})*---(?:\s|\Z))(?=(?:{MARK})*[^\n{MARKS}])")


def _indented(plain: str, width: int, first: bool, blank: bool) -> Indented:
    space = " " * width
    limits.current().produce(len(plain) + width * (plain.count("\n") + 1))
    indented = Indented(re.sub(r"\n" if blank else r"\n(?=[^\n])", "\n" + space, plain))
    indented.width, indented.first = width, first
    return indented


def trim(text: Text) -> Text:
    """The text without white space around it."""

    def stripped(raw: str) -> str:
        head = re.match(rf"(?:\s|{MARK})*", raw)
        assert head is not None
        end = _content_end(raw)
        return "".join((_only_marks(head[0]), raw[head.end() : end], _only_marks(raw[max(end, head.end()) :])))

    return _relayout(text, stripped)


_MARK_LENGTH = 32
"""Characters of the longest mark or placeholder."""


def _content_end(raw: str) -> int:
    """The position where the trailing blanks and marks begin; searched from the end, because a search from the front is
    quadratic.
    """
    end = len(raw)
    while end:
        last = raw[end - 1]
        if last.isspace() or last in (PUSH, POP):
            end -= 1
        elif last == CLOSE and (begin := raw.rfind(LINE, at := max(0, end - _MARK_LENGTH), end)) > raw.rfind(
            OPEN, at, end
        ):
            end = begin
        else:
            break
    return end


def _only_marks(raw: str) -> str:
    return "".join(re.findall(MARK, raw))


def _relayout(text: Text, change: Callable[[str], str], width: int = 0) -> Text:
    """The text after `change`, which adds at most `width` blanks to each line."""
    values: list[Piece] = []
    parts: list[str] = []
    kind: type[str] = str
    for piece in text.pieces:
        if isinstance(piece, str):
            kind = YamlText if type(piece) is YamlText else kind
            parts.append(piece)
        else:
            parts.append(_placeholder(len(values)))
            values.append(piece)
    raw = "".join(parts)
    if width and "\n" in raw:
        limits.current().produce(len(raw) + width * (raw.count("\n") + 1))
    changed = change(raw)
    limits.current().produce(len(changed))
    if not values:
        return Text((kind(changed),))
    # A pattern with one group splits into text, number, text, number, ..., text.
    parts = PLACEHOLDER.split(changed)
    found: list[Piece] = [*parts] if kind is str else [*map(kind, parts)]
    found[1::2] = [values[int(part)] for part in parts[1::2]]
    return Text(tuple(found))
