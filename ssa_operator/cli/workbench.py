"""What `ssa-operator dev` does: it puts a local cluster, the CRDs, the examples and an operator together, and shows them.

Promises:
- A cluster that it starts ends with it; one that ran before is used and left running.
- On a terminal it shows a live tree of parents, children and pods; elsewhere plain lines.
- With `until_ready` it ends as soon as every example is Ready, and fails where one isn't in time, saying why.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.rule import Rule
from rich.tree import Tree

from ssa_operator.cli import session
from ssa_operator.cli.failure import CommandError
from ssa_operator.cli.launch import launched
from ssa_operator.cli.pods import Pods
from ssa_operator.cli.tree import tree
from ssa_operator.controller.operator import Operator
from ssa_operator.controller.options import Options
from ssa_operator.core.encoding import encode
from ssa_operator.core.identity import split_api_version
from ssa_operator.core.live import Live
from ssa_operator.core.manifest import group_kind
from ssa_operator.core.rendered import Document
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.client import Client
from ssa_operator.kube.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.errors import ApiError
from ssa_operator.rendering.files import FileError, load_objects

REDRAW = 0.25
"""Seconds between two drawings of the live tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """The settings of one `dev`; `until_ready` is the seconds to wait for the examples, None to run until interrupted."""

    templates: Path
    crds: Path
    examples: Path
    name: str
    listen: tuple[str | None, int] | None
    until_ready: float | None

    async def run(self) -> None:
        """Run it. Raises CommandError."""
        examples = self._load_examples()
        console = Console()
        stop = session.stop_on_signal()
        async with launched(self.name, console) as cluster, _client(cluster) as client:
            if self.crds.exists():
                await session.install(client, self.crds)
            mapper = RESTMapper(client)
            await _apply(client, mapper, examples)
            console.print(f"In another terminal: export KUBECONFIG={cluster.kubeconfig}", soft_wrap=True)
            operator = Operator(client, mapper, replace(Options(templates=self.templates), listen=self.listen))
            serving = asyncio.create_task(session.serve(operator, stop))
            shown = asyncio.create_task(self._show(client, operator, console, stop))
            judged = asyncio.create_task(self._judge(client, mapper, examples, stop))
            try:
                await asyncio.wait([serving, shown, judged], return_when=asyncio.FIRST_EXCEPTION)
            finally:
                stop.set()
                shown.cancel()
                judged.cancel()
                await asyncio.gather(shown, judged, return_exceptions=True)
                await serving
            for task in (shown, judged):
                if not task.cancelled():
                    task.result()
