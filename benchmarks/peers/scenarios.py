"""What every contender goes through, in this order, on a new API server.

- cold: the Echos exist; from the start of the process until all children exist, and until all statuses are written.
- reaction: one Echo after the other gets another number of replicas; from the patch to the Deployment's new
  generation.
- drift: one Deployment after the other gets another number of replicas from a stranger; until it was changed back.
- burst: all Echos but the probes are patched, as fast as the API server takes it; until every Deployment has its new
  generation, and until every status speaks of it. Meanwhile the probes are patched, five a second: how long does a
  user wait behind a burst?
- idle: nothing happens for a while; what is sent nevertheless?
- restart: the process ended and some Echos were patched; from its new start to the first and the last reaction.
- patch, repair: once more started, now without ticks: what is sent for so many patches, and for so many drifts?

Promises:
- A phase begins when nothing was seen for SETTLED seconds. Operators that go through all they have again and again may
  well be busy then: that is how they are.
- Every operator is started once before there are Echos: the first start of a program is slow.
- The raw client is no operator: with what it has to do known beforehand, it sends what is needed and nothing else. It
  has no restart, patch and repair phase; in its idle phase it applies TICKS a second of what is there already.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import machine
from benchmarks.peers import job
from benchmarks.peers.contenders import RAW, Contender
from benchmarks.peers.ground import SPACE, STRANGER, Ground, Latency, Phase, Sizes, Span, prepared
from benchmarks.process import Process
from benchmarks.server import Server, in_parallel
from ssa_operator.controller.options import Options
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.request import Request

SETTLED = 2.0
RESTARTED = 5
PROBING = 0.2
COUNTED = 20
"""Patches and drifts whose requests are counted."""

TICKS = Options().tick_rate
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
    """One contender's round; None is the raw client. Raises RuntimeError where an operator does not do its job."""

    async def rehearse(server: Server) -> None:
        if contender is not None:
            async with _process(server, contender, scratch, ticks=True) as running:
                await _resting(running)

    async with prepared(sizes, rehearse) as ground:
        if contender is None:
            return Measurement(contender=RAW, phases=await _raw(ground))
        return await _operator(ground, contender, scratch)


def _process(server: Server, contender: Contender, scratch: Path, *, ticks: bool) -> Process:
    command, environment = contender.start(server.kubeconfig, ticks=ticks)
    return Process(command, environment, scratch / f"{contender.name}.log", server.operators)


async def _resting(running: Process) -> None:
    """Wait until a process that has nothing to do is started: its modules are compiled, its files are read."""
    used = -1.0
    while machine.used(running.pid) - used > RESTING:
        used = machine.used(running.pid)
        await asyncio.sleep(2)


async def _operator(ground: Ground, contender: Contender, scratch: Path) -> Measurement:
    def process(*, ticks: bool = True) -> Process:
        return _process(ground.server, contender, scratch, ticks=ticks)

    span = await ground.begin()
    async with process() as running:
        phases = {"cold": await _cold(ground, running, span)}
        if not ground.sizes.only_cold:
            phases |= await _warm(ground, running)
    peak = running.memory
    if not ground.sizes.only_cold:
        phases |= await _restarted(ground, process)
    return Measurement(contender=contender.name, peak=round(peak, 1), phases=phases)


async def _cold(ground: Ground, running: Process, span: Span) -> Phase:
    """`span` began before the process."""
    board = ground.board
    span.pid = running.pid
    await running.until(board.children(ground.all_parents_known))
    seconds = time.perf_counter() - span.began
    await running.until(board.statuses(ground.all_parents_known))
    span.read()
    statuses = time.perf_counter() - span.began
    await running.until(board.quiet(SETTLED))
    phase = replace(await span.phase(), seconds=round(seconds, 3), statuses=round(statuses, 3))
    await _check(ground)
    return phase


async def _warm(ground: Ground, running: Process) -> dict[str, Phase]:
    """What the process does that has gone through the cold start."""
    board = ground.board
    phases = {}
    await running.until(board.quiet(SETTLED))
    phases["reaction"] = await _reactions(ground, running.pid, ground.samples(0), ground.react)
    await running.until(board.quiet(SETTLED))
    phases["drift"] = await _drifts(ground, running.pid, ground.samples(1), ground.repair)
    await running.until(board.quiet(SETTLED))
    phases["burst"] = await _burst(ground, running)
    await running.until(board.quiet(SETTLED))
    span = await ground.begin(running.pid)
    await asyncio.sleep(ground.sizes.idle)
    span.read()
    phases["idle"] = await span.phase()
    return phases


async def _restarted(ground: Ground, process: Callable[..., Process]) -> dict[str, Phase]:
    """What new processes do, the second one without ticks."""
    board = ground.board
    phases = {}
    waited = {name: board.generations[job.DEPLOYMENT, name] for name in ground.names[:RESTARTED]}
    await in_parallel(waited, lambda name: ground.scale(job.ECHO, name, 8))
    span = await ground.begin()
    async with process() as running:
        span.pid = running.pid
        seen: list[float] = []
        await running.until(_gather(seen, [board.newer((job.DEPLOYMENT, each), old) for each, old in waited.items()]))
        span.read()
        phases["restart"] = replace(await span.phase(), first=round(min(seen) - span.began, 3))
    async with process(ticks=False) as running:
        await running.until(_looked_at(ground))
        names = ground.names[:COUNTED]
        phases["patch"] = await _reactions(ground, running.pid, names, ground.react, settled=True)
        phases["repair"] = await _drifts(ground, running.pid, names, ground.repair, settled=True)
    return phases


async def _looked_at(ground: Ground) -> None:
    """Every operator applies everything once when it starts; wait until that is over."""
    wanted = (await ground.requests()).total() + 2 * len(ground.all_parents_known)
    while (await ground.requests(settled=True)).total() < wanted:
        pass


async def _gather(into: list[float], awaitables: Sequence[Awaitable[float]]) -> None:
    into += await asyncio.gather(*awaitables)


async def _reactions(ground: Ground, pid: int, names: Sequence[str], react: _React, *, settled: bool = False) -> Phase:
    span = await ground.begin(pid)
    latencies = []
    for name, replicas in zip(names, itertools.cycle((4, 5, 6, 7)), strict=False):
        latencies.append(await react(name, replicas))
        await asyncio.sleep(SPACE)
    span.read()
    return replace(await span.phase(settled=settled), latency=Latency.of(latencies))


async def _drifts(
    ground: Ground, pid: int, names: Sequence[str], repair: Callable[[str], Awaitable[float]], *, settled: bool = False
) -> Phase:
    span = await ground.begin(pid)
    latencies = []
    for name in names:
        latencies.append(await repair(name))
        await asyncio.sleep(SPACE)
    span.read()
    return replace(await span.phase(settled=settled), latency=Latency.of(latencies))


async def _burst(ground: Ground, running: Process) -> Phase:
    board = ground.board
    span = await ground.begin(running.pid)
    seen = [board.newer((job.DEPLOYMENT, name), board.generations[job.DEPLOYMENT, name]) for name in ground.names]
    probing = asyncio.create_task(_probe(ground))
    started = await in_parallel(ground.names, lambda name: _scaled(ground, name))
    times: list[float] = []
    probes: list[float] = []
    await running.until(_gather(times, seen))
    await running.until(_gather(probes, await probing))
    await running.until(board.statuses(ground.all_parents_known))
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


async def _probe(ground: Ground) -> list[asyncio.Task[float]]:
    """Patch the probes, one every `PROBING` seconds, whether the ones before had their reactions or not."""
    reactions = []
    for name in ground.probes:
        await asyncio.sleep(PROBING)
        reactions.append(asyncio.create_task(ground.react(name, 9)))
    return reactions


async def _scaled(ground: Ground, name: str) -> float:
    started = time.perf_counter()
    await ground.scale(job.ECHO, name, 3)
    return started


async def _check(ground: Ground) -> None:
    """Raises RuntimeError unless some Echo's children are what they have to be."""
    name = ground.names[-1]
    for kind, body in job.children(name, 1, ground.uids[name]).items():
        wanted = job.decoded(body)
        # kube-rs's own function for owner references leaves it out.
        del wanted["metadata"]["ownerReferences"][0]["blockOwnerDeletion"]
        live = (await ground.server.client.get(ground.server.resources[kind], name, job.NAMESPACE)).body
        if not _holds(live, wanted):
            raise RuntimeError(f"the {kind} of {name} is not what it has to be: {live}")


def _holds(live: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(key in live and _holds(live[key], item) for key, item in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_holds, live, wanted))
    return live == wanted


async def _raw(ground: Ground) -> dict[str, Phase]:
    server, board = ground.server, ground.board
    pid = os.getpid()

    def apply(kind: GroupKind, name: str, body: bytes, subresource: str = "") -> Request:
        resource = server.resources[kind]
        options = calls.ApplyOptions(subresource=subresource, manager=MANAGER)
        return calls.apply(resource, job.NAMESPACE, name, body, options)

    def child(kind: GroupKind, name: str, replicas: int) -> Request:
        return apply(kind, name, job.children(name, replicas, ground.uids[name])[kind])

    def status(name: str, generation: int, replicas: int) -> Request:
        return apply(job.ECHO, name, job.status(name, generation, replicas), "status")

    async def send(request: Request) -> None:
        (made,) = server.prepared([request])
        await server.send(made)

    phases: dict[str, Phase] = {}
    children = server.prepared(
        [child(kind, name, 1) for name in ground.all_parents_known for kind in (job.DEPLOYMENT, job.SERVICE)]
    )
    statuses = server.prepared([status(name, 1, 1) for name in ground.all_parents_known])
    span = await ground.begin(pid)
    await in_parallel(children, server.send)
    seconds = time.perf_counter() - span.began
    await in_parallel(statuses, server.send)
    span.read()
    phases["cold"] = await span.phase()
    phases["cold"] = replace(phases["cold"], statuses=phases["cold"].seconds, seconds=round(seconds, 3))

    if ground.sizes.only_cold:
        return phases

    async def react(name: str, replicas: int) -> float:
        seen = board.newer((job.ECHO, name), board.generations[job.ECHO, name])
        made = board.newer((job.DEPLOYMENT, name), board.generations[job.DEPLOYMENT, name])
        started = time.perf_counter()
        await ground.scale(job.ECHO, name, replicas)
        await seen
        await send(child(job.DEPLOYMENT, name, replicas))
        await send(status(name, board.generations[job.ECHO, name], replicas))
        return await made - started

    async def repair(name: str) -> float:
        old = board.generations[job.DEPLOYMENT, name]
        changed, repaired = (board.newer((job.DEPLOYMENT, name), old + more) for more in (0, 1))
        started = time.perf_counter()
        await ground.scale(job.DEPLOYMENT, name, STRANGER)
        await changed
        await send(child(job.DEPLOYMENT, name, 1))
        return await repaired - started

    phases["reaction"] = await _reactions(ground, pid, ground.samples(0), react)
    phases["drift"] = await _drifts(ground, pid, ground.samples(1), repair)

    seen = {name: board.newer((job.DEPLOYMENT, name), board.generations[job.DEPLOYMENT, name]) for name in ground.names}

    async def change(name: str) -> float:
        started = time.perf_counter()
        await ground.scale(job.ECHO, name, 3)
        await send(child(job.DEPLOYMENT, name, 3))
        await send(status(name, board.generations[job.ECHO, name] + 1, 3))
        return started

    span = await ground.begin(pid)
    started = await in_parallel(ground.names, change)
    times = [await seen[name] for name in ground.names]
    span.read()
    latencies = [time - start for time, start in zip(times, started, strict=True)]
    phases["burst"] = await span.phase()
    phases["burst"] = replace(
        phases["burst"],
        seconds=round(max(times) - span.began, 3),
        statuses=phases["burst"].seconds,
        latency=Latency.of(latencies),
    )
    turns = itertools.islice(itertools.cycle(ground.names), int(ground.sizes.idle * TICKS / 2))
    ticks = server.prepared([child(kind, name, 3) for name in turns for kind in (job.DEPLOYMENT, job.SERVICE)])
    await board.quiet(SETTLED)
    span = await ground.begin(pid)
    for pair in zip(ticks[::2], ticks[1::2], strict=True):
        await asyncio.gather(*map(server.send, pair))
        await asyncio.sleep(2 / TICKS)
    span.read()
    phases["idle"] = await span.phase()
    return phases
