"""The processes of a control plane or a build: starts and ends them as a group, locks them, reports their progress.

Promises:
- The kernel releases a lock when its process ends, kill -9 included. The user never has to remove a lock by hand.
- A group is alive as long as its processes hold a lock. No process id is checked, because another process may have it.
- Ending a group returns after its last process has ended.
- An attached group ends with the process that started it, kill -9 included. A detached group ends with `kill`.
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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.devcluster import supervisor


class Progress(Struct, frozen=True, kw_only=True):
    """A step, and how much of it is done: `done` of `total` units, both 0 if unknown."""

    message: str
    done: int = 0
    total: int = 0


ProgressCallback = Callable[[Progress], None]
"""Called with every step. It must not block, and another thread may call it."""


def ignore_progress(progress: Progress) -> None:
    """A callback that shows nothing."""


_LOCK_POLL_SECONDS = 0.1

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
            await asyncio.sleep(_LOCK_POLL_SECONDS)
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


LOCK_NAME = "alive.lock"
_FAILURE_NAME = "failure.json"
_GRACE_SECONDS = 3.0
_END_SECONDS = 10.0
_POLL_SECONDS = 0.2
_LOG_LINES = 15


class ProcessError(Exception):
    """A process could not be started, ended by itself, or could not be ended."""


class ProcessCommand(Struct, frozen=True, kw_only=True):
    """One process to start."""

    name: str

    argv: tuple[str, ...]
    """Its arguments, the program first."""

    log: Path
    """The file of its output."""

    directory: Path
    """Its working directory."""

    environment: Mapping[str, str] | None = None
    """None is the environment of the starter."""

    task: bool = False
    """Whether it is meant to end with exit code 0."""


class ProcessGroup:
    """A running supervisor and the processes it owns.

    The supervisor's standard input is a pipe from this process. The kernel closes it when this process ends.
    """

    def __init__(self, directory: Path) -> None:
        """Starts a supervisor for `directory`. Raises ProcessError if another group is alive there.

        The caller holds a lock for the directory.
        """
        self.directory = directory
        self._asking = threading.Lock()
        if is_alive(directory):
            raise ProcessError(f"{directory}: another group of processes is still running there")
        (directory / _FAILURE_NAME).unlink(missing_ok=True)
        # The file gets its name after it is locked and has the pid, so that `is_alive` and `kill` never see it unlocked
        # or empty.
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

    async def start(self, command: ProcessCommand) -> int:
        """Starts a process and returns its id. Raises ProcessError if it can't be run or the group has failed."""
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
        """The names of the processes that have not ended. Raises ProcessError, as `check` does, if one has failed."""
        return frozenset((await self._ask({"list": True}))["running"])

    async def detach(self) -> None:
        """Lets the group survive this process."""
        await self._ask({"detach": True})
        self._close_pipes()
        # This process does not wait for the supervisor any more; without a returncode Popen would warn.
        self._process.returncode = 0

    async def remove_directory(self) -> None:
        """Lets the folder go with the group, even if this process is killed."""
        await self._ask({"remove": True})

    def check(self) -> None:
        """Raises ProcessError, with the end of its log, if a process of the group has ended by itself."""
        if self._process.poll() is not None:
            raise ProcessError(
                describe_failure(self.directory) or f"{self.directory}: the supervisor ended, see supervisor.log there"
            )

    async def end(self) -> None:
        """Closes the supervisor's standard input, which ends the group. Returns after the last process has ended."""
        self._close_pipes()
        await asyncio.to_thread(self._process.wait)
        await kill(self.directory)  # grandchildren may still be ending

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # the buffer may have a command that the supervisor did not read
                pipe.close()

    async def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        # In a thread, because asyncio's pipes belong to one event loop, and a group outlives the loop that started it.
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
    """Whether any process of the group of `directory` is alive."""
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
    """Kills the group of `directory`. Returns after its last process has ended; raises ProcessError if one stays."""
    now = asyncio.get_running_loop().time
    started = now()
    while is_alive(directory):
        group = (directory / LOCK_NAME).read_text(encoding="utf-8")
        _signal_group(int(group), gracefully=now() - started < _GRACE_SECONDS)
        if now() - started > _END_SECONDS:
            raise ProcessError(
                f"{directory}: process group {group} does not end; kill -9 -{group}, then remove the folder"
            )
        await asyncio.sleep(_POLL_SECONDS / 20)


def _signal_group(group: int, *, gracefully: bool) -> None:
    """Ends the supervisor by SIGTERM, which ends and reaps its processes, or kills the whole group.

    The lock is held, so the group is alive, and POSIX gives its id to no other process.
    """
    try:
        if gracefully:
            os.kill(group, signal.SIGTERM)
            return
    except ProcessLookupError:  # the supervisor is gone, its group is not
        pass
    # ProcessLookupError: the group has just ended. PermissionError: on macOS, only zombies are left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def describe_failure(directory: Path) -> str | None:
    """The process whose end ended the group of `directory`, with the end of its log. None if there is none."""
    try:
        failure = json.loads((directory / _FAILURE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    log = directory / f"{failure['process']}.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    tail = "".join(f"\n  {line}" for line in lines)
    return f"{failure['process']} ended by itself with code {failure['code']}; the end of {log}:{tail}"
