"""The process that owns the processes of one control plane or one build; a script of the standard library alone.

Promises:
- No process that the supervisor started outlives it. At its end it kills its process group, grandchildren included.
  On Linux the kernel kills its children if the supervisor itself is killed (PR_SET_PDEATHSIG).
- The supervisor ends when its standard input ends, which happens when its starter ends, kill -9 included. After
  `detach` it stays.
- If one process ends unasked, the supervisor kills all, and `failure.json` names the one that ended. A task is a
  process that is meant to end; only its failure ends the group.
- After `remove`, its folder goes with it, unless a process failed: then the starter reads the logs.
- The supervisor and its processes are one process group and hold one lock. While the lock is held, no other group gets
  the group's id, so that killing the group never kills another process.

The protocol is one JSON object a line on standard input, each answered by one line on standard output:
- `{"start": NAME, "argv": [...], "log": PATH, "directory": PATH, "environment": {...} or null, "task": BOOLEAN}` by
  `{"pid": N}`
- `{"stop": NAME}`, `{"detach": true}` and `{"remove": true}` by `{}`
- `{"list": true}` by `{"running": [NAME, ...]}`
- any of them by `{"error": TEXT}`
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PARENT_CHECK_SECONDS = 1.0


def die_with_parent() -> Callable[[], None] | None:
    """The function that a new process runs before exec, so that the kernel kills it with its parent. None if the system
    can't.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    return arrange


class Supervisor:
    """The running processes by name."""

    def __init__(self, directory: Path, lock: int) -> None:
        self._directory = directory
        self._lock = lock
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tasks: set[str] = set()
        self._arrange = die_with_parent()
        self._parent = os.getppid()
        self._detached = False
        self._removes = False
        self._unread = b""

    def serve(self) -> None:
        """Runs until standard input ends, a process ends unasked, or a signal ends the supervisor."""
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        wakeup, ending = _listen_to_signals()
        selector.register(wakeup, selectors.EVENT_READ)
        while not ending:
            ready = {key.fd for key, _ in selector.select(_PARENT_CHECK_SECONDS)}
            if wakeup in ready:
                os.read(wakeup, 4096)
            if 0 in ready and not self._read_commands():
                if not self._detached:
                    return
                selector.unregister(0)
            # A forked child of the starter keeps standard input open, so the parent's id is checked, too.
            if self._one_failed() or (not self._detached and os.getppid() != self._parent):
                return

    def end(self) -> None:
        """Kills the remaining processes and reaps them, because not every init process reaps orphans."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        if self._removes and not (self._directory / "failure.json").exists():
            shutil.rmtree(self._directory, ignore_errors=True)

    def _read_commands(self) -> bool:
        """Answers the commands on standard input. Returns False at its end."""
        chunk = os.read(0, 65536)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            try:
                answer = self._do(json.loads(line))
            except (OSError, ValueError, KeyError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            try:
                os.write(1, json.dumps(answer).encode() + b"\n")
            except BrokenPipeError:  # the starter has closed its end
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
        if "remove" in command:
            self._removes = True
            return {}
        raise ValueError(f"unknown command {command}")

    def _start(self, command: dict[str, Any]) -> int:
        name = command["start"]
        if name in self._processes:
            raise ValueError(f"{name} is running")
        with Path(command["log"]).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - the command comes from the parent
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
    """A descriptor that is readable after a signal, and a list that has an item after SIGTERM, SIGINT or SIGHUP."""
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
