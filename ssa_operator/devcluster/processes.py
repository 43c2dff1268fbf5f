"""The processes of a control plane or a build as their starter sees them: a group that is started and ended as one.

Promises:
- Whether a group lives is asked of the kernel (a lock that all of its processes hold), never of a process id, which
  another process may have by now.
- Ending a group is done when the kernel says that none of its processes is left.
- An attached group ends with the process that started it, however that ends; a detached one with `kill`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssa_operator.devcluster import supervisor

LOCK_NAME = "alive.lock"
_FAILURE_NAME = "failure.json"
_PATIENCE_SECONDS = 3.0
_END_SECONDS = 10.0
_POLL_SECONDS = 0.2
_LOG_LINES = 15


class ProcessError(Exception):
    """A process could not be started, ended by itself, or could not be ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process to start: its name, its arguments with the program first, and the file that gets its output.

    A `task` is meant to end with exit code 0. `environment` None is the starter's own.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    directory: Path
    environment: Mapping[str, str] | None = None
    task: bool = False


class ProcessGroup:
    """A running supervisor and the processes it owns.

    Its lifeline is a pipe that this process alone writes to, so that the kernel closes it when this process ends.
    """

    def __init__(self, directory: Path) -> None:
        """Starts a supervisor for `directory`; raises ProcessError if another group still lives there.

        For one directory, callers take turns.
        """
        self.directory = directory
        self._asking = threading.Lock()
        if is_alive(directory):
            raise ProcessError(f"{directory}: another group of processes is still running there")
        (directory / _FAILURE_NAME).unlink(missing_ok=True)
        # Locked and filled before it has its name: nobody who looks for life can be in its way or find it empty.
        unnamed = directory / f"{LOCK_NAME}.new"
        lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with (directory / "supervisor.log").open("ab") as log:
                self._process = subprocess.Popen(  # noqa: S603 - our own script
                    [sys.executable, "-I", supervisor.__file__, str(directory), str(lock)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    pass_fds=(lock,),
                    start_new_session=True,
                )
            os.pwrite(lock, str(self._process.pid).encode(), 0)  # its group's id, too
            unnamed.rename(directory / LOCK_NAME)
        finally:
            os.close(lock)

    async def start(self, command: Command) -> int:
        """Starts a process and returns its id; raises ProcessError if it cannot be run or the group has failed."""
        answer = await self._ask(
            {
                "start": command.name,
                "argv": command.argv,
                "log": str(command.log),
                "directory": str(command.directory),
                "environment": None if command.environment is None else dict(command.environment),
                "task": command.task,
            }
        )
        return int(answer["pid"])

    async def stop(self, name: str) -> None:
        """Kills one process of the group and waits for its end; the others stay."""
        await self._ask({"stop": name})

    async def running(self) -> frozenset[str]:
        """The names of the processes that have not ended; raises ProcessError, as `check` does, when one has failed."""
        return frozenset((await self._ask({"list": True}))["running"])

    async def detach(self) -> None:
        """From here on the group survives this process."""
        await self._ask({"detach": True})
        self._close_pipes()
        # The supervisor is nobody's child to wait for from here on; Popen would warn of it.
        self._process.returncode = 0

    def check(self) -> None:
        """Raises ProcessError, with the end of its log, when a process of the group has ended by itself."""
        if self._process.poll() is not None:
            raise ProcessError(
                describe_failure(self.directory) or f"{self.directory}: the supervisor ended, see supervisor.log there"
            )

    async def end(self) -> None:
        """Ends the lifeline, and with it all processes of the group; returns when they are gone."""
        self._close_pipes()
        await asyncio.to_thread(self._process.wait)
        await kill(self.directory)  # grandchildren may be on their way out still

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # a command that nobody read is still in the buffer
                pipe.close()

    async def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        # In a thread, as asyncio's pipes belong to one event loop and a group outlives the loop that started it.
        answer = await asyncio.to_thread(self._exchange, json.dumps(command).encode() + b"\n")
        if "error" in answer:
            raise ProcessError(f"{self.directory}: {answer['error']}")
        return answer

    def _exchange(self, line: bytes) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._asking:
            answer = b""
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line)
                self._process.stdin.flush()
                answer = self._process.stdout.readline()
            if not answer:
                self._process.wait()
                self.check()
        decoded: dict[str, Any] = json.loads(answer)
        return decoded


def is_alive(directory: Path) -> bool:
    """Whether any process of the group of `directory` lives."""
    try:
        lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


async def kill(directory: Path) -> None:
    """Kills every process of the group of `directory`; returns when none is left, raises ProcessError if one stays."""
    now = asyncio.get_running_loop().time
    started = now()
    while is_alive(directory):
        group = (directory / LOCK_NAME).read_text(encoding="utf-8")
        _signal_group(int(group), patient=now() - started < _PATIENCE_SECONDS)
        if now() - started > _END_SECONDS:
            raise ProcessError(
                f"{directory}: process group {group} does not end; kill -9 -{group}, then remove the folder"
            )
        await asyncio.sleep(_POLL_SECONDS / 20)


def _signal_group(group: int, *, patient: bool) -> None:
    """Asks the supervisor to end its processes, which reaps them too; kills the whole group when that is in vain.

    The lock is held, so the group lives, so its id is its own: POSIX gives no id of a living group to another process.
    """
    try:
        if patient:
            os.kill(group, signal.SIGTERM)
            return
    except ProcessLookupError:  # the supervisor is gone, its group is not
        pass
    # ProcessLookupError: it has ended just now; PermissionError: macOS, when zombies are all that is left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def describe_failure(directory: Path) -> str | None:
    """Which process ended the group of `directory` by its own end, with the end of its log; None when none did."""
    try:
        failure = json.loads((directory / _FAILURE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    log = directory / f"{failure['process']}.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    tail = "".join(f"\n  {line}" for line in lines)
    return f"{failure['process']} ended by itself with code {failure['code']}; the end of {log}:{tail}"
