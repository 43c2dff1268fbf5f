"""Shows the screen of `ssa-operator dev`, and carries out its keys.

Promises:
- A key acts on the parent of the selected line. Pausing and re-applying set the annotations that a user would set.
- `diff` and `blame` run as commands of their own, so the screen goes on.
- A key arrives without Enter, and is not echoed. Ctrl-C stays a signal.
- Home and End work as xterm, the Linux console, rxvt, tmux and screen send them.
- Afterwards the terminal is restored, even after an error.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import os
import re
import sys
import termios
import time
import tty
import webbrowser
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from rich.console import Console, Group
from rich.live import Live as Screen

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.observe import RECONCILE_AT
from ssa_operator.reconcile.suspension import ANNOTATION as SUSPEND
from ssa_operator.tools.dev.dev_cluster import AS_DEV, LocalCluster, ProjectFiles
from ssa_operator.tools.dev.dev_screen import KeyRequest, ScreenState, draw, on_key
from ssa_operator.tools.dev.scene import Row, SavedChecks, command_output, scene_reader

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


def has_display() -> bool:
    """Whether a browser can open a window. One in this terminal would take the screen."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


REDRAW = 0.25
"""Seconds between two readings of the operator's reports, if no key is pressed."""


@dataclass(slots=True, kw_only=True)
class DevConsole:
    """The screen of one operator."""

    operator: Operator

    client: Client

    templates: Sequence[Path]

    cluster: LocalCluster

    project: ProjectFiles

    checks: SavedChecks

    log: Sequence[str]
    """The newest lines of the operator's log."""

    page: str
    """The address of the web view, empty without one."""

    _state: ScreenState = field(default_factory=ScreenState)

    _command: asyncio.Task[None] | None = None
    """The diff or blame that runs."""

    async def run(self, console: Console, stop: asyncio.Event) -> None:
        """Show the screen until `stop` is set. The key for quitting sets it."""
        async with (
            scene_reader(self.operator, self.client, self.cluster, self.project, self.checks) as reader,
            keyboard() as keys,
        ):
            with Screen(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as screen:
                while not stop.is_set():
                    scene = replace(await reader.read(tuple(self.log)), page=self.page)
                    rows = scene.rows(time.time())
                    self._state = replace(self._state, width=console.width)
                    shown = draw(self._state, scene, rows, (console.width, console.height))
                    screen.update(Group(*shown), refresh=True)
                    with contextlib.suppress(TimeoutError):
                        key = await asyncio.wait_for(keys.get(), REDRAW)
                        self._state, request = on_key(self._state, key, rows, scene)
                        if request is KeyRequest.QUIT:
                            stop.set()
                        elif request is KeyRequest.PAGE and has_display():
                            await asyncio.to_thread(webbrowser.open, self.page)
                            self._state = replace(self._state, notice=f"opened: {self.page}")
                        elif request in (KeyRequest.COPY, KeyRequest.PAGE):
                            copied = self.page if request is KeyRequest.PAGE else scene.kubeconfig
                            console.file.write(clipboard_sequence(copied))
                            self._state = replace(self._state, notice=f"copied: {copied}")
                        elif request is not None:
                            found = self._state.shown(rows)
                            await self._do(request, found[self._state.at(found)], console.width)
        if self._command is not None:
            self._command.cancel()
            await asyncio.gather(self._command, return_exceptions=True)

    async def _do(self, request: KeyRequest, row: Row, width: int) -> None:
        """Carry out a key. The result is the screen's notice, or a text that it opens."""
        found = self._find(row.parent)
        if found is None:
            return
        resource, identity = found
        if request in (KeyRequest.DIFF, KeyRequest.BLAME):
            child = f"{row.line.kind}/{row.line.name.rpartition('/')[2]}" if row.is_child else ""
            self._start(request, resource, identity, child, width)
            return
        value: str | None
        if request is KeyRequest.PAUSE:
            annotation, value = SUSPEND, None if row.suspended else "true"
            notice = f"{identity} is {'resumed' if row.suspended else 'paused'}"
        else:
            annotation, value = RECONCILE_AT, datetime.now(UTC).isoformat()
            notice = f"{identity} is applied again"
        body = encode({"metadata": {"annotations": {annotation: value}}})
        patch = calls.merge_patch(resource, identity.namespace, identity.name, body)
        try:
            await self.client.send(dataclasses.replace(patch, query=(("fieldManager", AS_DEV),)))
        except ApiError as error:
            notice = str(error)
        self._state = replace(self._state, notice=notice)

    def _find(self, parent: Mapping[str, Any]) -> tuple[Resource, Identity] | None:
        """The resource and identity of a parent on the screen, None if it is gone."""
        for informer in self.operator.folders.values():
            live = informer.find(parent.get("namespace", ""), parent.get("name", ""))
            if live is not None and live.uid == parent.get("uid"):
                return informer.served.resource, live.identity
        return None

    def _start(self, request: KeyRequest, resource: Resource, identity: Identity, child: str, width: int) -> None:
        """Start a command for a parent, and for one of its children."""
        if self._command is not None and not self._command.done():
            return
        words = [request.value, f"{resource.name}/{identity.name}"]
        words += [child] if child and request is KeyRequest.BLAME else []
        options = [f"--templates={folder}" for folder in self.templates] + [
            f"--kubeconfig={self.cluster.cluster.kubeconfig}"
        ]
        options += [f"--values={file}" for file in self.operator.options.installation.values]
        options += [f"--namespace={identity.namespace}"] if identity.namespace else []
        self._state = replace(self._state, notice=f"{' '.join(words)} …")
        self._command = asyncio.create_task(self._open(words, options, width))

    async def _open(self, words: Sequence[str], options: Sequence[str], width: int) -> None:
        """Run a command, and open its output."""
        colours = {} if "NO_COLOR" in os.environ else {"FORCE_COLOR": "1"}
        environment = {**os.environ, "COLUMNS": str(width), **colours}
        out, _ = await command_output([*words, *options], together=True, environment=environment)
        self._state = self._state.opened(" ".join(words), out.decode(errors="replace") or "no differences")
