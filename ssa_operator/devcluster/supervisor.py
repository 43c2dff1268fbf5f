"""The process that owns the processes of one control plane or one build; a script of the standard library alone.

Promises:
- No process that it started outlives it: it kills its whole process group at its end, grandchildren included, and
  on Linux the kernel kills its children when it is killed itself (PR_SET_PDEATHSIG).
- It ends when its lifeline ends: the end of standard input means that whoever started it is gone, kill -9 included.
  After `detach` it stays.
- A group is whole or gone: when a process ends unasked, all are killed and `failure.json` says which one it was. A
  task is a process that is meant to end: only its failure ends the group.
- It and its processes hold the lock that it was given, and are one process group: while the lock is held, the
  group's id cannot be taken by anybody else, so that killing the group can hit no stranger.

The protocol is one JSON object a line on standard input, each answered by one line on standard output:
- `{"start": NAME, "argv": [...], "log": PATH, "directory": PATH, "environment": {...} or null, "task": BOOLEAN}` by
  `{"pid": N}`
- `{"stop": NAME}` and `{"detach": true}` by `{}`
- `{"list": true}` by `{"running": [NAME, ...]}`
- any of them by `{"error": TEXT}`
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
    """What a new process runs before exec so that the kernel kills it with its parent; None on systems without that."""
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
    """The running processes by name, and whether the other end of the lifeline still matters."""

    def __init__(self, directory: Path, lock: int) -> None:
        self._directory = directory
        self._lock = lock
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tasks: set[str] = set()
        self._arrange = die_with_parent()
        self._parent = os.getppid()
        self._detached = False
        self._unread = b""

    def serve(self) -> None:
        """Runs until the lifeline ends, a process ends unasked, or a signal asks for the end."""
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        wakened, ending = _listen_to_signals()
        selector.register(wakened, selectors.EVENT_READ)
        while not ending:
            ready = {key.fd for key, _ in selector.select(_PARENT_CHECK_SECONDS)}
            if wakened in ready:
                os.read(wakened, 4096)
            if 0 in ready and not self._read_commands():
                if not self._detached:
                    return
                selector.unregister(0)
            # A child that was forked from the starter without exec holds the lifeline too; the parent's id tells.
            if self._one_failed() or (not self._detached and os.getppid() != self._parent):
                return

    def end(self) -> None:
        """Kills what is left, and takes the exit codes: not every init process does that for the orphans it gets."""
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
            except BrokenPipeError:  # nobody waits for the answer any more
                return False
        return bool(chunk)

    def _do(self, command: dict[str, Any]) -> dict[str, Any]:
        if "start" in command:
            return {"pid": self._start(command)}
        if "stop" in command:
            process = self._processes.pop(command["stop"])
            process.kill()
            process.wait()
            return {}
        if "list" in command:
            return {"running": sorted(self._processes)}
        if "detach" in command:
            self._detached = True
            return {}
        raise ValueError(f"unknown command {command}")

    def _start(self, command: dict[str, Any]) -> int:
        name = command["start"]
        if name in self._processes:
            raise ValueError(f"{name} is running")
        with Path(command["log"]).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - the command is the one that the parent composed
                command["argv"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=command["directory"],
                env=command["environment"],
                pass_fds=(self._lock,),
                preexec_fn=self._arrange,  # noqa: PLW1509 - this process has one thread
            )
        self._processes[name] = process
        if command["task"]:
            self._tasks.add(name)
        return process.pid

    def _one_failed(self) -> bool:
        for name, process in tuple(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self._processes[name]
            if code == 0 and name in self._tasks:
                continue
            failure = json.dumps({"process": name, "code": code})
            (self._directory / "failure.json").write_text(failure, encoding="utf-8")
            return True
        return False


def _listen_to_signals() -> tuple[int, list[bool]]:
    """A descriptor that is readable after a signal, and a list that gets an item when the signal asks for the end."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer)
    ending: list[bool] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ending.append(True))
    return reader, ending


def main() -> None:
    """Arguments: the folder, and the descriptor of the lock."""
    supervisor = Supervisor(Path(sys.argv[1]), int(sys.argv[2]))
    try:
        supervisor.serve()
    finally:
        supervisor.end()
        os.killpg(0, signal.SIGKILL)  # grandchildren, and this process itself


if __name__ == "__main__":
    main()
