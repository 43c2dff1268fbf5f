"""A command in a pseudo-terminal, and the screen that its user sees."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Mapping

import pyte

from tests.operator.harness import PATIENCE, ROOT
from tests.secret_contents import OUTPUTS


class Terminal:
    """The screen of a command, as a terminal of this size shows it; `raw` is all that the command has written."""

    def __init__(self, process: asyncio.subprocess.Process, descriptor: int, columns: int, lines: int) -> None:
        self.process = process
        self.raw = b""
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._descriptor = descriptor
        self._changed = asyncio.Event()
        self._closed = False
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    @property
    def text(self) -> str:
        """The lines of the screen, without blanks at their ends."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self._descriptor, keys.encode())

    async def shows(self, *words: str) -> str:
        """The screen, once it has all of these words. One blank between two words stands for any number."""
        return await self.until(lambda text: all(word in _squeezed(text) for word in words), f"to show {words}")

    async def hides(self, word: str) -> str:
        """The screen, once it does not have this word."""
        return await self.until(lambda text: word not in text, f"to hide {word}")

    async def ended(self) -> int:
        """The exit code, once the command has ended."""
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()

    async def until(self, wanted: Callable[[str], bool], words: str) -> str:
        """The screen, once it is as wanted."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not wanted(self.text):
                    assert not self._closed, f"it ended, showing\n{self.text}"
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"waited for the screen {words}; it shows\n{self.text}") from None
        return self.text

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # the command has closed its side
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._closed = True
        self.raw += data
        self._stream.feed(data)
        self._changed.set()


def _squeezed(text: str) -> str:
    return f"{text}\n{re.sub(' +', ' ', text)}"


def _without_size(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the size of the terminal of the tests, which readline sets and which would win."""
    return {name: text for name, text in environment.items() if name not in ("COLUMNS", "LINES")}


@contextlib.asynccontextmanager
async def terminal(*arguments: str, columns: int = 80, lines: int = 24, **environment: str) -> AsyncIterator[Terminal]:
    """`ssa-operator` in a terminal of this size, until the block ends."""
    own, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ssa_operator",
        *arguments,
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=ROOT,
        env={**_without_size(os.environ), "TERM": "xterm-256color", **environment},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY),
    )
    os.close(its)
    shown = Terminal(process, own, columns, lines)
    try:
        yield shown
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        OUTPUTS.add(" ".join(("the screen of ssa-operator", *arguments)), shown.raw.decode(errors="replace"))
        asyncio.get_running_loop().remove_reader(own)
        os.close(own)
