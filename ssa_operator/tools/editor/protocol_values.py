"""The values of this room's rules as messages of the Language Server Protocol.

Promises:
- A position counts the units of the encoding that client and server agreed on.
- A file has the address under which the editor opened it, even if that leads through links.
- A fix is offered only while its line still has the text that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types
from pygls import uris

from ssa_operator.tools.editor.completion import Completions
from ssa_operator.tools.editor.diagnostics import Problem
from ssa_operator.tools.editor.edited_project import EditedProject
from ssa_operator.tools.editor.expression_types import Reading
from ssa_operator.tools.editor.places import UTF_16, Span, Target, column_of, lines_of, units
from ssa_operator.tools.findings import Severity

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTexts:
    """The texts that an editor has open, at one moment."""

    texts: Mapping[Path, str] = field(default_factory=dict)
    """By their real paths."""
    addresses: Mapping[Path, str] = field(default_factory=dict)
    """The URIs under which the editor opened them."""
    encoding: str = UTF_16

    def address(self, path: Path) -> str:
        return self.addresses.get(path) or uris.from_fs_path(str(path)) or ""


class Places:
    """Places in the newest texts of a project, as the protocol says them. The lines of a text are split once."""

    def __init__(self, open_texts: OpenTexts, project: EditedProject) -> None:
        self._open = open_texts
        self._project = project
        self._lines: dict[Path, list[str]] = {}

    def line(self, path: Path, number: int) -> str:
        """The text of a line, '' if there is none."""
        if path not in self._lines:
            text = self._open.texts.get(path)
            self._lines[path] = lines_of(self._project.text(path) if text is None else text)
        lines = self._lines[path]
        return lines[number] if 0 <= number < len(lines) else ""

    def range(self, path: Path, span: Span) -> types.Range:
        line, number = self.line(path, span.line), max(span.line, 0)
        begin, end = (units(line[:column], self._open.encoding) for column in (span.column, span.end))
        return types.Range(types.Position(number, begin), types.Position(number, end))

    def location(self, target: Target) -> types.Location:
        return types.Location(uri=self._open.address(target.path), range=self.range(target.path, target.span))

    def diagnostic(self, path: Path, problem: Problem) -> types.Diagnostic:
        related = [
            types.DiagnosticRelatedInformation(location=self.location(each), message="included here")
            for each in problem.related
        ]
        return types.Diagnostic(
            range=self.range(path, problem.span),
            message=problem.message,
            severity=_SEVERITIES[problem.severity],
            code=problem.code or None,
            source="ssa-operator",
            related_information=related or None,
        )

    def actions(self, path: Path, problems: Iterable[Problem]) -> Iterator[types.CodeAction]:
        """The fixes of some problems of a file."""
        for problem in problems:
            for fix in problem.fixes:
                if self.line(path, fix.span.line)[fix.span.column : fix.span.end] != fix.old:
                    continue
                edit = types.TextEdit(range=self.range(path, fix.span), new_text=fix.new)
                yield types.CodeAction(
                    title=f"Replace {fix.old} by {fix.new}",
                    kind=types.CodeActionKind.QuickFix,
                    diagnostics=[self.diagnostic(path, problem)],
                    edit=types.WorkspaceEdit(changes={self._open.address(path): [edit]}),
                )

    def items(self, path: Path, found: Completions, line: int, column: int) -> list[types.CompletionItem]:
        """The completions with the text that each replaces, in their order."""
        replaced, items = self.range(path, Span(line, found[0], column)), found[1]
        for number, each in enumerate(items):
            each.sort_text = f"{number:05}"
            each.text_edit = types.TextEdit(replaced, each.insert_text or each.label)
            each.insert_text = None
        return items


def place_of(reading: Reading, position: types.Position, encoding: str) -> tuple[int, int]:
    """The line and the column of a position."""
    lines = reading.lines
    if position.line >= len(lines):
        return len(lines) - 1, len(lines[-1])
    return position.line, column_of(lines[position.line], position.character, encoding)
