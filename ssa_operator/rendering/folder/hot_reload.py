"""Watches the templates folder, and files of values, for hot reload.

Promises:
- `changes` yields once at the start and after each burst of changes, so that a load at each yield misses no change. It
  yields no state that may be half of a copy (`standstill.py`).
- The folder doesn't have to exist. It may vanish, return, or be replaced by another one. So may a file.
- Without events from the file system, `changes` finds changes by polling, within a second. So it does where the system
  has no watch for it (inotify's limits are per user and node), or a watch fails later; the log says so once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from watchfiles import awatch

from ssa_operator.rendering.folder.snapshot import FolderState, folder_state
from ssa_operator.rendering.folder.standstill import Standstill

log = logging.getLogger("ssa_operator")

_POLL_INTERVAL = 1000
"""Milliseconds without an event after which the folder is polled."""

_RETRY = 60.0
"""Seconds of polling after which the system is asked for a watch again."""

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
    watch = _Watch(root, state)
    while True:
        yield None
        # Find the changes during the caller's load here, before the next watch begins.
        found = await asyncio.to_thread(state, root)
        followed = Standstill.of(known, time.monotonic()).seen(found, time.monotonic())
        while (due := followed.due) is None or due > time.monotonic():
            seconds = None if due is None else due - time.monotonic()
            found = await watch.next_state(followed.found, seconds)
            followed = followed.seen(found, time.monotonic())
        known = followed.found


@dataclass(slots=True)
class _Watch:
    """Finds the next state of a folder or a file: by events of the file system, and else by polling."""

    root: Path
    state: StateOf
    retry_at: float = 0.0
    """Until when it polls, because the system had no watch; on the monotonic clock."""

    async def next_state(self, known: FolderState | None, seconds: float | None) -> FolderState | None:
        """The state that follows `known`; the same after these seconds, and if the watched folder was deleted."""
        poll = _POLL_INTERVAL if seconds is None else min(_POLL_INTERVAL, max(1, math.ceil(seconds * 1000)))
        async with aclosing(self._events(known, poll)) as events:
            async for _ in events:
                found = await self._state()
                if found != known or seconds is not None:
                    return found
        return await self._state()

    async def _events(self, known: FolderState | None, poll: int) -> AsyncGenerator[None]:
        """Yields after each event of the file system, and after each `poll` milliseconds without one. Ends where the
        watched folder is gone.
        """
        watched = self.root if known is not None and self.state is not _file_state else _nearest(self.root)
        while time.monotonic() < self.retry_at:
            await asyncio.sleep(poll / 1000)
            yield None
        events = awatch(
            watched,
            recursive=watched is self.root,
            step=_BURST_GAP,
            debounce=_BURST_LIMIT,
            rust_timeout=poll,
            yield_on_timeout=True,
        )
        try:
            async with aclosing(events):
                async for _ in events:
                    yield None
        except FileNotFoundError:
            return
        except (OSError, RuntimeError, ExceptionGroup) as error:  # watchfiles' own error is a RuntimeError
            self._poll_after(error)
            yield None

    async def _state(self) -> FolderState | None:
        return await asyncio.to_thread(self.state, self.root)

    def _poll_after(self, error: Exception) -> None:
        if not self.retry_at:
            log.warning(
                "%s: the system has no watch for it (%s), so it is polled each second; for changes at once, raise "
                "fs.inotify.max_user_instances or fs.inotify.max_user_watches of the node (sysctl)",
                self.root,
                error,
            )
        self.retry_at = time.monotonic() + _RETRY


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
