"""Echos on an API server, the operator as a process, and the observation of both from outside."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from tests.benchmarks import workload
from tests.benchmarks.process import Process, environment
from tests.benchmarks.server import Server, in_parallel, serve


class Progress:
    """When each Echo of a namespace was first seen converged: the status has its observedGeneration."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        """By the Echo's name, in seconds of `time.perf_counter`."""
        self._wanted = 0
        self._reached = asyncio.Event()

    async def reach(self, wanted: int) -> None:
        """Wait until `wanted` Echos have converged."""
        self._wanted = wanted
        self._reached.clear()
        if len(self.times) < wanted:
            await self._reached.wait()

    def see(self, _: LiveObject | None, live: LiveObject | None) -> None:
        """Record an event of the watch."""
        if live is None or live.identity.name in self.times:
            return
        if (live.body.get("status") or {}).get("observedGeneration") == live.metadata.generation:
            self.times[live.identity.name] = time.perf_counter()
            if len(self.times) == self._wanted:
                self._reached.set()


class Bench:
    """One API server with the Echo CRD, and the operator as a process."""

    def __init__(self, server: Server, templates: Path) -> None:
        self.server = server
        self.folder = workload.load_folder(templates)
        self.children = workload.children(self.folder)
        self._templates = templates

    async def create(self, namespace: str, names: Iterable[str]) -> tuple[float, list[LiveObject]]:
        """Create Echos as fast as the API server accepts them; returns the seconds that it took, and the Echos."""
        bodies = [encode(workload.echo(name, namespace, position % 10)) for position, name in enumerate(names)]
        requests = self.server.prepared(
            [calls.create(self.server.resources[workload.ECHO], namespace, body) for body in bodies]
        )
        started = time.perf_counter()
        answers = await in_parallel(requests, self.server.send)
        return time.perf_counter() - started, [LiveObject(answer) for answer in answers]

    def operator(self, namespace: str, *more: str, log: str = "") -> Process:
        """`ssa-operator run` that watches one namespace and never resyncs, with more options. Its modules are compiled
        once for all operators with the same templates folder. `log` is the name of its log, by default the namespace's.
        """
        options = [f"--templates={self._templates}", f"--kubeconfig={self.server.kubeconfig}"]
        options += [f"--namespace={namespace}", "--resync-rate=0", "--listen=", *more]
        command = [sys.executable, "-m", "ssa_operator", "run", *options]
        bytecode = {"PYTHONPYCACHEPREFIX": str(self._templates.with_name("bytecode"))}
        return Process(
            command,
            environment() | bytecode,
            self._templates.with_name(f"{log or namespace}.log"),
            self.server.operators,
        )

    @asynccontextmanager
    async def watched(self, namespace: str) -> AsyncIterator[Progress]:
        """Watch the Echos of a namespace while the block runs."""
        progress, cache = Progress(), Cache()
        cache.listen(progress.see)
        scope = calls.Scope(self.server.resources[workload.ECHO], namespace)
        reflector = Reflector(self.server.client, scope, cache)
        task = asyncio.create_task(reflector.run())
        try:
            await reflector.synced_or_unavailable()
            yield progress
        finally:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def bench(templates: Path) -> AsyncIterator[Bench]:
    """A new bench. `templates` is the result of `workload.write_templates`; logs are written beside it.

    Raises the errors of a cluster's start.
    """
    async with serve() as server:
        made = Bench(server, templates)
        await server.prepare(workload.CRDS, (workload.ECHO, *made.children))
        yield made
