"""Watches the templates folder for hot reload.

Promises:
- `changes` yields once at the start and after each burst of changes, so that a load at each yield misses no change.
- The folder doesn't have to exist. It may vanish, return, or be replaced by another one.
- Without events from the file system, `changes` finds changes by polling, within a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TypeAlias

from watchfiles import awatch

from ssa_operator.rendering.folder.snapshot import FolderState, folder_state

ReadState: TypeAlias = Callable[[Path], FolderState]
"""Reads the state of a folder. Raises OSError if the folder itself can't be read."""

_POLL_INTERVAL = 1000
"""Milliseconds without an event after which the folder is polled."""

_BURST_GAP = 50
"""Milliseconds without a change that end a burst."""

_BURST_LIMIT = 500
"""Milliseconds after which a burst that continues is reported."""


async def changes(root: Path, read_state: ReadState = folder_state) -> AsyncIterator[None]:
    """Yields now and after each burst of changes below `root`; ends when it is cancelled. `read_state` reads the state
    whose changes count, by default that of templates.
    """
    known = await asyncio.to_thread(_current_state, root, read_state)
    while True:
        yield None
        # Find the changes during the caller's load here, before the next watch begins.
        found = await asyncio.to_thread(_current_state, root, read_state)
        while found == known:
            found = await _next_state(root, known, read_state)
        known = found


async def _next_state(root: Path, known: FolderState | None, read_state: ReadState) -> FolderState | None:
    """The state that follows `known`; may be the same if the watched folder was deleted."""
    watched = root if known is not None else _nearest(root)
    events = awatch(
        watched,
        recursive=watched is root,
        step=_BURST_GAP,
        debounce=_BURST_LIMIT,
        rust_timeout=_POLL_INTERVAL,
        yield_on_timeout=True,
    )
    async with aclosing(events):
        try:
            async for _ in events:
                found = await asyncio.to_thread(_current_state, root, read_state)
                if found != known:
                    return found
        except FileNotFoundError:
            pass
    return await asyncio.to_thread(_current_state, root, read_state)


def _current_state(root: Path, read_state: ReadState) -> FolderState | None:
    """The state of the folder and of the files in it, None if it doesn't exist."""
    try:
        found = root.stat()
        return {"": (found.st_dev, found.st_ino), **read_state(root)}
    except OSError:
        return None


def _nearest(root: Path) -> Path:
    """The nearest folder above that exists."""
    return next(path for path in root.absolute().parents if path.is_dir())
