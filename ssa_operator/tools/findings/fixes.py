"""Applies the fixes of findings to files, for `ssa-operator check --fix`.

Promises:
- Only the text that a finding names is replaced. Line ends, the byte order mark and the mode of the file stay.
- If the old text of an edit isn't where the finding saw it, the edit is left out.
- No symbolic link leads out of the templates folder.
- Each replacement is reported with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ssa_operator.operator.process.command_error import CommandError, writing
from ssa_operator.rendering.folder.contained_files import read_given, write_bytes

if TYPE_CHECKING:
    from ssa_operator.tools.findings.findings import Edit, Finding


def apply_fixes(findings: Iterable[Finding], roots: Sequence[Path]) -> list[str]:
    """Apply the edits of the findings to files of the templates folders `roots`, and return a sentence for each
    replacement. Raises CommandError.
    """
    by_file: dict[str, set[tuple[int, Edit]]] = {}
    for finding in findings:
        if finding.location is not None and finding.edits:
            edits = {(finding.location.line, edit) for edit in finding.edits}
            by_file.setdefault(finding.location.file, set()).update(edits)
    return [sentence for file, edits in sorted(by_file.items()) for sentence in _edit_file(Path(file), edits, roots)]


def _edit_file(path: Path, edits: Iterable[tuple[int, Edit]], roots: Sequence[Path]) -> list[str]:
    within = next((root for root in roots if path.is_relative_to(root)), None)
    sentences: list[str] = []
    try:
        text = read_given(path, within).decode()
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        lines = text.removeprefix(mark).split("\n")
        # The columns of a line stay right if its last edit comes first.
        for number, edit in sorted(edits, key=lambda each: (each[0], -(each[1].column or 0))):
            line = lines[number - 1] if number <= len(lines) else ""
            column = _column(line, edit)
            if column is not None:
                lines[number - 1] = line[:column] + edit.new + line[column + len(edit.old) :]
                sentences.append(f"{path}:{number}: {edit.old} -> {edit.new}")
        if sentences:
            with writing(path):
                write_bytes(path, (mark + "\n".join(lines)).encode(), within)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} can't be fixed: {error}") from error
    return sentences


def _column(line: str, edit: Edit) -> int | None:
    """Where the old text begins in a line, None if it isn't there."""
    if edit.column is not None:
        return edit.column if line.startswith(edit.old, edit.column) else None
    found = [each.start() for each in re.finditer(rf"(?<![\w.-]){re.escape(edit.old)}(?=[\"']?\s*:(?:\s|$))", line)]
    return found[0] if len(found) == 1 else None
