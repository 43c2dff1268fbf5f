"""The findings of `check` as an editor shows them, each at the part of its line that `check` underlines.

Promises:
- The codes, severities and texts are those of `check`, whose fix in words ends the text.
- A finding without a file is at the first line of a file of the folder that it is about.
- A fix that replaces text of the line is offered as an edit: the edits of `check --fix`, and "did you mean ...?" if the
  line has one name that is similar to the suggested one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from ssa_operator.objects.messages import visible_line
from ssa_operator.tools.checks.project_checks import check_project, column_of_edit
from ssa_operator.tools.editor.edited_project import EditedProject
from ssa_operator.tools.editor.places import Span, Target, lines_of
from ssa_operator.tools.findings import Finding, Severity, marked


@dataclass(frozen=True, slots=True)
class Replacement:
    """A fix of a problem."""

    span: Span
    old: str
    """The text at the span."""
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A finding at its place in a file."""

    span: Span
    message: str
    code: str
    """The code of the finding."""
    severity: Severity = Severity.ERROR
    related: tuple[Target, ...] = ()
    """The lines that include the file of the finding, innermost first."""
    fixes: tuple[Replacement, ...] = ()


Problems = Mapping[Path, tuple[Problem, ...]]
"""The problems of each file that has some."""


def problems_of(project: EditedProject) -> Problems:
    """The findings of `check` in a project, by file."""
    found: dict[Path, list[Problem]] = {}
    texts: dict[Path, list[str]] = {}

    def lines_in(path: Path) -> list[str]:
        if path not in texts:
            texts[path] = lines_of(project.text(path))
        return texts[path]

    for finding in check_project(project):
        path = _path(finding, project)
        found.setdefault(path, []).append(_problem(finding, lines_in(path), project))
    return {path: tuple(problems) for path, problems in found.items()}


def _path(finding: Finding, project: EditedProject) -> Path:
    if finding.location is None:
        return _some_file(project, finding.about)
    path = Path(finding.location.file)
    # A file that is not on the disk yet has its name below the templates folder.
    return path if path.is_absolute() else project.path_of(finding.location.file)


def _some_file(project: EditedProject, folder: str) -> Path:
    """A file of a template folder, or of any folder if it has none."""
    for root in project.files.templates:
        for path in sorted(each for each in (root / folder).rglob("*") if each.is_file()):
            return path
    return project.files.templates[0]


def _problem(finding: Finding, lines: list[str], project: EditedProject) -> Problem:
    number = 1 if finding.location is None else finding.location.line
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    span = Span(number - 1, 0, 0)
    if line.strip():
        begin, length = marked(finding, line)
        span = Span(number - 1, begin, begin + length)
    included = finding.location.included_from if finding.location is not None else ()
    return Problem(
        span=span,
        message=visible_line(finding.text + (f"; {finding.fix}" if finding.fix else "")),
        code=finding.code,
        severity=finding.severity,
        related=tuple(Target(project.path_of(each.file), Span(each.line - 1, 0, 0)) for each in included),
        fixes=tuple(_fixes(finding, line, number - 1)),
    )


_SUGGESTED = re.compile(r"did you mean (?P<name>[\w./\[\]-]+)\?")
_NAME = re.compile(r"[\w./-]+")
_LIKENESS = 0.6


def _fixes(finding: Finding, line: str, number: int) -> Iterable[Replacement]:
    fixes = []
    for edit in finding.edits:
        column = column_of_edit(line, edit)
        if column is not None:
            span = Span(number, column, column + len(edit.old))
            fixes.append(Replacement(span, edit.old, edit.new))
    suggested = _SUGGESTED.search(finding.fix) or _SUGGESTED.search(finding.message)
    if not fixes and suggested is not None:
        fixes = [*_renamed(line, number, suggested["name"])]
    return fixes


def _renamed(line: str, number: int, name: str) -> Iterator[Replacement]:
    """The replacement of the one name of a line that is similar to a suggested path, or to its key."""
    for new in dict.fromkeys((name, name.rpartition(".")[2])):
        found = [(SequenceMatcher(None, each[0], new).ratio(), each.start(), each[0]) for each in _NAME.finditer(line)]
        likeness, begin, old = max(found, default=(0.0, 0, ""))
        if likeness >= _LIKENESS and old != new and [each[2] for each in found].count(old) == 1:
            yield Replacement(Span(number, begin, begin + len(old)), old, new)
            return
