"""A Jinja extension that adds line marks to a template and removes lines that contain only tags.

Promises:
- A line that contains only `{% tags %}` and comments renders nothing, neither its indentation nor its line break.
- The output of an `{% include %}` in a line of its own has at least the indentation of that line, and so has the first
  line of the output of a `{% filter %}`.
- A tag within a line removes nothing of the line, but in a macro: its text is Jinja's with `trim_blocks` and
  `lstrip_blocks`.
- The first character of each line follows the mark of that line.
- Marks around each include lead back to the line that included it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from jinja2 import TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from msgspec import Struct, field

from ssa_operator.rendering.jinja.compilation import limited
from ssa_operator.rendering.jinja.filters import PLACE_ALL, PLACE_FIRST, PLACE_LINE
from ssa_operator.rendering.values.line_marks import POP, PUSH, RESERVED, line_mark

_DATA, _TAG, _VALUE, _SKIPPED = "data", "tag", "value", "skipped"
_BLANK_END = re.compile(r"^[ \t]*\Z", re.MULTILINE)
_BLANK_START = re.compile(r"[ \t]*(?:\n|\Z)")


class _Segment(Struct):
    """Tokens that belong together: text, one tag, one `{{ value }}`, or (without tokens) a comment or raw tag."""

    kind: str
    line: int
    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    wrapped: tuple[list[Token], list[Token]] | None = None
    """The tags around this one that place its output."""


_END = _Segment(_DATA, 0)


class LineTags(Extension):
    """The Jinja extension; the environment has the text and the number of each template."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """The source unchanged. Raises TemplateSyntaxError if it contains a character that is reserved for marks."""
        reserved = RESERVED.search(source)
        if reserved:
            line = source.count("\n", 0, reserved.start()) + 1
            message = f"the character U+{ord(reserved[0]):04X} is reserved; write it as an escape in a string"
            raise TemplateSyntaxError(message, line, name, filename)
        return source

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        lines = self.environment.sources[stream.name].split("\n")  # type: ignore[attr-defined]
        segments = list(_segments(limited(stream), lines))
        _place_lone_tags(segments)
        _drop_lone_tags(segments)
        return _marked(segments, self.environment.numbers[stream.name])  # type: ignore[attr-defined]


def _segments(stream: Iterable[Token], lines: Sequence[str]) -> Iterator[_Segment]:
    before: _Segment | None = None
    for token in stream:
        if token.type == "data":
            # The lexer leaves out only comments and raw tags.
            ends_comment = token.value.startswith("\n") and lines[token.lineno - 1].rstrip("\r").endswith("#}")
            if before is not None and (before.kind == _DATA or (before.kind == _VALUE and ends_comment)):
                yield _Segment(_SKIPPED, token.lineno)
            before = _Segment(_DATA, token.lineno, token.value, [token])
            yield before
        elif token.type in ("block_begin", "variable_begin"):
            before = _Segment(_TAG if token.type == "block_begin" else _VALUE, token.lineno, "", [token])
            yield before
        else:
            assert before is not None
            before.tokens.append(token)


def _place_lone_tags(segments: list[_Segment]) -> None:
    """Let the output of an indented `{% include %}` or `{% filter %}` in a line of its own begin at that
    indentation. What a filter with its end in the same line writes ends the line.
    """
    for at, (before, segment) in enumerate(pairwise(segments), 2):
        name = _tag_name(segment)
        blanks = _BLANK_END.search(before.text) if name in ("include", "filter") and before.kind == _DATA else None
        behind = at
        while name == "filter" and behind < len(segments) and _within_line(segments[behind]):
            behind += 1
        after = segments[behind] if behind < len(segments) else _END
        names = [each for each in map(_tag_name, segments[at:behind]) if each]
        is_line = names[-1:] == ["endfilter"] and names.count("endfilter") == names.count("filter") + 1
        is_alone = after.kind == _DATA and _BLANK_START.match(after.text) is not None
        if blanks is None or not is_alone or not (blanks[0] or is_line):
            continue
        begin, *inner, end = segment.tokens
        line, width = segment.line, len(blanks[0])
        if name == "include":
            opening = [begin, Token(line, "name", "filter"), *_placing(line, PLACE_ALL, width), end]
            closing = [begin, Token(line, "name", "endfilter"), end]
            segment.wrapped = (opening, closing)
        else:
            placing = PLACE_LINE if is_line else PLACE_FIRST
            chained = [*inner, Token(line, "pipe", "|"), *_placing(line, placing, width)]
            segment.tokens = [begin, *chained, end]


def _tag_name(segment: _Segment) -> str:
    """The name of a tag, '' for what is no tag."""
    return segment.tokens[1].value if segment.kind == _TAG and len(segment.tokens) > 1 else ""


def _placing(line: int, name: str, width: int) -> list[Token]:
    """The tokens of a call of one of the filters that place text."""
    call: list[tuple[str, Any]] = [("name", name), ("lparen", "("), ("integer", width), ("rparen", ")")]
    return [Token(line, kind, value) for kind, value in call]


def _drop_lone_tags(segments: list[_Segment]) -> None:
    """Remove the blanks around tags that have a line for themselves from the text around them; in a macro, also those
    before tags at the begin of a line, and the line break behind tags at its end.
    """
    in_macro = _in_macros(segments)
    texts = [segment.text for segment in segments]
    at = 0
    while at < len(segments):
        if segments[at].kind in (_DATA, _VALUE):
            at += 1
            continue
        end = at
        while end < len(segments) and _within_line(segments[end]):
            end += 1
        before = at - 1
        starts = at == 0 or (
            segments[before].kind == _DATA
            and _BLANK_END.search(texts[before]) is not None
            and (before == 0 or "\n" in texts[before])
        )
        ends = end == len(segments) or (segments[end].kind == _DATA and _BLANK_START.match(texts[end]) is not None)
        if starts and ends:
            if at > 0:
                segments[before].text = _BLANK_END.sub("", segments[before].text)
            if end < len(segments):
                rest = _BLANK_START.sub("", segments[end].text, count=1)
                segments[end].line += segments[end].text[: len(segments[end].text) - len(rest)].count("\n")
                segments[end].text = rest
        else:
            if starts and at > 0 and in_macro[before] and not _keeps(segments[at], 0):
                segments[before].text = _BLANK_END.sub("", segments[before].text)
            breaks = ends and end < len(segments) and texts[end].startswith("\n")
            if breaks and in_macro[end] and not _keeps(segments[end - 1], -1):
                segments[end].text = segments[end].text[1:]
                segments[end].line += 1
        at = max(end, at + 1)


def _in_macros(segments: Iterable[_Segment]) -> list[bool]:
    """Whether each segment is in a macro."""
    depth = 0
    found = []
    for name in map(_tag_name, segments):
        depth += (name == "macro") - (name == "endmacro")
        found.append(depth > 0)
    return found


def _keeps(segment: _Segment, end: int) -> bool:
    """Whether a `+` at one end of a tag keeps the blanks there."""
    return bool(segment.tokens) and "+" in segment.tokens[end].value


def _within_line(segment: _Segment) -> bool:
    return segment.kind in (_TAG, _SKIPPED) or (segment.kind == _DATA and not segment.text.strip(" \t"))


def _marked(segments: Iterable[_Segment], number: int) -> Iterator[Token]:
    marked = 0

    def mark(line: int) -> str:
        nonlocal marked
        if line == marked:
            return ""
        marked = line
        return line_mark(number, line)

    for segment in segments:
        if segment.kind == _DATA:
            lines = []
            for offset, text in enumerate(segment.text.split("\n")):
                content = text.lstrip(" \t")
                blank = text[: len(text) - len(content)]
                lines.append(blank + mark(segment.line + offset) + content if content else text)
            if segment.text:
                yield Token(segment.line, "data", "\n".join(lines))
        elif segment.kind == _VALUE:
            text = mark(segment.line)
            if text:
                yield Token(segment.line, "data", text)
            yield from segment.tokens
        elif segment.kind == _TAG:
            # Which branch of the tag runs isn't known here, so the text after it gets a mark again.
            name = _tag_name(segment)
            marked = 0
            if name in ("include", "call"):
                yield Token(segment.line, "data", mark(segment.line))
            yield from _included(segment) if name == "include" else segment.tokens
            marked = 0


def _included(segment: _Segment) -> Iterator[Token]:
    """The tokens of an include. The text that a filter returns is marked as included from its line anyway."""
    if segment.wrapped is not None:
        opening, closing = segment.wrapped
        yield from (*opening, *segment.tokens, *closing)
        return
    yield Token(segment.line, "data", PUSH)
    yield from segment.tokens
    yield Token(segment.line, "data", POP)
