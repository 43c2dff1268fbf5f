"""An operator or a command in its own process, and the kernel's figures of that process.

Promises:
- CPU and memory are the process's own, read from outside.
- The process ends with its block.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.benchmarks import machine

PATIENCE = 600.0
"""Seconds that an operator has to bring about an expected state before the run fails."""


class StuckError(RuntimeError):
    """An operator does not do its job. `fault` is the reason in few words; the message also has the end of its log."""

    def __init__(self, fault: str, log: str) -> None:
        super().__init__(f"the operator {fault}; the end of its log:\n{log}")
        self.fault = fault


class Process:
    """Started by `async with`, ended with the block.

    cpu: seconds of its whole life. memory: its largest resident set in MiB, 0 if the system doesn't say. Both are
    known after the block.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, running: set[int]) -> None:
        """Standard output and error go to `log`, which is truncated; `running` has its process id while it runs."""
        self._command = list(command)
        self._environment = environment
        self._log = log
        self._running = running
        self._exit: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.pid = 0
        self.cpu = 0.0
        self.memory = 0.0

    async def __aenter__(self) -> Self:
        output = [
            (os.POSIX_SPAWN_OPEN, 1, self._log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        # asyncio's own processes don't say what they used. Spawning returns at once.
        self.pid = os.posix_spawn(self._command[0], self._command, self._environment, file_actions=output)  # noqa: ASYNC221
        self._running.add(self.pid)
        self._exit = asyncio.ensure_future(asyncio.to_thread(os.wait4, self.pid, 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        # Not what wait4 says: a process that was spawned begins with its parent's maximum (getrusage(2), ru_maxrss).
        self.memory = machine.peak_memory(self.pid)
        if not self._exit.done():
            os.kill(self.pid, signal.SIGTERM)
            await asyncio.wait([self._exit], timeout=15)
        if not self._exit.done():
            os.kill(self.pid, signal.SIGKILL)
        _, _, usage = await self._exit
        self._running.discard(self.pid)
        self.cpu = usage.ru_utime + usage.ru_stime

    async def until(self, event: Awaitable[object], patience: float = PATIENCE) -> None:
        """Wait for an event that the process brings about. Raises StuckError if it doesn't."""
        waiting = asyncio.ensure_future(event)
        await asyncio.wait([waiting, self._exit], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
            return
        waiting.cancel()
        memory = machine.memory(self.pid)
        late = f"has not got there in {patience:.0f} s, and has {memory:.0f} MiB"
        raise StuckError("ended by itself" if self._exit.done() else late, self._log.read_text()[-2000:])


def measured(command: Sequence[str], code: int = 0) -> tuple[float, float]:
    """Run a process to its end: its seconds, and those of its CPU. Raises RuntimeError if its exit code is another."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment())
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        if process.returncode != code:
            raise RuntimeError(f"{command[:4]} ended with {process.returncode}: {output.read(1000).decode()}")
    return seconds, usage.ru_utime + usage.ru_stime


def environment() -> dict[str, str]:
    """The environment of this process without variables that change an operator's options or the loading of modules."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SSA_OPERATOR_", "PYTHON"))}
