"""The keys that a user presses in a terminal, and its clipboard.

Promises:
- A key arrives without Enter, and is not echoed. Ctrl-C stays a signal.
- Home and End work as xterm, the Linux console, rxvt, tmux and screen send them.
- Afterwards the terminal is restored, even after an error.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import sys
import termios
import tty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"), "home"),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"), "end"),
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b[C": "right",
    "\x1bOC": "right",
    "\x1b[D": "left",
    "\x1bOD": "left",
}
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|\x1b|[^\x1b]", re.DOTALL)


def parse_keys(text: str) -> list[str]:
    """The keys in a terminal's input: a letter, or a name such as `up`. Other sequences are left out."""
    found = (_SEQUENCES.get(key, key if len(key) == 1 else "") for key in _KEY.findall(text))
    return [key for key in found if key]


@asynccontextmanager
async def keyboard() -> AsyncIterator[asyncio.Queue[str]]:
    """The keys that the user presses on standard input while the block runs; none if it is no terminal."""
    keys: asyncio.Queue[str] = asyncio.Queue()
    if not sys.stdin.isatty():
        yield keys
        return
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        data = os.read(descriptor, 1024)
        if not data:
            loop.remove_reader(descriptor)
        for key in parse_keys(data.decode(errors="ignore")):
            keys.put_nowait(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield keys
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def clipboard_sequence(text: str) -> str:
    """The output by which a terminal puts a text on its clipboard: OSC 52 of xterm's control sequences
    (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html), which most terminals follow, also over SSH.
    """
    return f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"
