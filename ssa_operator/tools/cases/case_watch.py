"""Watches the files that golden cases depend on.

Promises:
- Every file counts, including the text files of cases, but no hidden one, and none outside of the project.
- One burst of changes in several folders is one change, and no change is missed while the cases run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from ssa_operator.rendering.folder.contained_files import is_within, project_of
from ssa_operator.rendering.folder.folder_snapshot import FolderState
from ssa_operator.rendering.folder.hot_reload import changes


async def changes_of(roots: Iterable[Path], files: Iterable[Path]) -> AsyncIterator[None]:
    """Yields now, and after each burst of changes below the folders or of the files, which need not exist, until it is
    cancelled.
    """
    async for _ in changes(list(dict.fromkeys(roots)), list(dict.fromkeys(files)), _state):
        yield None


def _state(root: Path) -> FolderState:
    """The files below a folder. Raises OSError if it can't be read."""
    next(root.iterdir(), None)
    project = project_of(root)
    found: dict[str, tuple[int, ...]] = {}
    for folder, folders, files in os.walk(root):
        # Hidden folders are not walked, and neither are links.
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        for name in (*folders, *files):
            path = Path(folder, name)
            if name.startswith((".", "__")) or not is_within(path, project):
                continue
            with contextlib.suppress(OSError):
                status, relative = path.stat(), str(path.relative_to(root))
                if name in folders:
                    found[f"{relative}/"] = (status.st_dev, status.st_ino)
                else:
                    found[relative] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return dict(sorted(found.items()))
