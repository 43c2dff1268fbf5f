"""The files that a template includes and imports.

Promises:
- A name is that of a file below the template folder, or of one that all folders share. No name leads out of these.
"""

from __future__ import annotations

from pathlib import Path

from ssa_operator.rendering.jinja.templates import SHARED
from ssa_operator.tools.editor.expression_types import Reading


def included_path(reading: Reading, name: str) -> Path | None:
    """The file that an include or import names, None if there is none."""
    folder = reading.project.folder_of(reading.path)
    own = reading.project.name_of(reading.path)
    if own is None:
        return None
    top = own.split("/")[0]
    folder_name = folder.name if folder is not None else top
    for full in (f"{folder_name}/{name}", name if name.startswith(f"{SHARED}/") else ""):
        path = reading.project.path_of(full)
        if full and ".." not in full.split("/") and (path in reading.project.unsaved or path.is_file()):
            return path
    return None


def file_text(reading: Reading, name: str) -> str:
    """The text of a file that an include or import names, '' without one."""
    path = included_path(reading, name)
    return "" if path is None else reading.project.text(path)
