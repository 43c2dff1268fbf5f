"""The phases of every contender, in this order, on a new API server.

- cold: the Echos exist; from the start of the process until all children exist, and until all statuses are written.
- reaction: the benchmark changes the replicas of one Echo after the other; from the patch to the Deployment's new
  generation.
- drift: another manager changes the replicas of one Deployment after the other; until the operator reverted it.
- burst: the benchmark patches all Echos except the probes, as fast as the API server accepts it; until every
  Deployment has its new generation, and until every status has it. Meanwhile it patches the probes, five a second, to
  measure how long a user waits behind a burst.
- idle: nothing changes for a while; counts the requests that the operator still sends.
- restart: the benchmark patches some Echos after the process ended; from its new start to the first and the last
  reaction.
- patch, repair: started again, now without resyncs; counts the requests for single patches, and for single drifts.

Promises:
- A phase begins after SETTLED seconds without an event. An operator that resyncs all parents may still be busy then.
- The benchmark starts every operator once before it creates Echos, because the first start of a program is slow.
- The raw client is no operator: it knows its requests beforehand and sends the minimum. It has no restart, patch and
  repair phase; in its idle phase it applies RESYNCS existing objects a second.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.request import Request
from ssa_operator.objects.identity import GroupKind
from ssa_operator.operator.operator_options import Options
from tests.benchmarks import machine
from tests.benchmarks.peers import job
from tests.benchmarks.peers.contenders import RAW, Contender
from tests.benchmarks.peers.measured_cluster import (
    DRIFT_REPLICAS,
    SPACE,
    Latency,
    MeasuredCluster,
    Phase,
    Sizes,
    Span,
    prepared,
)
from tests.benchmarks.process import Process
from tests.benchmarks.server import Server, in_parallel

SETTLED = 2.0
RESTARTED = 5
PROBING = 0.2
COUNTED = 20
"""Patches and drifts whose requests are counted."""

RESYNCS = Options().resync_rate
"""Applies a second."""

RESTING = 0.05
"""Seconds of CPU in two seconds: less is rest."""

MANAGER = "echo-raw"

_React = Callable[[str, int], Awaitable[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one contender did in one round. peak: its largest resident set in MiB until the restart."""

    contender: str
    peak: float = 0.0
    phases: Mapping[str, Phase]


async def measure(contender: Contender | None, sizes: Sizes, scratch: Path) -> Measurement:
    """One contender's round; None is the raw client. Raises RuntimeError if an operator does not do its job."""

    async def rehearse(server: Server) -> None:
        if contender is not None:
            async with _process(server, contender, scratch, resyncs=True) as running:
                await _resting(running)

    async with prepared(sizes, rehearse) as cluster:
        if contender is None:
            return Measurement(contender=RAW, phases=await _raw(cluster))
        return await _operator(cluster, contender, scratch)


def _process(server: Server, contender: Contender, scratch: Path, *, resyncs: bool) -> Process:
    command, environment = contender.start(server.kubeconfig, resyncs=resyncs)
    return Process(command, environment, scratch / f"{contender.name}.log", server.operators)


async def _resting(running: Process) -> None:
    """Wait until a process that has nothing to do is started: its modules are compiled, its files are read."""
    used = -1.0
    while machine.used(running.pid) - used > RESTING:
        used = machine.used(running.pid)
        await asyncio.sleep(2)


async def _operator(cluster: MeasuredCluster, contender: Contender, scratch: Path) -> Measurement:
    def process(*, resyncs: bool = True) -> Process:
        return _process(cluster.server, contender, scratch, resyncs=resyncs)

    span = await cluster.begin()
    async with process() as running:
        phases = {"cold": await _cold(cluster, running, span)}
        if not cluster.sizes.only_cold:
            phases |= await _warm(cluster, running)
    peak = running.memory
    if not cluster.sizes.only_cold:
        phases |= await _restarted(cluster, process)
    return Measurement(contender=contender.name, peak=round(peak, 1), phases=phases)


async def _cold(cluster: MeasuredCluster, running: Process, span: Span) -> Phase:
    """`span` began before the process."""
    observations = cluster.observations
    span.pid = running.pid
    await running.until(observations.children(cluster.all_names))
    seconds = time.perf_counter() - span.began
    await running.until(observations.statuses(cluster.all_names))
    span.read()
    statuses = time.perf_counter() - span.began
    await running.until(observations.quiet(SETTLED))
    phase = replace(await span.phase(), seconds=round(seconds, 3), statuses=round(statuses, 3))
    await _check(cluster)
    return phase


async def _warm(cluster: MeasuredCluster, running: Process) -> dict[str, Phase]:
    """Measure the process after the cold start."""
    observations = cluster.observations
    phases = {}
    await running.until(observations.quiet(SETTLED))
    phases["reaction"] = await _reactions(cluster, running.pid, cluster.samples(0), cluster.react)
    await running.until(observations.quiet(SETTLED))
    phases["drift"] = await _drifts(cluster, running.pid, cluster.samples(1), cluster.repair)
    await running.until(observations.quiet(SETTLED))
    phases["burst"] = await _burst(cluster, running)
    await running.until(observations.quiet(SETTLED))
    span = await cluster.begin(running.pid)
    await asyncio.sleep(cluster.sizes.idle)
    span.read()
    phases["idle"] = await span.phase()
    return phases


async def _restarted(cluster: MeasuredCluster, process: Callable[..., Process]) -> dict[str, Phase]:
    """Measure new processes, the second one without resyncs."""
    observations = cluster.observations
    phases = {}
    waited = {name: observations.generations[job.DEPLOYMENT, name] for name in cluster.names[:RESTARTED]}
    await in_parallel(waited, lambda name: cluster.scale(job.ECHO, name, 8))
    span = await cluster.begin()
    async with process() as running:
        span.pid = running.pid
        seen: list[float] = []
        await running.until(
            _gather(seen, [observations.newer((job.DEPLOYMENT, each), old) for each, old in waited.items()])
        )
        span.read()
        phases["restart"] = replace(await span.phase(), first=round(min(seen) - span.began, 3))
    async with process(resyncs=False) as running:
        await running.until(_all_applied(cluster))
        names = cluster.names[:COUNTED]
        phases["patch"] = await _reactions(cluster, running.pid, names, cluster.react, settled=True)
        phases["repair"] = await _drifts(cluster, running.pid, names, cluster.repair, settled=True)
    return phases


async def _all_applied(cluster: MeasuredCluster) -> None:
    """Wait until the operator has applied everything once, as every operator does at its start."""
    wanted = (await cluster.requests()).total() + 2 * len(cluster.all_names)
    while (await cluster.requests(settled=True)).total() < wanted:
        pass


async def _gather(into: list[float], awaitables: Sequence[Awaitable[float]]) -> None:
    into += await asyncio.gather(*awaitables)


async def _reactions(
    cluster: MeasuredCluster, pid: int, names: Sequence[str], react: _React, *, settled: bool = False
) -> Phase:
    span = await cluster.begin(pid)
    latencies = []
    for name, replicas in zip(names, itertools.cycle((4, 5, 6, 7)), strict=False):
        latencies.append(await react(name, replicas))
        await asyncio.sleep(SPACE)
    span.read()
    return replace(await span.phase(settled=settled), latency=Latency.of(latencies))


async def _drifts(
    cluster: MeasuredCluster,
    pid: int,
    names: Sequence[str],
    repair: Callable[[str], Awaitable[float]],
    *,
    settled: bool = False,
) -> Phase:
    span = await cluster.begin(pid)
    latencies = []
    for name in names:
        latencies.append(await repair(name))
        await asyncio.sleep(SPACE)
    span.read()
    return replace(await span.phase(settled=settled), latency=Latency.of(latencies))


async def _burst(cluster: MeasuredCluster, running: Process) -> Phase:
    observations = cluster.observations
    span = await cluster.begin(running.pid)
    seen = [
        observations.newer((job.DEPLOYMENT, name), observations.generations[job.DEPLOYMENT, name])
        for name in cluster.names
    ]
    probing = asyncio.create_task(_probe(cluster))
    started = await in_parallel(cluster.names, lambda name: _scaled(cluster, name))
    times: list[float] = []
    probes: list[float] = []
    await running.until(_gather(times, seen))
    await running.until(_gather(probes, await probing))
    await running.until(observations.statuses(cluster.all_names))
    span.read()
    statuses = time.perf_counter() - span.began
    latencies = [time - start for time, start in zip(times, started, strict=True)]
    return replace(
        await span.phase(),
        seconds=round(max(times) - span.began, 3),
        statuses=round(statuses, 3),
        latency=Latency.of(latencies),
        probes=Latency.of(probes),
    )


async def _probe(cluster: MeasuredCluster) -> list[asyncio.Task[float]]:
    """Patch the probes, one every `PROBING` seconds, without waiting for earlier reactions."""
    reactions = []
    for name in cluster.probes:
        await asyncio.sleep(PROBING)
        reactions.append(asyncio.create_task(cluster.react(name, 9)))
    return reactions


async def _scaled(cluster: MeasuredCluster, name: str) -> float:
    started = time.perf_counter()
    await cluster.scale(job.ECHO, name, 3)
    return started


async def _check(cluster: MeasuredCluster) -> None:
    """Raises RuntimeError unless one Echo's children have the expected fields."""
    name = cluster.names[-1]
    for kind, body in job.children(name, 1, cluster.uids[name]).items():
        wanted = job.decoded(body)
        # kube-rs's own function for owner references leaves it out.
        del wanted["metadata"]["ownerReferences"][0]["blockOwnerDeletion"]
        live = (await cluster.server.client.get(cluster.server.resources[kind], name, job.NAMESPACE)).body
        if not _holds(live, wanted):
            raise RuntimeError(f"the {kind} of {name} lacks expected fields: {live}")


def _holds(live: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(key in live and _holds(live[key], item) for key, item in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_holds, live, wanted))
    return live == wanted


async def _raw(cluster: MeasuredCluster) -> dict[str, Phase]:
    server, observations = cluster.server, cluster.observations
    pid = os.getpid()

    def apply(kind: GroupKind, name: str, body: bytes, subresource: str = "") -> Request:
        resource = server.resources[kind]
        options = calls.ApplyOptions(subresource=subresource, manager=MANAGER)
        return calls.apply(resource, job.NAMESPACE, name, body, options)

    def child(kind: GroupKind, name: str, replicas: int) -> Request:
        return apply(kind, name, job.children(name, replicas, cluster.uids[name])[kind])

    def status(name: str, generation: int, replicas: int) -> Request:
        return apply(job.ECHO, name, job.status(name, generation, replicas), "status")

    async def send(request: Request) -> None:
        (made,) = server.prepared([request])
        await server.send(made)

    phases: dict[str, Phase] = {}
    children = server.prepared(
        [child(kind, name, 1) for name in cluster.all_names for kind in (job.DEPLOYMENT, job.SERVICE)]
    )
    statuses = server.prepared([status(name, 1, 1) for name in cluster.all_names])
    span = await cluster.begin(pid)
    await in_parallel(children, server.send)
    seconds = time.perf_counter() - span.began
    await in_parallel(statuses, server.send)
    span.read()
    phases["cold"] = await span.phase()
    phases["cold"] = replace(phases["cold"], statuses=phases["cold"].seconds, seconds=round(seconds, 3))

    if cluster.sizes.only_cold:
        return phases

    async def react(name: str, replicas: int) -> float:
        seen = observations.newer((job.ECHO, name), observations.generations[job.ECHO, name])
        made = observations.newer((job.DEPLOYMENT, name), observations.generations[job.DEPLOYMENT, name])
        started = time.perf_counter()
        await cluster.scale(job.ECHO, name, replicas)
        await seen
        await send(child(job.DEPLOYMENT, name, replicas))
        await send(status(name, observations.generations[job.ECHO, name], replicas))
        return await made - started

    async def repair(name: str) -> float:
        old = observations.generations[job.DEPLOYMENT, name]
        changed, repaired = (observations.newer((job.DEPLOYMENT, name), old + more) for more in (0, 1))
        started = time.perf_counter()
        await cluster.scale(job.DEPLOYMENT, name, DRIFT_REPLICAS)
        await changed
        await send(child(job.DEPLOYMENT, name, 1))
        return await repaired - started

    phases["reaction"] = await _reactions(cluster, pid, cluster.samples(0), react)
    phases["drift"] = await _drifts(cluster, pid, cluster.samples(1), repair)

    seen = {
        name: observations.newer((job.DEPLOYMENT, name), observations.generations[job.DEPLOYMENT, name])
        for name in cluster.names
    }

    async def change(name: str) -> float:
        started = time.perf_counter()
        await cluster.scale(job.ECHO, name, 3)
        await send(child(job.DEPLOYMENT, name, 3))
        await send(status(name, observations.generations[job.ECHO, name] + 1, 3))
        return started

    span = await cluster.begin(pid)
    started = await in_parallel(cluster.names, change)
    times = [await seen[name] for name in cluster.names]
    span.read()
    latencies = [time - start for time, start in zip(times, started, strict=True)]
    phases["burst"] = await span.phase()
    phases["burst"] = replace(
        phases["burst"],
        seconds=round(max(times) - span.began, 3),
        statuses=phases["burst"].seconds,
        latency=Latency.of(latencies),
    )
    turns = itertools.islice(itertools.cycle(cluster.names), int(cluster.sizes.idle * RESYNCS / 2))
    resyncs = server.prepared([child(kind, name, 3) for name in turns for kind in (job.DEPLOYMENT, job.SERVICE)])
    await observations.quiet(SETTLED)
    span = await cluster.begin(pid)
    for pair in zip(resyncs[::2], resyncs[1::2], strict=True):
        await asyncio.gather(*map(server.send, pair))
        await asyncio.sleep(2 / RESYNCS)
    span.read()
    phases["idle"] = await span.phase()
    return phases
