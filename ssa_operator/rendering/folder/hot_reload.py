"""Watches the templates folder for hot reload.

Promises:
- `changes` yields once at the start and after each burst of changes, so that a load at each yield misses no change.
- The folder doesn't have to exist. It may vanish, return, or be replaced by another one.
- Without events from the file system, `changes` finds changes by polling, within a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

from watchfiles import awatch

from ssa_operator.rendering.folder.snapshot import FolderState, folder_state

_POLL_INTERVAL = 1000
"""Milliseconds without an event after which the folder is polled."""

_BURST_GAP = 50
"""Milliseconds without a change that end a burst."""

_BURST_LIMIT = 500
"""Milliseconds after which a burst that continues is reported."""


async def changes(root: Path) -> AsyncIterator[None]:
    """Yields now and after each burst of changes below `root`; ends when it is cancelled."""
    known = await asyncio.to_thread(_current_state, root)
    while True:
        yield None
        # Find the changes during the caller's load here, before the next watch begins.
        found = await asyncio.to_thread(_current_state, root)
        while found == known:
            found = await _next_state(root, known)
        known = found


async def _next_state(root: Path, known: FolderState | None) -> FolderState | None:
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
                found = await asyncio.to_thread(_current_state, root)
                if found != known:
                    return found
        except FileNotFoundError:
            pass
    return await asyncio.to_thread(_current_state, root)


def _current_state(root: Path) -> FolderState | None:
    """The state of the folder and of the files in it, None if it doesn't exist."""
    try:
        found = root.stat()
        return {"": (found.st_dev, found.st_ino), **folder_state(root)}
    except OSError:
        return None


def _nearest(root: Path) -> Path:
    """The nearest folder above that exists."""
    return next(path for path in root.absolute().parents if path.is_dir())
