"""Runs a program and returns its output.

Promises:
- If a program does not finish in time, or the call is cancelled, the operator ends its process group: SIGTERM first,
  SIGKILL after a grace period. A program that finishes in time may leave processes running, as a login agent does.
- The operator reads standard output and standard error in parallel, so that a program never blocks on a full pipe.
- The operator keeps the end of standard error, and at most `MAX_OUTPUT` bytes of standard output.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""

MAX_OUTPUT = 1 << 20
"""Bytes of standard output. A program that writes more fails."""

MAX_ERROR_END = 2000
"""Bytes of standard error that an error shows."""

_LATE_ERRORS = 0.2
"""Seconds for which standard error is read after the program exited. A process that it left may keep it open."""

_POLL = 0.02


class ProgramError(Exception):
    """A program failed, did not finish in time, or wrote too much. The text has the end of its standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to run."""

    argv: Sequence[str]

    environment: Mapping[str, str] = field(repr=False)

    stdin: bytes = field(default=b"", repr=False)

    interactive: bool = False
    """Whether it reads the operator's standard input, and the user sees its standard error at once."""


async def run(program: Program, *, deadline: float) -> bytes:
    """The standard output of a program that ran to its end. Raises ProgramError, or OSError if it can't be started.
    `deadline` is in seconds.
    """
    transport, reader = await _start(program)
    finished = False
    try:
        if program.stdin:
            stdin = transport.get_pipe_transport(0)
            assert isinstance(stdin, asyncio.WriteTransport)
            stdin.write(program.stdin)
            stdin.write_eof()
        async with asyncio.timeout(deadline):
            await reader.output_ended.wait()
            if len(reader.output) > MAX_OUTPUT:
                raise ProgramError(f"wrote more than {MAX_OUTPUT} bytes to standard output")
            await reader.exited.wait()
        finished = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LATE_ERRORS):
                await reader.errors_ended.wait()
    except TimeoutError:
        raise ProgramError(f"gave no answer in {deadline:g} s{_error_end(reader)}") from None
    finally:
        try:
            if not finished:
                await _end_group(transport.get_pid(), reader)
        finally:
            transport.close()
    if code := transport.get_returncode():
        raise ProgramError(f"exited with code {code}{_error_end(reader)}")
    return bytes(reader.output)


async def _start(program: Program) -> tuple[asyncio.SubprocessTransport, _Reader]:
    """Start a program. If asyncio's own start is cancelled, it kills the program without its processes, and waits until
    these close standard error, so a cancelled call lets the start complete first, however often it is cancelled.
    """

    async def start() -> tuple[asyncio.SubprocessTransport, _Reader]:
        return await asyncio.get_running_loop().subprocess_exec(
            lambda: _Reader(echo=program.interactive),
            *program.argv,
            env=program.environment,
            stdin=None if program.interactive else PIPE if program.stdin else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )

    starting = asyncio.create_task(start())
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            transport, reader = starting.result()
            try:
                await _end_group(transport.get_pid(), reader)
            finally:
                transport.close()
        raise


class _Reader(asyncio.SubprocessProtocol):
    """Collects the output of a program."""

    def __init__(self, *, echo: bool) -> None:
        self.output = bytearray()
        self.error_end = bytearray()
        self.output_ended = asyncio.Event()
        self.errors_ended = asyncio.Event()
        self.exited = asyncio.Event()
        self._echo = echo

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            # Output beyond the limit is read, so that the program does not block, and dropped.
            self.output += data[: MAX_OUTPUT + 1 - len(self.output)]
            if len(self.output) > MAX_OUTPUT:
                self.output_ended.set()
            return
        if self._echo:
            sys.stderr.write(data.decode(errors="replace"))
            sys.stderr.flush()
        self.error_end += data
        del self.error_end[:-MAX_ERROR_END]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if fd == 1:
            self.output_ended.set()
        elif fd == 2:
            self.errors_ended.set()

    def process_exited(self) -> None:
        self.exited.set()


async def _end_group(group: int, reader: _Reader) -> None:
    alive = _signal_group(group, signal.SIGTERM)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while alive:
                    await asyncio.sleep(_POLL)
                    alive = _signal_group(group, 0)
    finally:
        if alive:
            _signal_group(group, signal.SIGKILL)
    await reader.exited.wait()


def _signal_group(group: int, number: int) -> bool:
    """Signal the group. Returns whether it has processes; while it has, no other group gets its id."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # one of them belongs to another user
        return True
    return True


def _error_end(reader: _Reader) -> str:
    text = reader.error_end.decode(errors="replace").strip()
    return f": {text}" if text else ""
