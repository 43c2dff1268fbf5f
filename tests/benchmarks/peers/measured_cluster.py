"""The cluster of a contender: an API server with Echos, its observations, and the measured spans of time.

Promises:
- Requests are the API server's own count, without watches and without those of the benchmark itself. CPU and memory are
  the kernel's.
- The benchmark scrapes the API server's metrics, which is expensive, outside of the timed spans.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from ssa_operator.kube.api import request as calls
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from tests.benchmarks import machine
from tests.benchmarks.peers import job
from tests.benchmarks.peers.observations import Observations, watched
from tests.benchmarks.server import Server, in_parallel, serve

SPACE = 0.03
"""Seconds between two single patches."""

PROBES = 20
WARM_UP = 50
"""Pairs of objects that the API server makes before anything is measured: its first requests are slow."""

DRIFT_REPLICAS = 77
"""The replicas of a drift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """parents: how many Echos. samples: how many single patches and drifts. idle: seconds. only_cold: whether nothing
    but the cold start is measured.
    """

    parents: int
    samples: int
    idle: float
    only_cold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds."""

    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        """Of at least one."""
        found = sorted(seconds)
        last = found[min(len(found) - 1, int(len(found) * 0.99))]
        p50, p99, largest = (round(each * 1e3, 1) for each in (statistics.median(found), last, found[-1]))
        return cls(p50=p50, p99=p99, max=largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """seconds: how long it took. first: until the first of several was done. statuses: until the last status was
    written. cpu, apiserver_cpu: seconds of the operator's process (the benchmark's own for the raw client) and of the
    API server. others: how many cores something else kept busy. memory: the operator's resident MiB at the end.
    requests: by what and where. latency, probes: as the scenarios say.
    """

    seconds: float
    cpu: float
    apiserver_cpu: float
    others: float
    memory: float
    requests: Mapping[str, int]
    first: float | None = None
    statuses: float | None = None
    latency: Latency | None = None
    probes: Latency | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    time: float
    cpu: float
    apiserver: float
    others: float
    memory: float

    @classmethod
    def take(cls, server: Server, pid: int) -> Self:
        cpu = time.process_time() if pid == os.getpid() else machine.used(pid)
        return cls(time.perf_counter(), cpu, machine.used(server.pid), server.others(), machine.memory(pid))


class Span:
    """A measured time: from `begin` to `read`, then `phase`. `pid` may be given later, for a process that begins with
    it.
    """

    def __init__(self, cluster: MeasuredCluster, pid: int, requests: Counter[str]) -> None:
        self._cluster = cluster
        self._requests = requests
        self.pid = pid
        self._began = self._ended = _Reading.take(cluster.server, pid)

    @property
    def began(self) -> float:
        """By `time.perf_counter`."""
        return self._began.time

    def read(self) -> None:
        """End the time."""
        self._ended = _Reading.take(self._cluster.server, self.pid)

    async def phase(self, *, settled: bool = False) -> Phase:
        """The measured phase; with `settled`, requests count until there are no more writes."""
        requests = await self._cluster.requests(settled=settled)
        before, after = self._began, self._ended
        seconds = after.time - before.time
        return Phase(
            seconds=round(seconds, 3),
            cpu=round(after.cpu - before.cpu, 2),
            apiserver_cpu=round(after.apiserver - before.apiserver, 2),
            others=round((after.others - before.others) / seconds, 2),
            memory=round(after.memory, 1),
            requests=dict(sorted((requests - self._requests).items())),
        )


@dataclass(frozen=True, slots=True)
class MeasuredCluster:
    """An API server with Echos and their observations. sent: the requests of the benchmark itself."""

    server: Server
    observations: Observations
    sizes: Sizes
    names: Sequence[str]
    probes: Sequence[str]
    uids: Mapping[str, str]
    sent: Counter[str] = field(default_factory=Counter)

    @property
    def all_names(self) -> list[str]:
        return [*self.names, *self.probes]

    def samples(self, turn: int) -> list[str]:
        """Names for single patches, others in each turn as far as there are enough."""
        start = turn * self.sizes.samples
        return [self.names[(start + number) % len(self.names)] for number in range(self.sizes.samples)]

    async def requests(self, *, settled: bool = False) -> Counter[str]:
        """Those of others up to now, or up to the moment when there are no more writes."""
        count = await (self.server.settled() if settled else self.server.count())
        return count.requests - self.sent

    async def begin(self, pid: int = 0) -> Span:
        """Begin to measure."""
        return Span(self, pid, await self.requests())

    async def scale(self, kind: GroupKind, name: str, replicas: int) -> None:
        """Patch the replicas of an Echo as a user, or those of a Deployment as another manager."""
        resource = self.server.resources[kind]
        self.sent[f"PATCH {resource.name}"] += 1
        body = encode({"spec": {"replicas": replicas}})
        (request,) = self.server.prepared([calls.merge_patch(resource, job.NAMESPACE, name, body)])
        await self.server.send(request)

    async def react(self, name: str, replicas: int) -> float:
        """Patch an Echo; returns the seconds until its Deployment has a new generation."""
        key = (job.DEPLOYMENT, name)
        seen = self.observations.newer(key, self.observations.generations[key])
        started = time.perf_counter()
        await self.scale(job.ECHO, name, replicas)
        return await seen - started

    async def repair(self, name: str) -> float:
        """Change a Deployment; returns the seconds until it was changed again."""
        key = (job.DEPLOYMENT, name)
        seen = self.observations.newer(key, self.observations.generations[key] + 1)
        started = time.perf_counter()
        await self.scale(job.DEPLOYMENT, name, DRIFT_REPLICAS)
        return await seen - started


@asynccontextmanager
async def prepared(sizes: Sizes, rehearsal: Callable[[Server], Awaitable[None]]) -> AsyncIterator[MeasuredCluster]:
    """A new API server, warmed up, with all Echos and no children. `rehearsal` is done before there are Echos.

    Raises the errors of a cluster's start.
    """
    async with serve() as server:
        await server.prepare(job.DEFINITION, job.KINDS)
        for namespace in (job.NAMESPACE, "warm-up"):
            await server.create_namespace(namespace)
        await _warm_up(server)
        await rehearsal(server)
        names = [f"echo-{number:05}" for number in range(sizes.parents)]
        probes = [f"probe-{number:02}" for number in range(PROBES)]
        resource = server.resources[job.ECHO]
        requests = [calls.create(resource, job.NAMESPACE, job.echo(name)) for name in (*names, *probes)]
        created = [LiveObject(answer) for answer in await in_parallel(server.prepared(requests), server.send)]
        async with watched(server) as observations:
            yield MeasuredCluster(
                server, observations, sizes, names, probes, {live.identity.name: live.uid for live in created}
            )


async def _warm_up(server: Server) -> None:
    """Send writes in a namespace that no operator watches."""
    requests = [
        calls.apply(server.resources[kind], "warm-up", f"warm-up-{number}", body, calls.ApplyOptions(manager="warm-up"))
        for number in range(WARM_UP)
        for kind, body in job.children(f"warm-up-{number}", 1, namespace="warm-up").items()
    ]
    await in_parallel(server.prepared(requests), server.send)
