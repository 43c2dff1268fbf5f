"""Shows the screen of `ssa-operator dev`, and carries out its keys.

Promises:
- The tree has the operator's own reports, not a second reading of the status. The objects below children and the Events
  come from watches.
- A key acts on the parent of the selected line. Pausing and re-applying set the annotations that a user would set.
- `diff` and `blame` run as commands of their own, so the screen goes on.
- While the screen is shown, log lines are kept for it. Afterwards the terminal is restored, and shows the last tree.
- A key arrives without Enter, and is not echoed. Ctrl-C stays a signal.
- Afterwards the terminal is restored, even after an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import sys
import termios
import time
import tty
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
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
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import Identity, read_identity
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.process import logging_setup
from ssa_operator.reconcile.observe import RECONCILE_AT
from ssa_operator.reconcile.status.event_requests import EVENTS
from ssa_operator.reconcile.suspension.rules import ANNOTATION as SUSPEND
from ssa_operator.tools.dev.dev_cluster import LocalCluster
from ssa_operator.tools.dev.dev_screen import KeyRequest, Row, Scene, ScreenState, draw, on_key
from ssa_operator.tools.terminal import printing
from ssa_operator.tools.tree.listings import Watches
from ssa_operator.tools.tree.object_tree import Owner, owned_objects
from ssa_operator.tools.tree.parent_entries import child_data
from ssa_operator.tools.tree.parent_events import event_time
from ssa_operator.tools.tree.tree_view import condition, entry, not_ready_since

_SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "g": "home",
    "G": "end",
    " ": "pagedown",
}
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|\x1b|[^\x1b]", re.DOTALL)


def parse_keys(text: str) -> list[str]:
    """The keys in a terminal's input: a letter, or a name such as `up`. Other sequences are left out."""
    found = (_SEQUENCES.get(key, key if len(key) == 1 else "") for key in _KEY.findall(text))
    return [key for key in found if key]


@asynccontextmanager
async def keyboard() -> AsyncIterator[asyncio.Queue[str]]:
    """The keys that the user presses on standard input while the block runs."""
    keys: asyncio.Queue[str] = asyncio.Queue()
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


AS_DEV = "ssa-operator-dev"
"""The field manager of changes by the keys and examples of `dev`."""

REDRAW = 0.25
"""Seconds between two readings of the operator's reports, if no key is pressed."""

EVENTS_LIMIT = 200
"""The most Events on the screen's list."""

_TEMPLATE_ERRORS = frozenset({"RenderFailed", "InvalidManifest", "ApplyFailed", "Conflict", "DependencyCycle"})
"""The reasons of Ready whose message has a place in a template."""


@dataclass(slots=True, kw_only=True)
class DevConsole:
    """The screen of one operator."""

    operator: Operator

    client: Client

    templates: Sequence[Path]

    cluster: LocalCluster

    _state: ScreenState = field(default_factory=ScreenState)

    _command: asyncio.Task[None] | None = None
    """The diff or blame that runs."""

    async def run(self, console: Console, stop: asyncio.Event) -> None:
        """Show the screen until `stop` is set. The key for quitting sets it."""
        mapper, rows = RESTMapper(self.client), list[Row]()
        with logging_setup.kept() as log:
            async with Watches(self.client) as watches, _keys() as keys:
                with Screen(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as screen:
                    while not stop.is_set():
                        scene = await self._scene(watches, mapper, tuple(log))
                        rows = scene.rows(time.time())
                        shown = draw(self._state, scene, rows, (console.width, console.height))
                        screen.update(Group(*shown), refresh=True)
                        with contextlib.suppress(TimeoutError):
                            key = await asyncio.wait_for(keys.get(), REDRAW)
                            self._state, request = on_key(self._state, key, rows, scene)
                            if request is KeyRequest.QUIT:
                                stop.set()
                            elif request is not None:
                                await self._do(request, rows[self._state.at(rows)], console.width)
            if self._command is not None:
                self._command.cancel()
                await asyncio.gather(self._command, return_exceptions=True)
        printing.lines(row.line for row in rows)

    async def _scene(self, watches: Watches, mapper: RESTMapper, log: Sequence[str]) -> Scene:
        """The data to show now."""
        now, parents, errors = time.time(), list[dict[str, Any]](), list[str]()
        async with watches.round():
            for informer in self.operator.folders.values():
                errors += map(str, informer.folder.problems)
                for live in sorted(informer, key=lambda live: live.identity):
                    report = informer.state(live).status.report
                    parents.append(self._with_children(entry(live, report.status if report is not None else {}), now))
            owners = [owner for parent in parents for owner in _owners(parent["resources"])]
            below = (await owned_objects(watches, mapper, owners, now)).below
            events = (await watches.read([Scope(EVENTS)]))[Scope(EVENTS)].objects
        for parent in parents:
            parent["resources"] = [
                each | {"objects": below.get(each.get("uid", ""), [])} for each in parent["resources"]
            ]
            ready = condition(parent, "Ready") or {}
            if ready.get("reason") in _TEMPLATE_ERRORS:
                errors.append(str(ready.get("message")))
        shown = {uid for parent in parents for uid in _uids([parent])}
        bodies = [live.body for live in events]
        about = (each for each in bodies if (each.get("regarding") or {}).get("uid") in shown)
        return Scene(
            parents=parents,
            waiting=dict(self.operator.missing),
            errors=tuple(dict.fromkeys(errors)),
            events=sorted(about, key=event_time)[-EVENTS_LIMIT:],
            log=log,
            cluster_note=self.cluster.note,
        )

    def _with_children(self, parent: dict[str, Any], now: float) -> dict[str, Any]:
        """A parent's data with the ages and times of its children, from the operator's own caches."""
        live, since = self.operator.controllers.children, not_ready_since(parent)
        children = [(each, read_identity(each)) for each in parent["resources"]]
        found = [child_data(each, live.get(identity) if identity else None, since, now) for each, identity in children]
        return parent | {"resources": found}

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
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ssa_operator", *words, *options,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "COLUMNS": str(width), **({} if "NO_COLOR" in os.environ else {"FORCE_COLOR": "1"})},
        )  # fmt: skip
        try:
            out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        self._state = self._state.opened(" ".join(words), out.decode(errors="replace") or "no differences")


@asynccontextmanager
async def _keys() -> AsyncIterator[asyncio.Queue[str]]:
    """The keys of the terminal; none if standard input is not one."""
    if sys.stdin.isatty():
        async with keyboard() as keys:
            yield keys
    else:
        yield asyncio.Queue()


def _owners(children: Iterable[Mapping[str, Any]]) -> Iterator[Owner]:
    for each in children:
        identity = read_identity(each)
        if identity is not None and each.get("uid"):
            yield Owner(identity, each["uid"])


def _uids(objects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The uids of some objects and of all below them."""
    for each in objects:
        if each.get("uid"):
            yield each["uid"]
        yield from _uids((*each.get("resources", ()), *each.get("objects", ())))
