"""What a revision changed: the files that differ from those of the revision before it.

Promises:
- A value of `--values`, the content of `files/`, and a file that renders a Secret are named, never shown.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from ssa_operator.rendering.folder.loaded_folders import FolderInputs

OPERATOR = "the operator"
"""Stands for another version or namespace of the operator, or another version of its rendering."""

_SECRET = re.compile(r"""\bkind["']?[ \t]*:[ \t]*["']?Secret\b""")


def changed_files(folder: str, before: FolderInputs, after: FolderInputs) -> list[str]:
    """The files that two revisions don't have in common, `--values`, and the operator; those of the folder without its
    name.
    """
    one, other = ({**each.files, **each.data} for each in (before, after))
    found = sorted(path for path in {*one, *other} if one.get(path) != other.get(path))
    if before.overrides != after.overrides:
        found.append("--values")
    if any(getattr(before, each) != getattr(after, each) for each in ("operator", "rendering", "hold_upgrade")):
        found.append(OPERATOR)
    return [path.removeprefix(f"{folder}/") for path in found]


def differences(before: FolderInputs, after: FolderInputs) -> Sequence[str]:
    """The lines of a unified diff of the templates and settings of two revisions."""
    lines: list[str] = []
    for path in sorted({*before.files, *after.files}):
        one, other = before.files.get(path, ""), after.files.get(path, "")
        if one == other:
            continue
        if _SECRET.search(one) or _SECRET.search(other):
            lines.append(f"{path} differs; it is not shown, because it renders a Secret")
        else:
            lines += difflib.unified_diff(one.splitlines(), other.splitlines(), path, path, lineterm="")
    return lines
