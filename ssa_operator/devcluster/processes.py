"""The processes of a control plane as its starter sees them: a group that is started, watched and ended as one.

Promises:
- Whether a group lives is asked of the kernel (a lock that every process of the group holds), never of a process id that another process may have by now.
- Ending a group is done when the kernel says that none of its processes is left.
- An attached group ends with the process that started it, however that ends; a detached one with `kill`.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssa_operator.devcluster import supervisor

LOCK_NAME = "alive.lock"
FAILURE_NAME = "failure.json"
_END_SECONDS = 10.0
_LOG_LINES = 15


class ProcessError(Exception):
    """A process of the control plane could not be started, ended by itself, or could not be ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process to start: its name, its arguments with the program first, and the file that gets its output."""

    name: str
    argv: tuple[str, ...]
    log: Path


class ProcessGroup:
    """A running supervisor and the processes it owns.

    Its lifeline is a pipe that only this process writes to, so that the kernel closes it when this process ends.
    """

    def __init__(self, directory: Path) -> None:
        """Starts a supervisor for `directory`; raises ProcessError if another group still lives there."""
        self.directory = directory
        self._asking = threading.Lock()
        lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ProcessError(f"{directory}: another control plane is still running there") from None
        with (directory / "supervisor.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, "-I", supervisor.__file__, str(directory), str(lock)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
            )
        os.close(lock)

    async def start(self, command: Command) -> int:
        """Starts a process and returns its id; raises ProcessError if the program cannot be run or the group has failed."""
        answer = await self._ask({"start": command.name, "argv": command.argv, "log": str(command.log)})
        return int(answer["pid"])

    async def stop(self, name: str) -> None:
        """Kills one process of the group and waits for its end; the others stay."""
        await self._ask({"stop": name})

    async def detach(self) -> None:
        """From here on the group survives this process."""
        await self._ask({"detach": True})
        self._close_pipes()
        # The supervisor is nobody's child to wait for from here on; Popen would warn of it.
        self._process.returncode = 0

    def check(self) -> None:
        """Raises ProcessError, with the end of its log, when a process of the group has ended by itself."""
        if self._process.poll() is not None:
            raise ProcessError(describe_failure(self.directory) or f"{self.directory}: the supervisor ended, see supervisor.log")

    def reap(self) -> None:
        """Ends the lifeline, waits for the supervisor and with it for all processes, and takes its exit code from the kernel."""
        self._close_pipes()
        self._process.wait()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    async def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        # In a thread, as blocking files do not belong to one event loop and a group outlives the loop that started it.
        answer = await asyncio.to_thread(self._exchange, json.dumps(command).encode() + b"\n")
        if "error" in answer:
            raise ProcessError(f"{self.directory}: {answer['error']}")
        return answer

    def _exchange(self, line: bytes) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._asking:
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
                answer = self._process.stdout.readline()
            except BrokenPipeError:
                answer = b""
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
    """Kills every process of the group of `directory`, and returns when none is left; raises ProcessError if one does not go."""
    deadline = asyncio.get_running_loop().time() + _END_SECONDS
    while is_alive(directory):
        group = (directory / LOCK_NAME).read_text(encoding="utf-8")
        if group:  # empty for the moment between the lock and the supervisor's first statement
            # The lock is held, so a process of this group lives, so this id is still that group's (POSIX: no id of a living group is given out).
            try:
                os.killpg(int(group), signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:  # macOS: the group consists of zombies
                pass
        if asyncio.get_running_loop().time() > deadline:
            raise ProcessError(f"{directory}: process group {group} does not end; end it by hand (kill -9 -{group}) and remove the folder")
        await asyncio.sleep(0.01)


def describe_failure(directory: Path) -> str | None:
    """Which process ended the group of `directory` by ending itself, with the last lines of its log; None when none did."""
    try:
        failure = json.loads((directory / FAILURE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    component = failure["component"]
    log = directory / f"{component}.log"
    tail = "\n".join(f"  {line}" for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])
    return f"{component} ended by itself with code {failure['code']}; the end of {log}:\n{tail}"
