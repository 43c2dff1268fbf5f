"""A lock between processes. A process that waits for it, or can't have it, reports the process that holds it.

Promises:
- The kernel releases the lock when its process ends, kill -9 included. The user never has to remove a lock by hand.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from ssa_operator.devcluster.progress import Progress, ProgressCallback

_POLL_SECONDS = 0.1

_HOLDER_BYTES = 4096


class LockHeldError(Exception):
    """Another process holds a lock. The text is how that process describes itself."""


@contextmanager
def take_lock(path: Path, holder: str) -> Iterator[None]:
    """Holds the lock of the file `path`, which stays, with a description of its holder. Raises LockHeldError at once if
    another process has it.
    """
    lock = _open(path)
    try:
        if not _try_lock(lock):
            raise LockHeldError(os.pread(lock, _HOLDER_BYTES, 0).decode(errors="replace"))
        os.ftruncate(lock, 0)
        os.pwrite(lock, holder.encode()[:_HOLDER_BYTES], 0)
        yield
    finally:
        os.close(lock)


@asynccontextmanager
async def hold_lock(path: Path, purpose: str, report: ProgressCallback) -> AsyncIterator[None]:
    """Holds the lock of the file `path`, which stays. `purpose` completes "another process that is ..."."""
    lock = _open(path)
    try:
        reported = False
        while not _try_lock(lock):
            if not reported:
                pid = os.pread(lock, 32, 0).decode()
                report(Progress(message=f"Waiting for another process that is {purpose} (pid {pid or 'unknown'})"))
                reported = True
            await asyncio.sleep(_POLL_SECONDS)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
