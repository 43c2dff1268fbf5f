"""The API server of a benchmark, and its counters.

Promises:
- Each bench has its own API server, with only the garbage collector and the namespace controller: no scheduler, no
  nodes, no Deployment controller.
- Requests are the API server's own count, its CPU the kernel's.
- All processes end with the block of `serve`.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import aiohttp
from yarl import URL

from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth import credentials
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator import crd_installation as crds
from tests.benchmarks import machine

CONCURRENCY = 32
"""Requests at once: as many writes as the operator begins with, and enough to saturate an API server on two cores."""

CONTROLLERS = "garbage-collector-controller,namespace-controller,serviceaccount-controller"
"""The last one makes the service account that the start of a cluster waits for; it has little to do afterwards."""

QUIET = 1.0
"""Seconds without a write after which writes are counted."""

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


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted so far.

    requests: to Echos, their children and Events, but watches, by what and where (`APPLY echoes.example.com/status`).
    cpu: the API server's seconds. others: those that went to processes that are none of the benchmark's, or to the
    machine's host. time: of `time.perf_counter`.
    """

    requests: Counter[str]
    cpu: float
    others: float
    time: float

    def since(self, before: Count) -> Count:
        """The counts between two moments."""
        return Count(
            self.requests - before.requests, self.cpu - before.cpu, self.others - before.others, self.time - before.time
        )

    @property
    def writes(self) -> Counter[str]:
        """Those of the requests that write to Echos and their children."""
        return Counter(
            {
                what: count
                for what, count in self.requests.items()
                if what.split()[0] in _VERBS and what.split()[1] not in _EVENTS
            }
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


class Server:
    """One API server with a CRD, and the ways to it.

    resources: how the kinds are served whose requests are counted. operators: the process ids of operators that run.
    """

    def __init__(self, cluster: Cluster, client: Client, session: aiohttp.ClientSession) -> None:
        self.client = client
        self.resources: dict[GroupKind, Resource] = {}
        self.operators: set[int] = set()
        self._cluster = cluster
        self._session = session

    @property
    def kubeconfig(self) -> Path:
        return self._cluster.kubeconfig

    @property
    def pid(self) -> int:
        """The API server's process id."""
        return self._cluster.pids["kube-apiserver"]

    async def prepare(self, definitions: Path, kinds: Iterable[GroupKind]) -> None:
        """Install CRDs while no controller runs, because the garbage collector discovers new ones only every 30 s."""
        for component in ("kwok", "kube-scheduler", "kube-controller-manager"):
            await self._cluster.stop_component(component)
        await crds.install(self.client, crds.load_crds(definitions))
        self._cluster = await self._cluster.start_component("kube-controller-manager")
        mapper = RESTMapper(self.client)
        for kind in kinds:
            self.resources[kind] = await mapper.resource(kind)

    async def restart(self) -> None:
        """Stop the API server and start it again, on the same address."""
        await self._cluster.stop_component("kube-apiserver")
        self._cluster = await self._cluster.start_component("kube-apiserver")
        await self._cluster.wait_until_ready()

    async def create_namespace(self, name: str) -> None:
        """Create a namespace."""
        namespaces = await RESTMapper(self.client).resource(GroupKind("", "Namespace"))
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.create(namespaces, "", encode(body))

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
        """Send a request with minimal overhead. Raises RuntimeError if the API server rejects it."""
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

    async def count(self) -> Count:
        """The API server's counts up to now."""
        answer = await self.client.send(calls.raw_get("/metrics"))
        text = answer.body.decode()
        names = {resource.name for resource in self.resources.values()} | _EVENTS
        return Count(_requests(text, names), machine.used(self.pid), self.others(), time.perf_counter())

    def others(self) -> float:
        """Seconds of CPU of processes outside the benchmark, or of the machine's host."""
        own = [os.getpid(), *self._cluster.pids.values(), *self.operators]
        return machine.busy() - sum(map(machine.used, own))

    async def settled(self) -> Count:
        """`count` once there was no write for a while."""
        before = await self.count()
        while True:
            await asyncio.sleep(QUIET)
            after = await self.count()
            if after.writes == before.writes:
                return after
            before = after


@asynccontextmanager
async def serve() -> AsyncIterator[Server]:
    """A server of its own, not prepared yet. Raises the errors of a cluster's start."""
    cluster = await start(ClusterSpec(name=f"benchmark-{os.getpid()}", controllers=CONTROLLERS, nodes=0))
    try:
        async with (
            Client(await credentials.load(str(cluster.kubeconfig))) as client,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY), trust_env=False) as session,
        ):
            yield Server(cluster, client, session)
    finally:
        await cluster.stop()


_SERIES = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_VERBS = frozenset({"APPLY", "DELETE", "PATCH", "POST", "PUT"})

_EVENTS = {"events", "events.events.k8s.io"}
_PASSING = frozenset({"WATCH", "CONNECT"})


def _requests(metrics: str, names: Collection[str]) -> Counter[str]:
    """The requests to these resources. Others are the API server's own: it keeps an IPAddress for each Service."""
    found: Counter[str] = Counter()
    for series, value in _SERIES.findall(metrics):
        labels = dict(_LABEL.findall(series))
        name = ".".join(filter(None, (labels["resource"], labels["group"])))
        if labels["verb"] not in _PASSING and name in names:
            subresource = f"/{labels['subresource']}" if labels["subresource"] else ""
            # Series of one request differ in the answer's code: a refused one counts too.
            found[f"{labels['verb']} {name}{subresource}"] += int(float(value))
    return found
