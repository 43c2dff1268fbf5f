"""Applies the parents of files and waits until they are ready, for `ssa-operator apply`.

Promises:
- If a file, a template or a parent is refused, nothing is applied.
- A terminal shows a live tree. Without a terminal, each change of a parent's state is one line.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from rich.console import Console
from rich.live import Live as Screen

from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.connection import Target, connect
from ssa_operator.operator.process.streams import CommandError, OutputFormat
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.tools import printing
from ssa_operator.tools.offline.file_parents import PRUNE_HELD, FileParents, opened
from ssa_operator.tools.offline.parent_documents import check_namespaces, read_parents
from ssa_operator.tools.offline.parent_files import namespaces_of_documents, watched_namespaces
from ssa_operator.tools.printing import fitting
from ssa_operator.tools.tree.tree_view import lines, reported_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class FileApply:
    """The options of one `ssa-operator apply`."""

    files: list[str]
    templates: list[Path]
    installation: Installation
    namespace: str
    seconds: float
    """How long it waits."""
    prune: bool
    output: OutputFormat
    target: Target

    async def run(self) -> str:
        """Apply the parents and wait. Returns why parents are not ready, '' if all are. Raises CommandError."""
        try:
            return await self._apply()
        except ParentError as error:
            raise CommandError(str(error)) from error

    async def _apply(self) -> str:
        documents = read_parents(self.files)
        check_namespaces(documents, self.namespace)
        options = Options(templates=tuple(self.templates), installation=self.installation, resync_rate=0.0)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(connect(self.target))
            logging.getLogger("ssa_operator").setLevel(logging.ERROR)
            mapper, namespace = RESTMapper(client), self.namespace or client.credentials.namespace
            needed = namespaces_of_documents(documents, namespace)
            options = replace(options, namespaces=await watched_namespaces(client, mapper, self.templates, needed))
            parents = await stack.enter_async_context(opened(client, mapper, options))
            problems = [*parents.problems, *await parents.check(documents, namespace)]
            if problems:
                raise CommandError("\n".join(problems))
            await parents.apply(documents, namespace)
            with _progress(parents, quiet=self.output is not OutputFormat.TABLE) as on_change:
                ready = await parents.until_done(self.seconds, prune=self.prune, on_change=on_change)
            if self.output is not OutputFormat.TABLE:
                found = parents.parents.values()
                data = [reported_entry(each.live, each.report) | {"ready": each.ready} for each in found]
                printing.data(data, self.output)
            return "" if ready else _failures(parents, self.seconds)


def _failures(parents: FileParents, seconds: float) -> str:
    lines = []
    for parent in parents.parents.values():
        if parent.ready:
            continue
        when = "is not ready" if parent.failed else f"is not ready after {seconds:g} s"
        held = parent.report is not None and parent.report.verdict.reason == PRUNE_HELD
        hint = "; or confirm with `ssa-operator apply --prune`" if held else ""
        lines.append(f"{parent.document.location}: {parent.live.identity} {when}: {parent.state}{hint}")
    return "\n".join(lines)


@contextlib.contextmanager
def _progress(parents: FileParents, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Shows the parents at each call: as a live tree in a terminal, and else each change as a line."""
    console = streams.console()
    if quiet:
        yield lambda: None
    elif console.is_terminal:
        with _live_tree(parents, console) as draw:
            yield draw
    else:
        yield _ProgressLines(parents)


@contextlib.contextmanager
def _live_tree(parents: FileParents, console: Console) -> Iterator[Callable[[], None]]:
    def draw() -> Any:
        now = time.time()
        found = parents.parents.values()
        shown = [line for each in found for line in lines(reported_entry(each.live, each.report), now)]
        return fitting(shown, console)

    with Screen(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        screen.update(draw(), refresh=True)
        yield lambda: screen.update(draw(), refresh=True)


class _ProgressLines:
    """Prints a line when the state of a parent changes."""

    def __init__(self, parents: FileParents) -> None:
        self._parents = parents
        self._shown: dict[object, str] = {}

    def __call__(self) -> None:
        for key, parent in self._parents.parents.items():
            if parent.report is not None and self._shown.get(key) != parent.state:
                self._shown[key] = parent.state
                streams.line(f"{parent.live.identity} {parent.state}")
