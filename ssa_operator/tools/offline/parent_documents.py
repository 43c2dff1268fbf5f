"""Reads the parents in the files of a command line.

Promises:
- A folder stands for the YAML files directly in it, `-` for standard input.
- Files follow the YAML rules of manifests. Every fault is named with file and line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ssa_operator.objects.render_result import Document
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.object_files import FileError, load_objects, objects


def read_parents(files: Sequence[str | Path]) -> list[Document]:
    """The parents in some files. Raises CommandError, for example if there is none."""
    found = read_objects(files)
    if not found:
        raise CommandError("there is no object in " + ", ".join(map(str, files)))
    return found


def read_objects(files: Sequence[str | Path]) -> list[Document]:
    """The objects in some files. Raises CommandError."""
    problems: list[str] = []
    found: list[Document] = []
    for file in files:
        try:
            found += objects(_standard_input(), "standard input") if str(file) == "-" else load_objects([Path(file)])
        except FileError as error:
            problems += map(str, error.problems)
    if problems:
        raise CommandError("\n".join(problems))
    return found


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError("standard input is not UTF-8 text") from error
