"""A process that has every module of the package loaded, and forks one process for each command of the tests.

Promises:
- A command runs in a process of its own, with its own environment, folder and streams, and ends as Python ends.
- No command sees what another one did: the process forks and does nothing else.
- The process ends with the one that started it.

Importing the package takes more CPU than most commands. `tests/packaging/test_start.py` and all tests that start an
operator run the program as users start it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
from functools import cache
from tempfile import TemporaryFile

import ssa_operator
from tests.operator.harness import ROOT

_REQUEST = 128 * 1024
"""Bytes of a request at most."""

_STREAMS = 3


# In the process that starts commands.


async def run(
    arguments: tuple[str, ...], stdin: str, environment: dict[str, str], output: str = ""
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command. With `output`, its standard output is this device."""
    request = json.dumps({"arguments": arguments, "environment": environment, "folder": str(ROOT)}).encode()
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        status, ends = os.pipe()
        try:
            device = os.open(output, os.O_WRONLY) if output else os.dup(out.fileno())
            socket.send_fds(_loaded(), [request], [given.fileno(), device, err.fileno(), ends])
            os.close(device)
            os.close(ends)
            code = await _ended(status)
        finally:
            os.close(status)
        for stream in (out, err):
            stream.seek(0)
        return code, out.read().decode(), err.read().decode()


async def _ended(status: int) -> int:
    """The exit code of a command, once it has ended. It is killed if the caller is cancelled."""
    loop = asyncio.get_running_loop()
    text = ""
    try:
        while text.count("\n") < len(("pid", "code")):
            readable = loop.create_future()
            loop.add_reader(status, readable.set_result, None)
            try:
                await readable
            finally:
                loop.remove_reader(status)
            part = os.read(status, 100)
            assert part, "the process of the commands has ended"
            text += part.decode()
    except BaseException:
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(text.partition("\n")[0]), signal.SIGKILL)
        raise
    return int(text.splitlines()[1])


@cache
def _loaded() -> socket.socket:
    """The connection to the process, which is started once."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _REQUEST)
    command = [sys.executable, "-m", "tests.cli.preloaded", str(theirs.fileno())]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# In the process that forks.


def serve(connection: socket.socket) -> None:
    """Run commands until the other side is closed. Returns in a process that runs a command, too."""
    while True:
        request, streams, _, _ = socket.recv_fds(connection, _REQUEST, _STREAMS + 1)
        if not request:
            sys.exit()
        if os.fork() == 0:
            connection.close()
            break
        for descriptor in streams:
            os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    *files, status = streams
    pid = os.fork()
    if pid:
        os.write(status, f"{pid}\n".encode())
        _, ended = os.waitpid(pid, 0)
        os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
        os._exit(0)
    os.close(status)
    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
        os.close(descriptor)
    asked = json.loads(request)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[1:] = asked["arguments"]


def load() -> None:
    """Import every module of the package."""
    from ssa_operator.operator.process.aiohttp_import import import_aiohttp

    import_aiohttp()
    for found in pkgutil.walk_packages(ssa_operator.__path__, "ssa_operator."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    gc.freeze()


if __name__ == "__main__":
    load()
    # The kernel removes the processes that wait for commands.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("ssa_operator", run_name="__main__", alter_sys=True)
