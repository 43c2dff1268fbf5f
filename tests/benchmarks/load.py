"""`python -m tests.benchmarks load`: a user's change beside much other work, and the cost of a bad template.

Promises:
- A reaction is the time from a change of one Echo's spec to the event of its Deployment with that change, seen by a
  watch. All reactions of a run are on the same API server with the same operator: at rest, while all parents resync
  because their template was saved, and while another namespace has a burst of changes.
- A reaction during a load counts only if the load lasts longer than the reaction.
- For a bad template the writes of children and statuses are counted from its save on, in windows of a minute, and the
  lines of the log. The number of parents differs between two runs, on API servers of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from tests.benchmarks import workload
from tests.benchmarks.bench import Bench, bench
from tests.benchmarks.machine import Spread
from tests.benchmarks.server import in_parallel

USER, TENANT = "user", "tenant"
DEPLOYMENT = GroupKind("apps", "Deployment")
REACTIONS = 10
BURST = 1000
WINDOW = 60.0
NAME = "  name: {{ name }}\n"
ANNOTATION = NAME + '  annotations:\n    example.com/saved: "1"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Reactions:
    """The seconds of reactions at rest, during a resync of all parents and during another namespace's burst."""

    rest: Spread
    resync: Spread
    burst: Spread


class Watched:
    """Deployments as a watch shows them."""

    def __init__(self) -> None:
        self._wanted: Callable[[LiveObject], bool] = lambda _: False
        self._seen = asyncio.Event()

    def see(self, _: LiveObject | None, live: LiveObject | None) -> None:
        if live is not None and self._wanted(live):
            self._seen.set()

    def expect(self, wanted: Callable[[LiveObject], bool]) -> asyncio.Event:
        """An event that is set when a Deployment is seen as wanted."""
        self._wanted, self._seen = wanted, asyncio.Event()
        return self._seen


class User:
    """Changes one Echo, and sees when the operator has changed its Deployment."""

    def __init__(self, stage: Bench, watched: Watched) -> None:
        self._stage = stage
        self._watched = watched
        self._replicas = itertools.count(100)

    async def reaction(self, name: str) -> float:
        """The seconds of one reaction."""
        replicas = next(self._replicas)
        seen = self._watched.expect(
            lambda live: live.identity.name == name and live.body["spec"]["replicas"] == replicas
        )
        started = time.perf_counter()
        await _change(self._stage, USER, name, replicas)
        await seen.wait()
        return time.perf_counter() - started

    async def reactions(self, busy: _Load | None = None) -> list[float]:
        """Several reactions; those during a load only while it lasts."""
        found = []
        for number in range(REACTIONS):
            seconds = await self.reaction(f"echo-{number:05}")
            if busy is not None and busy.ended.is_set():
                break
            found.append(seconds)
            await asyncio.sleep(0.1)
        return found


async def _change(stage: Bench, namespace: str, name: str, replicas: int) -> None:
    patch = encode({"spec": {"replicas": replicas}})
    echos = stage.server.resources[workload.ECHO]
    await stage.server.client.send(calls.merge_patch(echos, namespace, name, patch))


async def measure(parents: int, burst: int) -> Reactions:
    """The reactions with so many parents in each of two namespaces; `burst` of them change at once."""
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        template = templates / workload.FOLDER / "deployment.yaml.j2"
        async with bench(templates) as stage:
            for namespace, count in ((USER, REACTIONS), (TENANT, parents)):
                await stage.server.create_namespace(namespace)
                await stage.create(namespace, [f"echo-{number:05}" for number in range(count)])
            options = (f"--namespace={TENANT}",)
            async with stage.operator(USER, *options, log="load") as operator, stage.watched(TENANT) as progress:
                await operator.until(progress.reach(parents))
                watched, cache = Watched(), Cache()
                cache.listen(watched.see)
                reflector = Reflector(stage.server.client, Scope(stage.server.resources[DEPLOYMENT], USER), cache)
                watching = asyncio.create_task(reflector.run())
                await reflector.synced_or_unavailable()
                user = User(stage, watched)
                rest = await user.reactions()
                save = _Load(stage, parents, lambda live: live.metadata.annotations.get("example.com/saved") == "1")
                async with save.watched():
                    text = await asyncio.to_thread(template.read_text)
                    await asyncio.to_thread(template.write_text, text.replace(NAME, ANNOTATION, 1))
                    await operator.until(save.begun.wait())
                    resync = await user.reactions(save)
                    await operator.until(save.ended.wait())
                many = _Load(stage, min(burst, parents), lambda live: bool(live.body["spec"]["replicas"] == 77))
                async with many.watched():
                    changing = asyncio.create_task(_burst(stage, min(burst, parents)))
                    await operator.until(many.begun.wait())
                    during = await user.reactions(many)
                    await changing
                    await operator.until(many.ended.wait())
                watching.cancel()
                await asyncio.wait([watching])
        return Reactions(rest=Spread.of(rest), resync=Spread.of(resync), burst=Spread.of(during))


class _Load:
    """Changes of many Deployments of the tenant. `begun` is set when the first one is seen as wanted, `ended` when all
    are.
    """

    def __init__(self, stage: Bench, count: int, wanted: Callable[[LiveObject], bool]) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self._left = {f"echo-{number:05}" for number in range(count)}
        self._wanted = wanted
        cache = Cache()
        cache.listen(self._see)
        self._reflector = Reflector(stage.server.client, Scope(stage.server.resources[DEPLOYMENT], TENANT), cache)

    def _see(self, _: LiveObject | None, live: LiveObject | None) -> None:
        if live is not None and self._wanted(live):
            self.begun.set()
            self._left.discard(live.identity.name)
            if not self._left:
                self.ended.set()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Watch the Deployments while the block runs."""
        watching = asyncio.create_task(self._reflector.run())
        await self._reflector.synced_or_unavailable()
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])


async def _burst(stage: Bench, count: int) -> None:
    """Change so many Echos of the tenant as fast as the API server accepts it."""
    await in_parallel(range(count), lambda number: _change(stage, TENANT, f"echo-{number:05}", 77))


@dataclass(frozen=True, slots=True, kw_only=True)
class BadTemplate:
    """What a template that can't be rendered costs with so many parents: writes and log lines of each minute after its
    save."""

    parents: int
    writes: tuple[int, ...]
    lines: tuple[int, ...]


async def bad_template(parents: int, minutes: int = 2) -> BadTemplate:
    """Save a template that fails for every parent, and count."""
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        template = templates / workload.FOLDER / "deployment.yaml.j2"
        async with bench(templates) as stage:
            await stage.server.create_namespace(TENANT)
            await stage.create(TENANT, [f"echo-{number:05}" for number in range(parents)])
            log = templates.with_name("bad.log")
            options = ("--resync-rate=20", "--interval=10s")
            async with stage.operator(TENANT, *options, log="bad") as operator:
                async with stage.watched(TENANT) as progress:
                    await operator.until(progress.reach(parents))
                text = await asyncio.to_thread(template.read_text)
                bad = text.replace("{{ spec.replicas }}", "{{ spec.replicas / 0 }}")
                writes, lines = [], []
                before, lines_before = (await stage.server.count()).writes.total(), _lines(log)
                await asyncio.to_thread(template.write_text, bad)
                for _ in range(minutes):
                    await asyncio.sleep(WINDOW)
                    count, lines_now = (await stage.server.count()).writes.total(), _lines(log)
                    writes.append(count - before)
                    lines.append(lines_now - lines_before)
                    before, lines_before = count, lines_now
    return BadTemplate(parents=parents, writes=tuple(writes), lines=tuple(lines))


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks load", description=__doc__)
    parser.add_argument("--parents", type=int, default=10000, help="Echos of two children each")
    parser.add_argument("--burst", type=int, default=BURST, help="the Echos that another namespace changes at once")
    parser.add_argument("--only", choices=("reactions", "bad-template"), help="only this part")
    options = parser.parse_args()
    if options.only != "bad-template":
        found = asyncio.run(measure(options.parents, options.burst))
        print(f"A user's change beside {options.parents} parents of another namespace, milliseconds, median (range)")
        for name, spread in (
            ("at rest", found.rest),
            ("while all of them resync with a saved template", found.resync),
            (f"while {min(options.burst, options.parents)} of them change at once", found.burst),
        ):
            low, middle, high = (f"{each * 1e3:.0f}" for each in (spread.min, spread.median, spread.max))
            print(f"  {name}: {middle} ({low} to {high}), {spread.median / found.rest.median:.1f} times as at rest")
    if options.only != "reactions":
        for parents in (max(options.parents // 10, 1), options.parents):
            bad = asyncio.run(bad_template(parents))
            print(
                f"A template that fails for {parents} parents, in each minute after its save: "
                f"{', '.join(map(str, bad.writes))} writes, {', '.join(map(str, bad.lines))} lines of the log"
            )


if __name__ == "__main__":
    main()
