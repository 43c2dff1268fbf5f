"""The process that owns the processes of one control plane; a script of the standard library alone.

Promises:
- No process that it started outlives it: on Linux the kernel kills them with it (PR_SET_PDEATHSIG), and on every system it kills them before it ends.
- It ends when its lifeline ends: standard input at its end means that whoever started it is gone, kill -9 included. After `detach` it stays.
- A control plane is whole or gone: when one process ends unasked, the others are killed and `failure.json` says which one it was.
- It and its processes hold the lock that it was given, and are one process group: while the lock is held, the group's id cannot be taken by
  anybody else, so that killing the group can hit no stranger.

The protocol is one JSON object a line on standard input, answered by one line on standard output:
`{"start": NAME, "argv": [...], "log": PATH}` by `{"pid": N}`, `{"stop": NAME}` and `{"detach": true}` by `{}`; an error by `{"error": TEXT}`.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PARENT_CHECK_SECONDS = 1.0


def die_with_parent() -> Callable[[], None] | None:
    """What a new process runs before exec so that the kernel kills it with its parent; None where the system has no such thing."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return arrange


class Supervisor:
    """The running processes by name, and whether somebody's end of the lifeline still matters."""

    def __init__(self, directory: Path, lock: int) -> None:
        self._directory = directory
        self._lock = lock
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._arrange = die_with_parent()
        self._parent = os.getppid()
        self._detached = False
        self._unread = b""

    def serve(self) -> None:
        """Runs until the lifeline ends, a process ends unasked, or a signal asks for the end; then kills what is left."""
        wake_reader, wake_writer = os.pipe()
        for end in (wake_reader, wake_writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_writer)
        ending = []
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: ending.append(True))
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        selector.register(wake_reader, selectors.EVENT_READ)
        try:
            while not ending:
                ready = {key.fd for key, _ in selector.select(_PARENT_CHECK_SECONDS)}
                if wake_reader in ready:
                    os.read(wake_reader, 4096)
                if 0 in ready and not self._read_commands():
                    if not self._detached:
                        return
                    selector.unregister(0)
                if self._one_ended() or (not self._detached and os.getppid() != self._parent):
                    return
        finally:
            for process in self._processes.values():
                process.kill()
            for process in self._processes.values():
                process.wait()

    def _read_commands(self) -> bool:
        """Answers what came in; False at the end of standard input."""
        chunk = os.read(0, 65536)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            try:
                answer = self._do(json.loads(line))
            except (OSError, ValueError, KeyError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            try:
                os.write(1, json.dumps(answer).encode() + b"\n")
            except BrokenPipeError:  # nobody waits for the answer; the end of standard input decides what that means
                return False
        return bool(chunk)

    def _do(self, command: dict[str, Any]) -> dict[str, Any]:
        if "start" in command:
            with Path(command["log"]).open("ab") as log:
                process = subprocess.Popen(  # noqa: S603 - the command is the one that the parent composed
                    command["argv"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(self._lock,),
                    preexec_fn=self._arrange,  # noqa: PLW1509 - this process has one thread
                )
            self._processes[command["start"]] = process
            return {"pid": process.pid}
        if "stop" in command:
            process = self._processes.pop(command["stop"])
            process.kill()
            process.wait()
            return {}
        if "detach" in command:
            self._detached = True
            return {}
        raise ValueError(f"unknown command {command}")

    def _one_ended(self) -> bool:
        for name, process in self._processes.items():
            if process.poll() is not None:
                failure = self._directory / "failure.json"
                failure.write_text(json.dumps({"component": name, "code": process.returncode}), encoding="utf-8")
                return True
        return False


def main() -> None:
    """Arguments: the folder, and the descriptor of the lock, into whose file goes this process's id, which is its group's id."""
    directory, lock = Path(sys.argv[1]), int(sys.argv[2])
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    Supervisor(directory, lock).serve()


if __name__ == "__main__":
    main()
