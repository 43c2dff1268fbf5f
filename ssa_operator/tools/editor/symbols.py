"""The outline of a file: its manifests by kind and name, and its macros.

Promises:
- A manifest is named as its template writes it: `Deployment {{ name }}-db`.
- Every symbol is within the lines of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ssa_operator.tools.editor.manifest_cursor import manifests
from ssa_operator.tools.editor.template_cursor import bindings
from ssa_operator.tools.editor.text_places import Span, lines_of, whole_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A part of a file with a name."""

    name: str
    detail: str = ""
    is_macro: bool = False
    begin: int
    """Its first line."""
    end: int
    """Its last line."""
    span: Span
    """Where its name is."""


def symbols(text: str, *, is_template: bool) -> list[Symbol]:
    """The manifests and the macros of a file, in the order of its lines."""
    lines = lines_of(text)
    found = [*_manifests(lines), *(_macros(lines) if is_template else ())]
    return sorted(found, key=lambda each: each.begin)


def _manifests(lines: list[str]) -> Iterator[Symbol]:
    for each in manifests(lines):
        if each.kind:
            last = max(each.begin, min(each.end, len(lines)) - 1)
            yield Symbol(
                name=f"{each.kind} {each.name}".strip(),
                detail=each.api_version,
                begin=each.begin,
                end=last,
                span=whole_line(lines[each.kind_line], each.kind_line),
            )


def _macros(lines: list[str]) -> Iterator[Symbol]:
    text = "\n".join(lines)
    for name, bound in bindings(text).items():
        if bound.kind == "macro":
            line = text.count("\n", 0, bound.offset)
            column = bound.offset - (text.rfind("\n", 0, bound.offset) + 1)
            span = Span(line, column, column + len(name))
            yield Symbol(name=name, detail=f"({bound.expression})", is_macro=True, begin=line, end=line, span=span)
