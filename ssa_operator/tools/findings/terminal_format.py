"""Prints findings in a terminal: in colour, each with its source line and what to do, and a summary.

Promises:
- The first line of a finding is that of the text, without what to do, which is below the source line.
- Carets are under the word of the line that the finding names, or under the whole line.
- There are no colours with NO_COLOR. A source line controls no terminal.
- A file is read once, and through no link out of the project.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from ssa_operator.objects.messages import counted, visible_line
from ssa_operator.operator.process import streams
from ssa_operator.rendering.folder.contained_files import read_given
from ssa_operator.tools.findings.codes import Severity
from ssa_operator.tools.findings.findings import Finding

_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}
_TOKEN = re.compile(r"[\w./-]+", re.ASCII)


def print_findings(findings: Sequence[Finding]) -> None:
    """Print findings for people."""
    from rich.text import Text

    console, lines_of = streams.console(), cache(_lines)
    for finding in findings:
        where = f"{finding.location}: " if finding.location else ""
        head = Text()
        head.append(visible_line(where), "bold")
        head.append(f"{finding.severity} {finding.code}", _COLOURS[finding.severity])
        head.append(f": {visible_line(finding.text)}")
        console.print(head, soft_wrap=True)
        for text, style in _source(finding, lines_of):
            console.print(Text(text, style), soft_wrap=True)
        console.print()


def print_summary(findings: Sequence[Finding]) -> None:
    """Print how many findings there are."""
    from rich.text import Text

    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    if not findings:
        streams.console().print(Text("ok: check found no errors and no warnings", "green"))
    else:
        streams.line(f"check found {counted(errors, 'error')} and {counted(warnings, 'warning')}")


def _source(finding: Finding, lines_of: Callable[[str], Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The source line, the carets and what to do, each with its style."""
    number = finding.location.line if finding.location is not None else 0
    lines = lines_of(finding.location.file) if finding.location is not None else ()
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    margin = " " * (len(str(number)) + 2)
    if line.strip():
        shown = visible_line(line.expandtabs(4))
        begin, length = _marked(finding, shown)
        yield f" {number} | {shown}", ""
        yield f"{margin}| {' ' * begin}{'^' * length}", _COLOURS[finding.severity]
    if finding.fix:
        yield f"{margin}= {visible_line(finding.fix)}", "cyan"


def _lines(file: str) -> Sequence[str]:
    """The lines of a file of the project, none if it can't be read."""
    try:
        return read_given(Path(file)).decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError):
        return ()  # the finding itself says what is wrong with the file


def _marked(finding: Finding, line: str) -> tuple[int, int]:
    """Where the carets of a line begin, and how many there are."""
    tokens = [edit.old for edit in finding.edits]
    # A path comes before other words, and the end of a path is the key of its field.
    words = sorted(_TOKEN.findall(finding.message), key=lambda word: "." not in word)
    for word in words:
        tokens += [word, word.rpartition(".")[2]]
    for token in tokens:
        found = next((each for each in _TOKEN.finditer(line) if token in (each[0], each[0].strip("."))), None)
        if found is not None and len(token) > 2:
            return found.start(), len(token)
    text = line.strip()
    return line.index(text), len(text)
