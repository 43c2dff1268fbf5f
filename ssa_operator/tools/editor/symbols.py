"""The outline of a file: its manifests by kind and name, and its macros.

Promises:
- A manifest is named as its template writes it: `Deployment {{ name }}-db`.
- Every symbol is within the lines of the file.
"""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol.types import DocumentSymbol, Position, Range, SymbolKind

from ssa_operator.tools.editor.manifest_cursor import manifests
from ssa_operator.tools.editor.template_cursor import bindings
from ssa_operator.tools.editor.text_places import UTF_16, Span, lines_of, units, whole_line


def symbols(text: str, *, is_template: bool, encoding: str = UTF_16) -> list[DocumentSymbol]:
    """The manifests and the macros of a file, in the order of its lines."""
    lines = lines_of(text)

    def position(line: int, column: int | None = None) -> Position:
        return Position(line, units(lines[line][:column], encoding))

    return [
        DocumentSymbol(
            name=name,
            detail=detail,
            kind=kind,
            range=Range(Position(begin, 0), position(end)),
            selection_range=Range(position(span.line, span.column), position(span.line, span.end)),
        )
        for begin, end, name, detail, kind, span in sorted(
            [*_manifests(lines), *(_macros(lines) if is_template else ())], key=lambda each: each[0]
        )
    ]


_Found = tuple[int, int, str, str, SymbolKind, Span]
"""The first and the last line, the name, its detail, and where the name is."""


def _manifests(lines: list[str]) -> Iterator[_Found]:
    for each in manifests(lines):
        if each.kind:
            last = max(each.begin, min(each.end, len(lines)) - 1)
            span = whole_line(lines[each.kind_line], each.kind_line)
            yield each.begin, last, f"{each.kind} {each.name}".strip(), each.api_version, SymbolKind.Object, span


def _macros(lines: list[str]) -> Iterator[_Found]:
    text = "\n".join(lines)
    for name, bound in bindings(text).items():
        if bound.kind == "macro":
            line = text.count("\n", 0, bound.offset)
            column = bound.offset - (text.rfind("\n", 0, bound.offset) + 1)
            span = Span(line, column, column + len(name))
            yield line, line, name, f"({bound.expression})", SymbolKind.Function, span
