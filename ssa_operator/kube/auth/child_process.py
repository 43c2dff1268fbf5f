"""Programs that are run for their output.

Promises:
- If a program does not finish in time, or its caller is cancelled, all processes of its group are ended: SIGTERM first,
  SIGKILL after a grace period. A program that finishes may leave processes behind, as a login agent does.
- Standard output and standard error are read at the same time, so that a program never waits for its reader.
- Of standard error only the end is kept, of standard output at most `MAX_OUTPUT` bytes.
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
"""Bytes of standard output; a program that writes more fails."""

MAX_ERROR_END = 2000
"""Bytes of standard error that are kept."""

_LATE_ERRORS = 0.2
"""Seconds for which standard error is read after the program exited: a process that it left may keep it open."""

_POLL = 0.02


class ProgramError(Exception):
    """A program did not finish in time, or wrote too much; with the end of its standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    given: bytes = field(default=b"", repr=False)
    """Its standard input."""

    interactive: bool = False
    """It has the operator's standard input, and the user sees its standard error at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a program that finished wrote to standard output."""

    output: bytes = field(repr=False)
    failure: str
    """The exit code in words and the end of standard error, '' for exit code 0."""


async def run(program: Program, *, deadline: float) -> Output:
    """Run a program to its end. Raises ProgramError, or OSError where it can't be started. `deadline` is in seconds."""
    transport, reader = await asyncio.get_running_loop().subprocess_exec(
        lambda: _Reader(echo=program.interactive),
        *program.argv,
        env=program.environment,
        stdin=None if program.interactive else PIPE if program.given else DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    finished = False
    try:
        if program.given:
            given = transport.get_pipe_transport(0)
            assert isinstance(given, asyncio.WriteTransport)
            given.write(program.given)
            given.write_eof()
        async with asyncio.timeout(deadline):
            await reader.answered.wait()
            if len(reader.output) > MAX_OUTPUT:
                raise ProgramError(f"wrote more than {MAX_OUTPUT} bytes to standard output")
            await reader.exited.wait()
        finished = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LATE_ERRORS):
                await reader.silent.wait()
    except TimeoutError:
        raise ProgramError(f"gave no answer in {deadline:g} s{_said(reader)}") from None
    finally:
        try:
            if not finished:
                await _end(transport.get_pid(), reader)
        finally:
            transport.close()
    code = transport.get_returncode()
    assert code is not None
    failure = f"exited with code {code}{_said(reader)}" if code else ""
    return Output(output=bytes(reader.output), failure=failure)


class _Reader(asyncio.SubprocessProtocol):
    """Takes what a program writes."""

    def __init__(self, *, echo: bool) -> None:
        self.output = bytearray()
        self.error_end = bytearray()
        self.answered = asyncio.Event()
        self.silent = asyncio.Event()
        self.exited = asyncio.Event()
        self._echo = echo

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            # What is too much is read all the same, so that the program can be ended in order, but not kept.
            self.output += data[: MAX_OUTPUT + 1 - len(self.output)]
            if len(self.output) > MAX_OUTPUT:
                self.answered.set()
            return
        if self._echo:
            sys.stderr.write(data.decode(errors="replace"))
            sys.stderr.flush()
        self.error_end += data
        del self.error_end[:-MAX_ERROR_END]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if fd == 1:
            self.answered.set()
        elif fd == 2:
            self.silent.set()

    def process_exited(self) -> None:
        self.exited.set()


async def _end(group: int, reader: _Reader) -> None:
    living = _signal(group, signal.SIGTERM)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while living:
                    await asyncio.sleep(_POLL)
                    living = _signal(group, 0)
    finally:
        if living:
            _signal(group, signal.SIGKILL)
    await reader.exited.wait()


def _signal(group: int, number: int) -> bool:
    """Whether the group has processes; while it has, no other group gets its id."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # one of them has another user
        return True
    return True


def _said(reader: _Reader) -> str:
    text = reader.error_end.decode(errors="replace").strip()
    return f": {text}" if text else ""
