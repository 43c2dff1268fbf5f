"""`ssa-operator` as users start it: a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import sys
import termios
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.cli import preloaded
from tests.operator.harness import PATIENCE, ROOT
from tests.secret_contents import OUTPUTS

ALONE = "--api-server=never"
"""Of a `check` that starts no API server, as nearly all tests want it."""

SIGINT = signal.SIG_DFL
"""What SIGINT does to a command before it has a handler of its own."""


@dataclass(slots=True)
class Command:
    """A started command; `lines` is what it has written to standard error so far, `printed` to standard output."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    async def says(self, words: str) -> str:
        """The line with these words, once it is written."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while not any(words in line for line in self.lines):
                line = await self.process.stderr.readline()
                assert line, "it ended, after: " + "".join(self.lines)
                self.lines.append(line.decode())
        return next(line for line in self.lines if words in line)

    async def prints(self, words: str) -> str:
        """The line on standard output with these words, once it is written."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while not any(words in line for line in self.printed):
                line = await self.process.stdout.readline()
                assert line, "it ended, after: " + "".join(self.printed)
                self.printed.append(line.decode())
        return next(line for line in self.printed if words in line)

    async def ended(self) -> int:
        """The exit code, once it has ended."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            async for line in self.process.stderr:
                self.lines.append(line.decode())
            return await self.process.wait()


async def run(*arguments: str, stdin: str = "", output: str = "", **environment: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command that ends by itself, run in the checkout. With
    `output`, its standard output is this device. A `check` asks no API server, unless the arguments say so.
    """
    if arguments[:1] == ("check",) and not any(each.startswith("--api-server") for each in arguments):
        arguments = (*arguments, ALONE)
    if any(name.startswith("PYTHON") for name in environment):
        # Python reads its own variables when it starts.
        process = await _start(arguments, environment)
        written = await process.communicate(stdin.encode())
        assert process.returncode is not None
        code, (out, err) = process.returncode, (stream.decode() for stream in written)
    else:
        code, out, err = await preloaded.run(arguments, stdin, os.environ | environment, output)
    _record(arguments, out, err)
    return code, out, err


async def in_terminal(*arguments: str, **environment: str) -> tuple[int, str]:
    """Exit code and output of a command that ends by itself, in a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ssa_operator",
        *arguments,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=os.environ | {"TERM": "xterm-256color"} | environment,
    )
    os.close(theirs)
    shown = await asyncio.to_thread(_read_until_closed, ours)
    _record(arguments, shown)
    return await process.wait(), shown


def _read_until_closed(terminal: int) -> str:
    parts = []
    # On Linux, the end of a terminal is an error.
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 65536):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


@contextlib.asynccontextmanager
async def started(*arguments: str, **environment: str) -> AsyncIterator[Command]:
    """A command that runs until the block ends, in the folder `PWD`; it is killed then, if it still runs."""
    process = await _start(arguments, environment)
    command = Command(process)
    try:
        yield command
    finally:
        if process.returncode is None:
            process.kill()
        rest = await process.communicate()
        _record(arguments, *command.lines, *command.printed, *(part.decode() for part in rest))


def _record(arguments: tuple[str, ...], *texts: str) -> None:
    OUTPUTS.add(" ".join(("ssa-operator", *arguments)), "".join(texts))


async def _start(arguments: tuple[str, ...], environment: dict[str, str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ssa_operator",
        *arguments,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=environment.get("PWD", ROOT),
        env=os.environ | environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, SIGINT),
    )
