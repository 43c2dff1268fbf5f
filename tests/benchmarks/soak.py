"""`python -m tests.benchmarks soak`: whether an operator that runs for long grows.

Users create, change and delete Echos all the time, delete and change children, and save templates. The API server is
restarted three times. Meanwhile the operator's memory, file descriptors, threads and tasks are sampled.

Promises:
- The number of Echos stays the same, so a figure that grows is a leak. A quarter of the time is a warm-up.
- The command ends with 1 if the trend of a figure (`tests/benchmarks/trend.py`) grows by more than TOLERANCE after the
  warm-up, if an Echo does not converge in the end, or if the log has a traceback.
- Tasks are those that SIGUSR1 writes into the operator's log.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import DeleteOptions
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from tests.benchmarks import heap, machine, workload
from tests.benchmarks.bench import Bench, bench
from tests.benchmarks.process import Process, environment
from tests.benchmarks.trend import growth, tenths

NAMESPACE = "soak"
DEPLOYMENT = GroupKind("apps", "Deployment")
PARENTS = 200
RESTARTS = 3
SAMPLES = 60
WARM_UP = 0.25
"""The share of the time after which samples count."""
CHANGES = 5
"""Rounds a second. In each, an Echo is created, one is changed, one is deleted and a Deployment is changed."""
SHOWN = 12
"""Types of objects that are printed."""
SAVE_INTERVAL = 20.0
"""Seconds between two saves of a template, each with a change for all Deployments."""

TOLERANCE: Mapping[str, float] = {"memory, MiB": 8.0, "file descriptors": 20.0, "threads": 2.0, "tasks": 20.0}
"""By how much a figure may grow from the end of the warm-up to the end.

Memory: the bounded caches of Events take some 5 MiB until they are full, which is after 4 096 Echos; the rest is the
allocator's. Descriptors are mostly idle connections, and tasks are mostly requests: both come and go with what 16
workers do. A leak of one for each Echo would show a thousand after four minutes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The figures of the operator at one moment, in seconds since the start. `types` has the number and bytes of the
    objects of each type, at the first sample after the warm-up and at the last one.
    """

    at: float
    figures: Mapping[str, float]
    types: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class Churn:
    """What users do to the Echos of a namespace. `done` counts it; a request that fails is counted and not repeated."""

    def __init__(self, stage: Bench, template: Path) -> None:
        self.done: Counter[str] = Counter()
        self.uids: dict[str, str] = {}
        """The uids of the Echos that exist, by name; the oldest one comes first."""
        self._stage = stage
        self._template = template
        self._text = template.read_text()

    async def run(self) -> None:
        """Change objects until cancelled."""
        for turn in itertools.count():
            started = time.monotonic()
            await self._create(f"echo-{PARENTS + turn:06}", turn % 10)
            names = list(self.uids)
            await self._change("changed", workload.ECHO, names[turn % 50], turn % 7)
            await self._change("children changed", DEPLOYMENT, names[50 + turn % 50], 30 + turn % 7)
            if turn % 10 == 0:
                await self._delete_child(names[100])
            if len(names) > PARENTS:
                await self._delete(names[0])
            await asyncio.sleep(max(0.0, 1 / CHANGES - (time.monotonic() - started)))

    async def _create(self, name: str, replicas: int) -> None:
        client, echos = self._stage.server.client, self._stage.server.resources[workload.ECHO]
        with self._counted("created"):
            body = encode(workload.echo(name, NAMESPACE, replicas))
            self.uids[name] = (await client.create(echos, NAMESPACE, body)).live.uid

    async def _change(self, what: str, kind: GroupKind, name: str, replicas: int) -> None:
        patch = encode({"spec": {"replicas": replicas}})
        with self._counted(what):
            request = calls.merge_patch(self._stage.server.resources[kind], NAMESPACE, name, patch)
            await self._stage.server.client.send(request)

    async def _delete_child(self, name: str) -> None:
        client, deployments = self._stage.server.client, self._stage.server.resources[DEPLOYMENT]
        with self._counted("children deleted"):
            live = await client.get(deployments, name, NAMESPACE)
            await client.delete(deployments, NAMESPACE, name, DeleteOptions(uid=live.uid))

    async def _delete(self, name: str) -> None:
        client, echos = self._stage.server.client, self._stage.server.resources[workload.ECHO]
        with self._counted("deleted"):
            await client.delete(echos, NAMESPACE, name, DeleteOptions(uid=self.uids[name]))
            del self.uids[name]

    async def save_templates(self) -> None:
        """Save the Deployment's template again and again until cancelled, each time with another annotation."""
        for turn in itertools.count(1):
            await asyncio.sleep(SAVE_INTERVAL)
            name = "  name: {{ name }}\n"
            annotation = f'{name}  annotations:\n    example.com/saved: "{turn % 5}"\n'
            await asyncio.to_thread(self._template.write_text, self._text.replace(name, annotation, 1))
            self.done["templates saved"] += 1

    @contextmanager
    def _counted(self, what: str) -> Iterator[None]:
        """Count what the block does, even if the API server fails meanwhile: it is restarted now and then."""
        try:
            yield
            self.done[what] += 1
        except ApiError:
            self.done["requests failed"] += 1


async def measure(minutes: float) -> tuple[list[Sample], Counter[str], list[str]]:
    """The samples, what was done, and what went wrong."""
    seconds = minutes * 60
    with tempfile.TemporaryDirectory(prefix="ssa-operator-soak-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        async with bench(templates) as stage:
            await stage.server.create_namespace(NAMESPACE)
            churn = Churn(stage, templates / workload.FOLDER / "deployment.yaml.j2")
            _, lives = await stage.create(NAMESPACE, [f"echo-{number:06}" for number in range(PARENTS)])
            churn.uids = {live.identity.name: live.uid for live in lives}
            log = templates.with_name("soak.log")
            async with _operator(stage, templates, log) as operator:
                async with stage.watched(NAMESPACE) as progress:
                    await operator.until(progress.reach(PARENTS))
                started = time.monotonic()
                tasks = [
                    asyncio.create_task(work)
                    for work in (churn.run(), churn.save_templates(), _restart(stage, seconds, churn.done))
                ]
                sampling = asyncio.create_task(_sample(operator.pid, log, started, seconds))
                try:
                    await operator.until(_first(sampling, tasks), seconds + 600)
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                problems = [] if await _converged(stage) else ["Echos did not converge"]
                text = await asyncio.to_thread(log.read_text)
                if "Traceback" in text:
                    problems.append("the log has a traceback:\n" + text[text.index("Traceback") :][:2000])
                return sampling.result(), churn.done, problems


def _operator(stage: Bench, templates: Path, log: Path) -> Process:
    """An operator with resyncs and metrics, which writes a census of its heap at SIGPROF."""
    options = [f"--templates={templates}", f"--kubeconfig={stage.server.kubeconfig}", f"--namespace={NAMESPACE}"]
    options += ["--resync-rate=20", "--interval=30s", "--listen=127.0.0.1:0"]
    variables = environment() | {heap.CENSUS: str(log.with_name("census.json")), "PYTHONPATH": str(workload.ROOT)}
    command = [sys.executable, "-m", "tests.benchmarks.heap", "run", *options]
    return Process(command, variables, log, stage.server.operators)


async def _first(sampling: asyncio.Task[list[Sample]], others: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the samples. Raises what any of the others raises."""
    done, _ = await asyncio.wait([sampling, *others], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _restart(stage: Bench, seconds: float, done: Counter[str]) -> None:
    """Restart the API server at equal distances."""
    for _ in range(RESTARTS):
        await asyncio.sleep(seconds / (RESTARTS + 1))
        await stage.server.restart()
        done["restarts of the API server"] += 1
    await asyncio.Event().wait()


async def _sample(pid: int, log: Path, started: float, seconds: float) -> list[Sample]:
    samples = []
    for number in range(1, SAMPLES + 1):
        await asyncio.sleep(max(0.0, started + number * seconds / SAMPLES - time.monotonic()))
        tasks = await _tasks(pid, log)
        figures = {
            "memory, MiB": machine.memory(pid),
            "file descriptors": await asyncio.to_thread(_entries, f"/proc/{pid}/fd"),
            "threads": await asyncio.to_thread(_entries, f"/proc/{pid}/task"),
            "tasks": tasks,
        }
        taken = number in (math.ceil(SAMPLES * WARM_UP) + 1, SAMPLES)
        types = await _census(pid, log.with_name("census.json")) if taken else {}
        samples.append(Sample(at=time.monotonic() - started, figures=figures, types=types))
    return samples


async def _census(pid: int, path: Path) -> Mapping[str, tuple[int, int]]:
    os.kill(pid, signal.SIGPROF)
    while not await asyncio.to_thread(path.exists):  # noqa: ASYNC110 - the census is a file
        await asyncio.sleep(0.2)
    found: Mapping[str, tuple[int, int]] = msgspec.json.decode(await asyncio.to_thread(path.read_bytes))["types"]
    await asyncio.to_thread(path.unlink)
    return found


def _entries(directory: str) -> int:
    return sum(1 for _ in Path(directory).iterdir())


async def _tasks(pid: int, log: Path) -> int:
    """The tasks in the dump that SIGUSR1 writes."""
    before = len(await asyncio.to_thread(log.read_bytes))
    os.kill(pid, signal.SIGUSR1)
    last = -1
    while True:
        await asyncio.sleep(0.2)
        text = (await asyncio.to_thread(log.read_bytes))[before:]
        found = text.count(b"SIGUSR1: task '")
        if found and found == last:
            return found
        last = found


async def _converged(stage: Bench) -> bool:
    """Whether all Echos converge after the changes have ended."""
    with suppress(TimeoutError):
        async with asyncio.timeout(180):
            while True:
                lives, _ = await stage.server.client.list(stage.server.resources[workload.ECHO], NAMESPACE)
                late = [
                    live
                    for live in lives
                    if (live.body.get("status") or {}).get("observedGeneration") != live.metadata.generation
                ]
                if not late:
                    return True
                await asyncio.sleep(1)
    return False


def show(samples: Sequence[Sample], console: Console) -> list[str]:
    """Print the figures; returns those that grow."""
    warm = [sample for sample in samples if sample.at >= samples[-1].at * WARM_UP]
    table = Table(title=f"{len(warm)} samples after a warm-up of {warm[0].at / 60:.1f} minutes")
    for title in ("", "at the start", "after the warm-up", "at the end", "smallest", "largest", "growth", "tolerance"):
        table.add_column(title, justify="right" if title else "left")
    growing = []
    for name, tolerance in TOLERANCE.items():
        values = [sample.figures[name] for sample in warm]
        trend = growth([(sample.at, sample.figures[name]) for sample in warm])
        ends = (samples[0].figures[name], values[0], values[-1], min(values), max(values))
        table.add_row(name, *(f"{value:.5g}" for value in ends), f"{trend:+.2f}", f"{tolerance:g}")
        if trend > tolerance:
            growing.append(f"{name} grows by {trend:.2f}")
    console.print(table)
    memory = [sample.figures["memory, MiB"] for sample in samples]
    console.print("Memory over the time, MiB: " + " ".join(f"{value:.0f}" for value in tenths(memory)))
    console.print("Objects that the heap has more of at the end, by bytes: " + ", ".join(_more_objects(samples)))
    return growing


def _more_objects(samples: Sequence[Sample]) -> list[str]:
    """The types whose objects need more bytes in the last census than in the first one, most first."""
    before, after = [sample.types for sample in samples if sample.types]
    more = {name: size - before.get(name, (0, 0))[1] for name, (_, size) in after.items()}
    return [
        f"{name} {size / 1024:+.0f} KiB ({after[name][0] - before.get(name, (0, 0))[0]:+d})"
        for name, size in sorted(more.items(), key=lambda entry: -entry[1])[:SHOWN]
        if size > 0
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long users change objects")
    options = parser.parse_args()
    samples, done, problems = asyncio.run(measure(options.minutes))
    console = Console(width=140)
    problems += show(samples, console)
    console.print(f"{PARENTS} Echos of 2 children, {options.minutes:g} minutes: ", end="")
    console.print(", ".join(f"{count} {what}" for what, count in done.items()))
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
