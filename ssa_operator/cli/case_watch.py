"""Watches the files that golden cases depend on.

Promises:
- Every file counts, also the text files of cases, but no hidden one.
- One burst of changes in several folders is one change, and no change is missed while the cases run.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from ssa_operator.rendering.folder.hot_reload import changes
from ssa_operator.rendering.folder.snapshot import FolderState


async def changes_of(roots: Iterable[Path], files: Iterable[Path]) -> AsyncIterator[None]:
    """Yields now, and after each burst of changes below the folders or of the files, which need not exist, until it is
    cancelled.
    """
    async for _ in changes(list(dict.fromkeys(roots)), list(dict.fromkeys(files)), _state):
        yield None


def _state(root: Path) -> FolderState:
    """The files below a folder. Raises OSError if it can't be read."""
    next(root.iterdir(), None)
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if any(part.startswith((".", "__")) for part in relative.parts):
            continue
        with contextlib.suppress(OSError):
            status = path.stat()
            size = () if path.is_dir() else (status.st_size, status.st_mtime_ns)
            found[str(relative)] = (status.st_dev, status.st_ino, *size)
    return found
