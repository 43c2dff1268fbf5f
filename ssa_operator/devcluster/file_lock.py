"""Turns between processes: one at a time does something, the others wait and are told for whom.

Promises:
- A turn ends with its process at the latest, however that ends; nothing has to be cleaned up by hand.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ssa_operator.devcluster.progress import Progress, Report

_POLL_SECONDS = 0.1


@asynccontextmanager
async def turn(path: Path, purpose: str, report: Report) -> AsyncIterator[None]:
    """Inside, no other process is inside with the same `path`, a file that stays; `purpose` is what the others do."""
    lock = _open(path)
    try:
        told = False
        while not _try_lock(lock):
            if not told:
                pid = os.pread(lock, 32, 0).decode()
                report(Progress(message=f"Waiting for another process that is {purpose} (pid {pid or 'unknown'})"))
                told = True
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
