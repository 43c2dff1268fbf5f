"""Polls a condition that has no event, such as the end of a process that is not a child."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Returns when `condition` holds; raises TimeoutError after `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def stop_process(pid: int) -> None:
    """Send SIGSTOP and return when no thread of the process runs: the kernel stops them only after one of them was
    scheduled again, and on a busy machine the others run on until then.
    """
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")

    def is_stopped() -> bool:
        # The state follows the name of the program, which is in parentheses: proc_pid_stat(5).
        stats = [(task / "stat").read_text() for task in tasks.iterdir()]
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    await until(is_stopped)
