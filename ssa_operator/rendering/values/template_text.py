"""Template text with values in it, as macros, blocks and files make it.

Promises:
- Text and values are never mixed: a value keeps its place among the pieces until the YAML around it is parsed, so it
  can't become YAML syntax.
- Used as a value (compared, measured, encoded, joined), text reads as what it will say in the manifest.
- `indent` and `trim` change the layout of text and leave the values in it alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.line_marks import CLOSE, EMPTY, LINE, MARK, MARKS, POP, PUSH, settled, without_marks
from ssa_operator.rendering.values.manifest_values import Stringlike, data, json_text, text_of
from ssa_operator.rendering.values.tracked_values import TrackedValue, carried, plain

OPEN = "\ue000"
"""Opens the stand-in of a value in the text that is parsed as YAML; `places.CLOSE` closes it."""

TOKEN = re.compile(f"{OPEN}([0-9]+){CLOSE}")


class Value:
    """A value among the pieces of a text."""

    __slots__ = ("data",)

    def __init__(self, value: Any) -> None:
        self.data = value


class Carried(Value):
    """A value of the cluster among the pieces: `data` is Observed, of plain data or Json, or Unknown.

    What can't be read yet stays Observed until the file is put together: `default` may still take it as it is.
    """

    __slots__ = ()


class Json(Stringlike):
    """A structure that was asked for as JSON: the structure where it is a whole scalar, its text anywhere else."""

    __slots__ = ("_indent", "_text", "data")

    def __init__(self, value: Any, indent: int | None = None, text: str | None = None) -> None:
        """`indent` is as in `json.dumps`; `text` is the JSON where it is known already."""
        self.data = data(value)
        self._indent = indent
        self._text = text

    def __str__(self) -> str:
        if self._text is None:
            if self._indent is None:
                self._text = json_text(self.data)
            else:
                self._text = json.dumps(self.data, ensure_ascii=False, indent=self._indent)
            limits.current().produce(len(self._text))
        return self._text

    def indented(self, width: int, first: bool, blank: bool) -> Json:
        """The same structure, with its text indented."""
        return Json(self.data, self._indent, _indented(str(self), width, first, blank))


Piece: TypeAlias = "str | Value | Json"


class Text(Stringlike):
    """Template text and the values in it, in order."""

    __slots__ = ("_read", "pieces")

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self.pieces = pieces
        self._read: str | None = None

    def __str__(self) -> str:
        """What the text says with its values written out."""
        if self._read is None:
            self._read = "".join([_read(piece) for piece in self.pieces])
            limits.current().produce(len(self._read))
        return self._read

    def placed(self) -> Text:
        """The text with its own places, and the place that it is put in as the one that it was included from."""
        return Text((PUSH, *self.pieces, POP))


def _read(piece: Piece) -> str:
    if isinstance(piece, str):
        return without_marks(piece)
    return text_of(piece.data) if isinstance(piece, Value) else str(piece)


def spoken(text: Text) -> Any:
    """What the text says, with the origins of the values of the cluster that are in it."""
    values = [piece.data for piece in text.pieces if type(piece) is Carried]
    if not values:
        return str(text)
    return carried(lambda *_: "".join([_read_alone(piece) for piece in text.pieces]), values, {})


def _read_alone(piece: Piece) -> str:
    value = plain(piece.data) if type(piece) is Carried else piece
    if isinstance(value, (Value, Json)) or value is piece:
        return _read(value)
    return text_of(value)


def concat(pieces: Iterable[Any]) -> Text:
    """What Jinja calls to join the output of a macro or a block."""
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


class Composition:
    """The text of one rendered file with numbered stand-ins, and the values that they stand for."""

    __slots__ = ("carried", "marked", "texts", "values")

    def __init__(self, pieces: Iterable[Any]) -> None:
        """Raises LimitError for too much text."""
        self.carried = False
        self.values: list[Any] = []
        self.texts: dict[int, str] = {}
        marked = "".join(self._parts(pieces))
        self.marked = settled(marked) if any(empty in marked for empty in EMPTY.values()) else marked

    def _parts(self, pieces: Iterable[Any]) -> list[str]:
        parts: list[str] = []
        size = 0
        for piece in pieces:
            kind = type(piece)
            if kind is str:
                size += len(piece)
                parts.append(piece)
            elif kind is Value:
                value = piece.data
                if type(value) is str:
                    size += len(value)
                elif type(value) is Indented and value.first:
                    parts.append(" " * value.width)
                parts.append(_token(len(self.values)))
                self.values.append(value)
            else:
                for part in piece.pieces if kind is Text else (piece,):
                    if isinstance(part, str):
                        size += len(part)
                        parts.append(part)
                        continue
                    value = self._unwrapped(part)
                    origins = value.sources if type(value) is TrackedValue else None
                    value = plain(value)
                    said = str(value) if isinstance(value, Json) else value
                    if isinstance(value, Json):
                        self.texts[len(self.values)] = said
                        value = value.data
                    if isinstance(said, Indented) and said.first:
                        parts.append(" " * said.width)
                    size += len(value) if isinstance(value, str) else 1
                    parts.append(_token(len(self.values)))
                    self.values.append(value if origins is None else TrackedValue(value, origins))
            if size > limits.OUTPUT_LIMIT:
                raise limits.LimitError(
                    f"the template renders more than {limits.OUTPUT_LIMIT // 2**20} MiB, "
                    "which is more than the API server takes"
                )
        return parts

    def _unwrapped(self, part: Value | Json) -> Any:
        """The value of a piece, or the Json that it is; unknown where it can't be read yet."""
        if type(part) is not Carried:
            return part if isinstance(part, Json) else part.data
        self.carried = True
        return part.data.readable() if type(part.data) is TrackedValue else part.data


_TOKENS = tuple(f"{OPEN}{number}{CLOSE}" for number in range(256))


def _token(number: int) -> str:
    return _TOKENS[number] if number < len(_TOKENS) else f"{OPEN}{number}{CLOSE}"


class Indented(str):
    """A value that was indented for the block scalar it stands in.

    It is the indented text, but a block scalar takes the indentation of the block off again, as it does with text.
    """

    __slots__ = ("first", "width")
    width: int
    first: bool


def indent(text: Any, width: int, first: bool, blank: bool) -> Text | Json | str:
    """Spaces before each line but the first (`first`: also that one) and before empty lines only with `blank`."""
    if isinstance(text, Text):
        space = " " * width
        lines = re.compile(r"\n" if blank else rf"\n(?=(?:{MARK})*[^\n{MARKS}])")
        return _relayout(text, lambda raw: (space if first else "") + lines.sub("\n" + space, raw))
    if isinstance(text, Json):
        return text.indented(width, first, blank)
    return _indented(text_of(text), width, first, blank)


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


def _content_end(raw: str) -> int:
    """Where the blanks and marks at the end begin; found from the end, for a search from the front is quadratic."""
    end = len(raw)
    while end:
        last = raw[end - 1]
        if last.isspace() or last in (PUSH, POP):
            end -= 1
        elif last == CLOSE and (begin := raw.rfind(LINE, 0, end)) > raw.rfind(OPEN, 0, end):
            end = begin
        else:
            break
    return end


def _only_marks(raw: str) -> str:
    return "".join(re.findall(MARK, raw))


def _relayout(text: Text, change: Callable[[str], str]) -> Text:
    values: list[Piece] = []
    raw = ""
    for piece in text.pieces:
        if isinstance(piece, str):
            raw += piece
        else:
            raw += _token(len(values))
            values.append(piece)
    changed = change(raw)
    limits.current().produce(len(changed))
    # A pattern with one group splits into text, number, text, number, ..., text.
    parts = TOKEN.split(changed)
    return Text(tuple(values[int(part)] if index % 2 else part for index, part in enumerate(parts)))
