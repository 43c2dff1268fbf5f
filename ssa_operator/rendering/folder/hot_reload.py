"""Watches the templates folders and the files of values, for hot reload.

Promises:
- `changes` yields after each burst of changes, so that a load at each yield misses no change. It yields no state that
  may be half of a copy of any folder, whichever folder or file changed (`Standstill`).
- What a file that does not load does is in `loaded_folders.py`.
- A load during which a copy begins is recognized, and `changes` yields again once the files stand still.
- No folder has to exist. It may vanish, return, or be replaced by another one. So may a file, a link to it, or a folder
  above it.
- Only folders of the state are watched. A link that leads out of the folder is neither followed nor watched.
- Without events from the file system, `changes` finds changes by polling, within a second. It does the same if the
  system has no watch left (inotify's limits are per user and node), or if a watch fails later; the log says so once.
- If nothing vanished and one file changed, the files are loaded at once.
- Several changes, and new files, are loaded once all files have stood still for SETTLED seconds, and after LIMIT
  seconds at the latest.
- While a formerly loaded file is missing or empty, nothing is loaded until no file has appeared or vanished for
  VANISHED seconds. If a folder is replaced bit by bit (`cp -r`, `rsync --delete`, `git checkout`), it is loaded once it
  is complete, whichever other file changes meanwhile.
- A deleted file counts as deleted after VANISHED seconds, even while another one keeps changing.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from watchfiles import awatch

from ssa_operator.rendering.folder.folder_snapshot import FilesState, FolderState, ReadState, files_state, folder_state

SETTLED = 0.5
"""Seconds."""

LIMIT = 5.0
"""Seconds from the first change on."""

VANISHED = 2.0
"""Seconds; copies over a slow network have shorter pauses between two files."""


class Standstill(Struct, frozen=True, kw_only=True):
    """Files that are followed. Times are seconds on any one clock."""

    known: FolderState
    """The state that was loaded last; a missing folder has no files."""
    found: FolderState
    """The present state."""
    begun: float
    """When the state began to differ from the known one."""
    since: float
    """Since when the state has been the present one."""
    names_since: float
    """Since when the present files have existed, whatever their content."""

    @classmethod
    def of(cls, known: FolderState, now: float) -> Standstill:
        """Files that are unchanged since they were loaded."""
        return cls(known=known, found=known, begun=now, since=now, names_since=now)

    def seen(self, found: FolderState, now: float) -> Standstill:
        """The files after their state was read."""
        if found == self.found:
            return self
        return replace(
            self,
            found=found,
            begun=now if self.found == self.known else self.begun,
            since=now,
            names_since=self.names_since if _names(found) == _names(self.found) else now,
        )

    @property
    def due(self) -> float | None:
        """When the present state may be loaded if it doesn't change, None if it is loaded already."""
        if self.found == self.known:
            return None
        if _names(self.known) - _names(self.found):
            return self.names_since + VANISHED
        if _is_one_edit(self.known, self.found):
            return self.since
        return min(self.since + SETTLED, self.begun + LIMIT)


def _names(state: FolderState) -> frozenset[str]:
    """The files and folders with content: a file that is copied is empty at first."""
    return frozenset(name for name, status in state.items() if status and (len(status) < 3 or status[2] > 0))


def _is_one_edit(before: FolderState, after: FolderState) -> bool:
    """Whether the content of one file changed, and nothing else."""
    return before.keys() == after.keys() and sum(before[name] != after[name] for name in before) == 1


log = logging.getLogger("ssa_operator")

_POLL_INTERVAL = 1000
"""Milliseconds without an event after which the folder is polled."""

_RETRY = 60.0
"""Seconds of polling after which the system is asked for a watch again."""

_BURST_GAP = 50
"""Milliseconds without a change that end a burst."""

_BURST_LIMIT = 500
"""Milliseconds after which a burst that continues is reported."""


class Burst:
    """A burst of changes that has ended: the files may be loaded now."""

    def __init__(self, watch: _Watch, followed: Standstill) -> None:
        self.followed = followed
        self.was_taken = True
        self._watch = watch

    def stands_still(self) -> bool:
        """Whether a finished load may be used: no copy began during it. It is called from the caller's thread, so that
        nothing can happen between the answer and its use.
        """
        now = time.monotonic()
        self.followed = self.followed.seen(_joined(self._watch.state()), now)
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
    watch = _Watch(folders, files, read_state)
    if known is None:
        known = await asyncio.to_thread(watch.state)
        yield None
    followed = Standstill.of(_joined(known), time.monotonic())
    while True:
        # Find the changes during the caller's load here, before the next watch begins.
        found = await asyncio.to_thread(watch.state)
        followed = followed.seen(_joined(found), time.monotonic())
        while (due := followed.due) is None or due > time.monotonic():
            seconds = None if due is None else due - time.monotonic()
            await watch.change(found, seconds)
            found = await asyncio.to_thread(watch.state)
            followed = followed.seen(_joined(found), time.monotonic())
        burst = Burst(watch, followed)
        yield burst
        followed = Standstill.of(followed.found, time.monotonic()) if burst.was_taken else burst.followed


def _joined(state: FilesState) -> FolderState:
    """The state of all folders and files as that of one folder."""
    return {f"{path}:{name}": status for path, found in state.items() for name, status in found.items()}


@dataclass(slots=True)
class _Watch:
    """Waits for another state of folders and files: by events of the file system, and else by polling."""

    folders: Sequence[Path]
    files: Sequence[Path]
    read_state: ReadState
    retry_at: float = 0.0
    """Until when it polls, because the system had no watch; on the monotonic clock."""

    def state(self) -> FilesState:
        return files_state(self.folders, self.files, self.read_state)

    async def change(self, known: FilesState, seconds: float | None) -> None:
        """Returns when there is another state, after these seconds, and if a watched folder was deleted."""
        poll = _POLL_INTERVAL if seconds is None else min(_POLL_INTERVAL, max(1, math.ceil(seconds * 1000)))
        async with aclosing(self._events(known, poll)) as events:
            async for _ in events:
                if seconds is not None or await asyncio.to_thread(self.state) != known:
                    return

    async def _events(self, known: FilesState, poll: int) -> AsyncGenerator[None, None]:
        """Yields after each event of the file system, and after each `poll` milliseconds without one. Ends where a
        watched folder is gone.
        """
        while time.monotonic() < self.retry_at:
            await asyncio.sleep(poll / 1000)
            yield None
        events = awatch(
            *dict.fromkeys(self._folders(known)),
            # A recursive watch follows each link, including one to the root of the file system.
            recursive=False,
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

    def _folders(self, known: FilesState) -> Iterator[Path]:
        """The folders whose events may be changes: those of the state, in which no link leads out."""
        for path, state in known.items():
            if state and path in self.folders:
                yield from (path, *(path / name for name in state if name.endswith("/")))
            else:
                yield _nearest(path)

    def _poll_after(self, error: Exception) -> None:
        if not self.retry_at:
            log.warning(
                "%s: the system has no watch for it (%s), so it is polled each second; for changes at once, raise "
                "fs.inotify.max_user_instances or fs.inotify.max_user_watches of the node (sysctl)",
                ", ".join(map(str, (*self.folders, *self.files))),
                error,
            )
        self.retry_at = time.monotonic() + _RETRY


def _nearest(root: Path) -> Path:
    """The nearest folder above that exists."""
    return next(path for path in root.absolute().parents if path.is_dir())
