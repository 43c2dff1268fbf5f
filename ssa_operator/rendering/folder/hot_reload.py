"""Watches the templates folder, and files of values, for hot reload.

Promises:
- `changes` yields once at the start and after each burst of changes, so that a load at each yield misses no change. It
  yields no state that may be half of a copy (`standstill.py`).
- The folder doesn't have to exist. It may vanish, return, or be replaced by another one. So may a file.
- Only folders of the state are watched. A link that leads out of the folder is neither walked nor watched.
- Without events from the file system, `changes` finds changes by polling, within a second.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TypeAlias

from watchfiles import awatch

from ssa_operator.rendering.folder.snapshot import FolderState, folder_state
from ssa_operator.rendering.folder.standstill import Standstill

_POLL_INTERVAL = 1000
"""Milliseconds without an event after which the folder is polled."""

_BURST_GAP = 50
"""Milliseconds without a change that end a burst."""

_BURST_LIMIT = 500
"""Milliseconds after which a burst that continues is reported."""


ReadState: TypeAlias = Callable[[Path], FolderState]
"""Reads the state of a folder. Raises OSError if the folder itself can't be read."""

StateOf: TypeAlias = Callable[[Path], FolderState | None]
"""Reads the state of a folder or a file."""


async def changes(root: Path, read_state: ReadState = folder_state) -> AsyncIterator[None]:
    """Yields now and after each burst of changes below the folder `root`; ends when it is cancelled. `read_state` reads
    the state whose changes count, by default that of templates.
    """
    async for _ in _changes(root, partial(_current_state, read_state=read_state)):
        yield None


async def file_changes(path: Path) -> AsyncIterator[None]:
    """The same for one file, also if a link to it or a folder above it is replaced."""
    async for _ in _changes(path, _file_state):
        yield None


async def _changes(root: Path, state: StateOf) -> AsyncIterator[None]:
    known = await asyncio.to_thread(state, root)
    while True:
        yield None
        # Find the changes during the caller's load here, before the next watch begins.
        found = await asyncio.to_thread(state, root)
        followed = Standstill.of(known, time.monotonic()).seen(found, time.monotonic())
        while (due := followed.due) is None or due > time.monotonic():
            seconds = None if due is None else due - time.monotonic()
            found = await _next_state(root, followed.found, state, seconds)
            followed = followed.seen(found, time.monotonic())
        known = followed.found


async def _next_state(
    root: Path, known: FolderState | None, state: StateOf, seconds: float | None
) -> FolderState | None:
    """The state that follows `known`; the same after these seconds, and if the watched folder was deleted."""
    poll = _POLL_INTERVAL if seconds is None else min(_POLL_INTERVAL, max(1, math.ceil(seconds * 1000)))
    events = awatch(
        *_watched(root, known, state),
        # A recursive watch follows each link, also one to the root of the file system.
        recursive=False,
        step=_BURST_GAP,
        debounce=_BURST_LIMIT,
        rust_timeout=poll,
        yield_on_timeout=True,
    )
    async with aclosing(events):
        try:
            async for _ in events:
                found = await asyncio.to_thread(state, root)
                if found != known or seconds is not None:
                    return found
        except FileNotFoundError:
            pass
    return await asyncio.to_thread(state, root)


def _watched(root: Path, known: FolderState | None, state: StateOf) -> list[Path]:
    """The folders whose events may be changes: those of the state, in which no link leads out."""
    if known is None or state is _file_state:
        return [_nearest(root)]
    return [root, *(root / name for name in known if name.endswith("/"))]


def _current_state(root: Path, read_state: ReadState = folder_state) -> FolderState | None:
    """The state of the folder and of the files in it, None if it doesn't exist."""
    try:
        found = root.stat()
        return {"": (found.st_dev, found.st_ino), **read_state(root)}
    except OSError:
        return None


def _file_state(path: Path) -> FolderState | None:
    """The state of one file, None if it doesn't exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return {"": (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)}


def _nearest(root: Path) -> Path:
    """The nearest folder above that exists."""
    return next(path for path in root.absolute().parents if path.is_dir())
