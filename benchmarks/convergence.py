"""Measures how long the operator takes to converge new Echos, beside a bare client that only sends the same writes.

Contenders, each with a new API server, one after the other in an order that changes with the round:
- raw: aiohttp alone, with requests made beforehand. The Echos exist; timed from the first apply to the last answer.
- client: the same requests through `ssa_operator.kube`, which adds pacing, retries and errors.
- cold: the Echos exist; timed from the start of the operator's process until the last Echo was seen converged.
- warm: the operator runs; timed from the first POST of an Echo until the last one was seen converged.
- start: cold with a single Echo: the cost of a process without work.

Promises:
- All contenders have the same API server: warmed up by a few Echos, and without those of the others, because more
  Services would slow down its search for a free cluster IP.
- No Deployment gets pods here, so no Echo becomes Ready. An Echo has converged once its status has its
  observedGeneration, which the operator writes after all children were applied.
- All contenders create the same objects: the benchmark compares one Echo and its children, and counts all children.
- The benchmark counts writes after a second without writes, so it includes those after the end of the clock.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from benchmarks import workload
from benchmarks.bench import Bench, bench
from benchmarks.machine import Spread
from benchmarks.server import in_parallel
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.manifest import MANAGED_BY_LABEL

WARM_UP = 50
"""Echos that the raw client converges before a contender: the first requests of an API server are slow."""

_WARM_UP = "warm-up"
_MANAGED = f"{MANAGED_BY_LABEL}={MANAGER}"


class Contender(StrEnum):
    """The client that converges the Echos, and the timed span; the module's docstring describes them."""

    RAW = "raw"
    CLIENT = "client"
    COLD = "cold"
    WARM = "warm"
    START = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One contender in one round; times in seconds.

    create: the POSTs of the Echos; they are within `seconds` for warm only. first: until the first Echo was seen
    converged, 0 where nobody looked. cpu: of the operator's process from start to end, for raw and client of this
    process while the clock ran. memory: the operator's largest resident set in MiB, 0 if there is none. others: how
    many cores anything else on the machine kept busy, which should be next to none. writes: how many the API server
    took, by what and where (`APPLY deployments.apps`).
    """

    contender: Contender
    parents: int
    create: float
    seconds: float
    first: float = 0.0
    cpu: float
    memory: float = 0.0
    apiserver_cpu: float
    others: float
    writes: Mapping[str, int]


Round = Mapping[Contender, Measurement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """Facts from a first start. children: of one Echo. sample: an Echo whose status was written."""

    kubernetes: str
    children: int
    sample: LiveObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """What all rounds say together, by contender, and the rounds themselves. `children` are those of one Echo.

    others: how many cores had something else to do, over all measurements: more than next to none makes all doubtful.
    share: of the raw client's speed, 1 being all of it; for warm the raw client's POSTs count as well. cpu_per_parent:
    milliseconds, without what a process costs before there is work. applies_per_child and status_writes_per_parent are
    of the worst round.
    """

    kubernetes: str
    parents: int
    children: int
    others: Spread
    seconds: Mapping[str, Spread]
    children_per_second: Mapping[str, Spread]
    share: Mapping[str, Spread]
    cpu_per_parent: Mapping[str, Spread]
    applies_per_child: Mapping[str, float]
    status_writes_per_parent: Mapping[str, float]
    rounds: tuple[tuple[Measurement, ...], ...]


async def measure(templates: Path, *, parents: int, rounds: int, shared: bool = False) -> Convergence:
    """Let all contenders converge `parents` Echos in each round. `templates` is of `workload.write_templates`. With
    `shared`, the contenders of a round have the same API server, which is sooner and less fair.

    Raises RuntimeError if a contender fails or creates other objects than the raw client, and the errors of a
    cluster's start.
    """
    done: list[Round] = []
    rehearsed = await rehearse(templates)
    for turn in range(rounds):
        order = [*Contender][turn % len(Contender) :] + [*Contender][: turn % len(Contender)]
        if shared:
            async with warmed_up(templates, rehearsed) as stage:
                done.append({each: await _measure(stage, each, parents, rehearsed.sample) for each in order})
        else:
            done.append({each: await once(templates, each, parents, rehearsed) for each in order})
    return _summary(rehearsed, parents, done)


async def rehearse(templates: Path) -> Rehearsal:
    """Start an operator once, which compiles its modules for the measured ones."""
    async with bench(templates) as stage:
        await _cold(stage, Contender.START, 1)
        sample = await stage.server.client.get(stage.server.resources[workload.ECHO], _name(0), Contender.START.value)
        return Rehearsal(kubernetes=await stage.server.version(), children=stage.children.total(), sample=sample)


async def once(templates: Path, contender: Contender, parents: int, rehearsed: Rehearsal) -> Measurement:
    """One contender, on an API server of its own. Raises what `measure` raises."""
    async with warmed_up(templates, rehearsed) as stage:
        return await _measure(stage, contender, parents, rehearsed.sample)


@asynccontextmanager
async def warmed_up(templates: Path, rehearsed: Rehearsal) -> AsyncIterator[Bench]:
    """An API server that has answered its first requests."""
    async with bench(templates) as stage:
        await _send(stage, Contender.RAW, _WARM_UP, WARM_UP, rehearsed.sample)
        yield stage


async def _measure(stage: Bench, contender: Contender, parents: int, sample: LiveObject) -> Measurement:
    namespace = contender.value
    match contender:
        case Contender.RAW | Contender.CLIENT:
            made = await _send(stage, contender, namespace, parents, sample)
        case Contender.COLD:
            made = await _cold(stage, contender, parents)
        case Contender.START:
            made = await _cold(stage, contender, 1)
        case Contender.WARM:
            made = await _warm(stage, parents)
    await _check(stage, namespace, made.parents + (contender is Contender.WARM))
    return made


async def _send(stage: Bench, contender: Contender, namespace: str, parents: int, sample: LiveObject) -> Measurement:
    await stage.server.create_namespace(namespace)
    create, lives = await stage.create(namespace, _names(parents))
    requests = [each for live in lives for each in workload.writes(stage.folder, live, stage.server.resources, sample)]
    prepared = stage.server.prepared(requests)
    before = await stage.server.count()
    started, used = time.perf_counter(), time.process_time()
    if contender is Contender.RAW:
        await in_parallel(prepared, stage.server.send)
    else:
        await in_parallel(requests, stage.server.client.send)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    counted = (await stage.server.settled()).since(before)
    return Measurement(
        contender=contender,
        parents=parents,
        create=round(create, 3),
        seconds=round(seconds, 3),
        cpu=round(used, 3),
        apiserver_cpu=round(counted.cpu, 2),
        others=round(counted.busy_others, 2),
        writes=counted.writes,
    )


async def _cold(stage: Bench, contender: Contender, parents: int) -> Measurement:
    namespace = contender.value
    await stage.server.create_namespace(namespace)
    create, _ = await stage.create(namespace, _names(parents))
    async with stage.watched(namespace) as progress:
        before = await stage.server.count()
        started = time.perf_counter()
        async with stage.operator(namespace) as operator:
            await operator.until(progress.reach(parents))
            counted = (await stage.server.settled()).since(before)
    times = progress.times.values()
    return Measurement(
        contender=contender,
        parents=parents,
        create=round(create, 3),
        seconds=round(max(times) - started, 3),
        first=round(min(times) - started, 3),
        cpu=round(operator.cpu, 3),
        memory=round(operator.memory, 1),
        apiserver_cpu=round(counted.cpu, 2),
        others=round(counted.busy_others, 2),
        writes=counted.writes,
    )


async def _warm(stage: Bench, parents: int) -> Measurement:
    """One Echo that converges before the others exist proves that the operator runs and watches."""
    namespace = Contender.WARM.value
    await stage.server.create_namespace(namespace)
    await stage.create(namespace, ["before"])
    async with stage.watched(namespace) as progress, stage.operator(namespace) as operator:
        await operator.until(progress.reach(1))
        before = await stage.server.settled()
        started = time.perf_counter()
        create, _ = await stage.create(namespace, _names(parents))
        await operator.until(progress.reach(parents + 1))
        counted = (await stage.server.settled()).since(before)
    _, *times = sorted(progress.times.values())
    return Measurement(
        contender=Contender.WARM,
        parents=parents,
        create=round(create, 3),
        seconds=round(times[-1] - started, 3),
        first=round(times[0] - started, 3),
        cpu=round(operator.cpu, 3),
        memory=round(operator.memory, 1),
        apiserver_cpu=round(counted.cpu, 2),
        others=round(counted.busy_others, 2),
        writes=counted.writes,
    )


async def _check(stage: Bench, namespace: str, parents: int) -> None:
    """Raises RuntimeError unless every Echo has its children, and the first one those of the warm-up's."""
    for kind, count in stage.children.items():
        found, _ = await stage.server.client.list(stage.server.resources[kind], namespace, _MANAGED)
        if len(found) != parents * count:
            raise RuntimeError(f"{namespace}: there are {len(found)} {kind} instead of {parents * count}")
    made, wanted = await stage.made(namespace, _name(0)), await stage.made(_WARM_UP, _name(0))
    if made != wanted:
        raise RuntimeError(f"{namespace}: the objects are not those of the raw client:\n{made}\n{wanted}")


def _names(count: int) -> list[str]:
    return [_name(number) for number in range(count)]


def _name(number: int) -> str:
    return f"echo-{number:05}"


def _summary(rehearsed: Rehearsal, parents: int, rounds: list[Round]) -> Convergence:
    children = rehearsed.children
    compared = (Contender.RAW, Contender.CLIENT, Contender.COLD, Contender.WARM)
    operators = (Contender.COLD, Contender.WARM)

    def spreads(figure: Callable[[Round, Measurement], float], *contenders: Contender) -> dict[str, Spread]:
        return {each.value: Spread.of(figure(done, done[each]) for done in rounds) for each in contenders}

    def most(figure: Callable[[Measurement], float]) -> dict[str, float]:
        return {each.value: max(figure(done[each]) for done in rounds) for each in operators}

    return Convergence(
        kubernetes=rehearsed.kubernetes,
        parents=parents,
        children=children,
        others=Spread.of(made.others for done in rounds for made in done.values()),
        seconds=spreads(lambda _, made: made.seconds, *Contender),
        children_per_second=spreads(lambda _, made: children * made.parents / made.seconds, *compared),
        share=spreads(_share, *compared[1:]),
        cpu_per_parent=spreads(lambda done, made: _cpu_per_parent(done, made) * 1e3, *compared),
        applies_per_child=most(lambda made: writes(made, children=True) / (children * made.parents)),
        status_writes_per_parent=most(lambda made: writes(made, children=False) / made.parents),
        rounds=tuple(tuple(done.values()) for done in rounds),
    )


def _share(done: Round, made: Measurement) -> float:
    raw = done[Contender.RAW]
    limit = raw.create + raw.seconds if made.contender is Contender.WARM else raw.seconds
    return limit / made.seconds


def _cpu_per_parent(done: Round, made: Measurement) -> float:
    start = done[Contender.START]
    operates = made.contender in (Contender.COLD, Contender.WARM)
    return (made.cpu - start.cpu) / made.parents if operates else made.cpu / made.parents


def writes(made: Measurement, *, children: bool) -> int:
    """The writes to children, or those to the status of Echos."""
    own = f"{workload.FOLDER}/status"
    return sum(
        count
        for what, count in made.writes.items()
        if (workload.FOLDER not in what if children else what.endswith(own))
    )
