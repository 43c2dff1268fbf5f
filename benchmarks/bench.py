"""An API server to measure on, the operator as a process, and what can be seen of both from outside.

Promises:
- The API server is the bench's own and has nothing beside it but the garbage collector and the namespace controller: no
  scheduler, no nodes, no Deployment controller.
- Writes are the API server's own count. What an operator's process used is the kernel's.
- Nothing outlives the bench.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp
import msgspec
from yarl import URL

from benchmarks import machine, workload
from ssa_operator.controller import crds
from ssa_operator.core.encoding import encode
from ssa_operator.core.identity import GroupKind
from ssa_operator.core.live import Live
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start
from ssa_operator.kube import credentials
from ssa_operator.kube import request as calls
from ssa_operator.kube.cache import Cache
from ssa_operator.kube.client import Client
from ssa_operator.kube.discovery import RESTMapper
from ssa_operator.kube.reflector import Reflector
from ssa_operator.kube.request import Request
from ssa_operator.kube.resource import Resource

CONCURRENCY = 32
"""Requests at once: as many writes as the operator begins with, and enough to saturate an API server on two cores."""

CONTROLLERS = "garbage-collector-controller,namespace-controller,serviceaccount-controller"
"""The last one makes the service account that the start of a cluster waits for; it has little to do afterwards."""

QUIET = 1.0
"""Seconds without a write after which writes are counted."""

PATIENCE = 600.0
"""Seconds after which an operator that has not converged fails the run."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


async def in_parallel(items: Iterable[Item], send: Callable[[Item], Awaitable[Answer]]) -> list[Answer]:
    """Send all, at most CONCURRENCY at once, begun in their order; the answers stand in the order of the items."""
    answers: dict[int, Answer] = {}
    line = enumerate(items)

    async def work() -> None:
        for position, item in line:
            answers[position] = await send(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(work())
    return [answers[position] for position in range(len(answers))]


class Progress:
    """When each Echo of a namespace was first seen converged: the status has its observedGeneration."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        """By the Echo's name, in seconds of `time.perf_counter`."""
        self._wanted = 0
        self._reached = asyncio.Event()

    async def reach(self, wanted: int) -> None:
        """Wait until so many have converged."""
        self._wanted = wanted
        self._reached.clear()
        if len(self.times) < wanted:
            await self._reached.wait()

    def see(self, _: Live | None, live: Live | None) -> None:
        """Take note of an event of the watch."""
        if live is None or live.identity.name in self.times:
            return
        if (live.body.get("status") or {}).get("observedGeneration") == live.metadata.generation:
            self.times[live.identity.name] = time.perf_counter()
            if len(self.times) == self._wanted:
                self._reached.set()


class Operator:
    """`ssa-operator run` as a process: started by `async with`, ended with the block. Its modules are compiled once for
    all operators with the same templates folder.

    cpu: seconds of its whole life. memory: its largest resident set in MiB, 0 where the system doesn't say. Both are
    known after the block.
    """

    def __init__(self, templates: Path, kubeconfig: Path, namespace: str, running: set[int]) -> None:
        """`running` has its process id while it runs."""
        options = [f"--templates={templates}", f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
        self._command = [sys.executable, "-m", "ssa_operator", "run", *options, "--tick-rate=0", "--listen="]
        self._log = templates.with_name(f"{namespace}.log")
        self._running = running
        self._pid = 0
        self._exit: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.cpu = 0.0
        self.memory = 0.0

    async def __aenter__(self) -> Self:
        # What changes the options, or how modules are loaded, would change what is measured.
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("SSA_OPERATOR_", "PYTHON"))
        }
        environment = inherited | {"PYTHONPYCACHEPREFIX": str(self._log.with_name("bytecode"))}
        output = (os.POSIX_SPAWN_OPEN, 2, self._log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        # asyncio's own processes don't say what they used. Spawning returns at once.
        self._pid = os.posix_spawn(self._command[0], self._command, environment, file_actions=[output])  # noqa: ASYNC221
        self._running.add(self._pid)
        self._exit = asyncio.ensure_future(asyncio.to_thread(os.wait4, self._pid, 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        # Not what wait4 says: a process that was spawned begins with its parent's maximum (getrusage(2), ru_maxrss).
        self.memory = machine.peak_memory(self._pid)
        if not self._exit.done():
            os.kill(self._pid, signal.SIGTERM)
            await asyncio.wait([self._exit], timeout=15)
        if not self._exit.done():
            os.kill(self._pid, signal.SIGKILL)
        _, _, usage = await self._exit
        self._running.discard(self._pid)
        self.cpu = usage.ru_utime + usage.ru_stime

    async def until(self, event: Awaitable[None]) -> None:
        """Wait for what the operator is to bring about. Raises RuntimeError with the end of its log if it doesn't."""
        waiting = asyncio.ensure_future(event)
        await asyncio.wait([waiting, self._exit], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            fault = "ended by itself" if self._exit.done() else f"did not converge in {PATIENCE:.0f} s"
            raise RuntimeError(f"the operator {fault}; the end of its log:\n{self._log.read_text()[-2000:]}")


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted so far.

    writes: to Echos and their children, by what and where (`APPLY echoes.example.com/status`). cpu: the API server's
    seconds. others: seconds of CPU that went to processes that have nothing to do with the bench, or to the machine's
    host. time: of `time.perf_counter`.
    """

    writes: Counter[str]
    cpu: float
    others: float
    time: float

    def since(self, before: Count) -> Count:
        """What was counted between two moments."""
        return Count(
            self.writes - before.writes, self.cpu - before.cpu, self.others - before.others, self.time - before.time
        )

    @property
    def busy_others(self) -> float:
        """How many cores the others kept busy."""
        return self.others / self.time


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with everything that aiohttp would otherwise work out when it is sent."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes


class Bench:
    """One API server with the Echo CRD, and the ways to it."""

    def __init__(self, cluster: Cluster, client: Client, session: aiohttp.ClientSession, templates: Path) -> None:
        self.client = client
        self.folder = workload.load_folder(templates)
        self.resources: dict[GroupKind, Resource] = {}
        self._cluster = cluster
        self._session = session
        self._templates = templates
        self._operators: set[int] = set()

    async def prepare(self) -> None:
        """Install the CRD while no controller runs: the garbage collector looks for new ones every 30 s only."""
        for component in ("kwok", "kube-scheduler", "kube-controller-manager"):
            await self._cluster.stop_component(component)
        await crds.install(self.client, crds.load(workload.CRDS))
        self._cluster = await self._cluster.start_component("kube-controller-manager")
        mapper = RESTMapper(self.client)
        for kind in (workload.ECHO, *workload.child_kinds(self.folder)):
            self.resources[kind] = await mapper.resource(kind)

    async def version(self) -> str:
        """The API server's version."""
        answer = await self.client.send(calls.raw_get("/version"))
        return str(msgspec.json.decode(answer.body)["gitVersion"])

    async def create_namespace(self, name: str) -> None:
        """Make a namespace."""
        namespaces = await RESTMapper(self.client).resource(GroupKind("", "Namespace"))
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.create(namespaces, "", encode(body))

    async def create(self, namespace: str, names: Iterable[str]) -> tuple[float, list[Live]]:
        """Make Echos as fast as the API server takes them; returns the seconds that it took, and the Echos."""
        bodies = [encode(workload.echo(name, namespace, position % 10)) for position, name in enumerate(names)]
        requests = self.prepared([calls.create(self.resources[workload.ECHO], namespace, body) for body in bodies])
        started = time.perf_counter()
        answers = await in_parallel(requests, self.send)
        return time.perf_counter() - started, [Live(answer) for answer in answers]

    def prepared(self, requests: Iterable[Request]) -> list[Prepared]:
        """Requests for `send`."""
        server = self.client.credentials.server
        return [
            Prepared(
                each.method,
                URL(server + each.target, encoded=True),
                {"Accept": each.accept, "Content-Type": each.content_type},
                each.body,
            )
            for each in requests
        ]

    async def send(self, request: Prepared) -> bytes:
        """Send a request with as little as it takes. Raises RuntimeError where it is refused."""
        sent = self._session.request(
            request.method,
            request.url,
            headers=request.headers,
            data=request.body,
            ssl=self.client.credentials.ssl or True,
        )
        async with sent as answer:
            body = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{request.method} {request.url.path}: {answer.status} {body.decode()}")
            return body

    def operator(self, namespace: str) -> Operator:
        """An operator that looks at one namespace and has no ticks."""
        return Operator(self._templates, self._cluster.kubeconfig, namespace, self._operators)

    @asynccontextmanager
    async def watched(self, namespace: str) -> AsyncIterator[Progress]:
        """Look at the Echos of a namespace while the block runs."""
        progress, cache = Progress(), Cache()
        cache.listen(progress.see)
        reflector = Reflector(self.client, self.resources[workload.ECHO], cache, namespace=namespace)
        task = asyncio.create_task(reflector.run())
        try:
            await reflector.settled()
            yield progress
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def count(self) -> Count:
        """What the API server has counted up to now."""
        answer = await self.client.send(calls.raw_get("/metrics"))
        text = answer.body.decode()
        used = _CPU.search(text)
        if used is None:
            raise RuntimeError("the API server's /metrics have no process_cpu_seconds_total")
        names = {resource.name for resource in self.resources.values()}
        own = [os.getpid(), *self._cluster.pids.values(), *self._operators]
        others = machine.busy() - sum(map(machine.used, own))
        return Count(_writes(text, names), float(used[1]), others, time.perf_counter())

    async def settled(self) -> Count:
        """`count` once there was no write for a while."""
        before = await self.count()
        while True:
            await asyncio.sleep(QUIET)
            after = await self.count()
            if after.writes == before.writes:
                return after
            before = after

    async def made(self, namespace: str, name: str) -> str:
        """An Echo and its children as text, without what differs from namespace to namespace."""
        shown = []
        for resource in self.resources.values():
            body = (await self.client.get(resource, name, namespace)).body
            metadata = {key: value for key, value in body["metadata"].items() if key not in _INCOMPARABLE}
            shown.append(json.dumps({**body, "metadata": metadata}, sort_keys=True))
        return _VARYING.sub("...", "\n".join(shown).replace(f"{namespace}/", "").replace(f'"{namespace}"', '"..."'))


@asynccontextmanager
async def bench(templates: Path) -> AsyncIterator[Bench]:
    """A bench of its own. `templates` is of `workload.write_templates`; logs are written beside it.

    Raises the errors of a cluster's start.
    """
    cluster = await start(ClusterSpec(name=f"benchmark-{os.getpid()}", controllers=CONTROLLERS, nodes=0))
    try:
        async with (
            Client(await credentials.load(str(cluster.kubeconfig))) as client,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY), trust_env=False) as session,
        ):
            made = Bench(cluster, client, session, templates)
            await made.prepare()
            yield made
    finally:
        await cluster.stop()


_SERIES = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_CPU = re.compile(r"^process_cpu_seconds_total (\S+)$", re.MULTILINE)
_VERBS = frozenset({"APPLY", "DELETE", "PATCH", "POST", "PUT"})

_INCOMPARABLE = frozenset({"managedFields", "resourceVersion"})
# uids, times, and the addresses that the API server gives to Services
_VARYING = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9-]{10}T[0-9:]{8}Z|\b10(?:\.[0-9]+){3}\b")


def _writes(metrics: str, names: Collection[str]) -> Counter[str]:
    """The writes to these resources. Others are the API server's own: it keeps an IPAddress for each Service."""
    found: Counter[str] = Counter()
    for series, value in _SERIES.findall(metrics):
        labels = dict(_LABEL.findall(series))
        name = ".".join(filter(None, (labels["resource"], labels["group"])))
        if labels["verb"] in _VERBS and name in names:
            subresource = f"/{labels['subresource']}" if labels["subresource"] else ""
            # Series of one write differ in the answer's code: a refused one counts too.
            found[f"{labels['verb']} {name}{subresource}"] += int(float(value))
    return found
