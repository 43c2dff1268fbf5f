"""Watches the templates folders and the files of values, for hot reload.

Promises:
- `changes` yields after each burst of changes, so that a load at each yield misses no change. It yields no state that
  may be half of a copy of any folder, whichever folder or file changed (`standstill.py`).
- A load during which a copy begins is recognized, and `changes` yields again once the files stand still.
- No folder has to exist. It may vanish, return, or be replaced by another one. So may a file, a link to it, or a folder
  above it.
- Without events from the file system, `changes` finds changes by polling, within a second.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

from msgspec import Struct
from watchfiles import awatch

from ssa_operator.rendering.folder.snapshot import FilesState, FolderState, ReadState, files_state, folder_state
from ssa_operator.rendering.folder.standstill import Standstill

_POLL_INTERVAL = 1000
"""Milliseconds without an event after which the folder is polled."""

_BURST_GAP = 50
"""Milliseconds without a change that end a burst."""

_BURST_LIMIT = 500
"""Milliseconds after which a burst that continues is reported."""


class _Files(Struct, frozen=True):
    """What is watched."""

    folders: Sequence[Path]
    files: Sequence[Path]
    read_state: ReadState

    def state(self) -> FilesState:
        return files_state(self.folders, self.files, self.read_state)

    def only(self, path: Path) -> _Files:
        return _Files((path,), (), self.read_state) if path in self.folders else _Files((), (path,), self.read_state)


class Burst:
    """A burst of changes that ended: the files may be loaded now."""

    def __init__(self, files: _Files, followed: Standstill) -> None:
        self.followed = followed
        self.was_taken = True
        self._files = files

    def stands_still(self) -> bool:
        """Whether the files may still be loaded, after a load that is taken only then: no copy began during it. It is
        called from the caller's thread, so that nothing happens between the answer and what follows from it.
        """
        now = time.monotonic()
        self.followed = self.followed.seen(_joined(self._files.state()), now)
        due = self.followed.due
        self.was_taken = due is not None and due <= now
        return self.was_taken


async def changes(
    folders: Sequence[Path],
    files: Sequence[Path] = (),
    read_state: ReadState = folder_state,
    *,
    known: FilesState | None = None,
) -> AsyncIterator[Burst | None]:
    """Yields after each burst of changes below the folders or of the files; ends when it is cancelled. `known` is the
    state before the caller's last load; without it, it yields None now, for a first load. `read_state` reads the states
    of folders whose changes count, by default those of templates.
    """
    watched = _Files(folders, files, read_state)
    if known is None:
        known = await asyncio.to_thread(watched.state)
        yield None
    followed = Standstill.of(_joined(known), time.monotonic())
    while True:
        # Find the changes during the caller's load here, before the next watch begins.
        found = await asyncio.to_thread(watched.state)
        followed = followed.seen(_joined(found), time.monotonic())
        while (due := followed.due) is None or due > time.monotonic():
            seconds = None if due is None else due - time.monotonic()
            found = await _next_state(watched, found, seconds)
            followed = followed.seen(_joined(found), time.monotonic())
        burst = Burst(watched, followed)
        yield burst
        followed = Standstill.of(followed.found, time.monotonic()) if burst.was_taken else burst.followed


def _joined(state: FilesState) -> FolderState:
    """The state of all folders and files as that of one folder."""
    return {f"{path}:{name}": status for path, found in state.items() for name, status in found.items()}


async def _next_state(watched: _Files, known: FilesState, seconds: float | None) -> FilesState:
    """The state that follows `known`; the same after these seconds, and if a watched folder was deleted."""
    waiting = [asyncio.create_task(_change_of(path, known[path], watched.only(path), seconds)) for path in known]
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return await asyncio.to_thread(watched.state)


async def _change_of(path: Path, known: FolderState, watched: _Files, seconds: float | None) -> None:
    """Returns when a folder or file has another state, after these seconds, and if the watched folder was deleted."""
    poll = _POLL_INTERVAL if seconds is None else min(_POLL_INTERVAL, max(1, math.ceil(seconds * 1000)))
    at = path if known and watched.folders else _nearest(path)
    events = awatch(
        at,
        recursive=at is path,
        step=_BURST_GAP,
        debounce=_BURST_LIMIT,
        rust_timeout=poll,
        yield_on_timeout=True,
    )
    async with aclosing(events):
        try:
            async for _ in events:
                if seconds is not None or (await asyncio.to_thread(watched.state))[path] != known:
                    return
        except FileNotFoundError:
            return


def _nearest(root: Path) -> Path:
    """The nearest folder above that exists."""
    return next(path for path in root.absolute().parents if path.is_dir())
