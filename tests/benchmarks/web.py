"""`python -m tests.benchmarks web`: what the web view costs the browser and the operator.

Promises:
- A parent with many children is compared with one that has ten: the time until the page shows its first line, and the
  elements of the page. Pauses of the page while it scrolls through all lines are counted, from its first portion on;
  the longest task is given by its CPU, because a machine with other work stretches each.
- A search over many parents is compared with the time in which the same rows are written as JSON once.
- Pages that are open while nothing changes are compared with one page, by the CPU of the process that serves them.
- All of it is measured without a cluster: the pages and their streams are those of the operator, their objects are made
  up. The ratios don't depend on the machine's speed of the hour.
- `--operator` alone measures an operator's process on an API server: a user's change until its Deployment has it, with
  open pages and without in turns, and the CPU and bytes of pages while the parents rest.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime as dt
import gzip
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import msgspec
from aiohttp import web
from playwright.async_api import async_playwright
from rich.console import Console
from rich.table import Table

from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.web.event_stream import PAUSE, EventStreams, paced
from ssa_operator.web.overview import INTERVAL, FigureSamples, make_overview
from ssa_operator.web.parent_page import portions
from ssa_operator.web.parent_rows import Filter, ParentRows
from ssa_operator.web.routes import ROOT, STATIC, read_assets
from tests.benchmarks import load, machine, workload
from tests.benchmarks.bench import bench
from tests.benchmarks.machine import Spread

FOLDER = "echoes.example.com"
PAUSE_MILLISECONDS = 50
"""A task of the page that takes longer is a pause that a reader may see."""

RESYNC = 600
"""Seconds in which an operator reconciles each parent at rest."""

_WATCH = """
window.shown = 0; window.pauses = [];
new PerformanceObserver((list) => pauses.push(...list.getEntries().map((each) => each.duration)))
  .observe({ type: "longtask" });
new MutationObserver(() => {
  if (!shown && document.querySelector("[role=treeitem]")) requestAnimationFrame(() => (shown = performance.now()));
}).observe(document, { childList: true, subtree: true });
"""

_SCROLL = """async () => {
  const box = document.querySelector("[role=tree]");
  const frame = () => new Promise((next) => requestAnimationFrame(next));
  let most = 0;
  await frame();
  pauses.length = 0;
  performance.mark("begin");
  for (let whole = false; !whole;) {
    whole = !document.querySelector(".facts").textContent.includes("reading");
    for (let step = 0; step <= 100; step++) {
      box.scrollTop = (box.scrollHeight * step) / 100;
      await frame();
      most = Math.max(most, document.querySelectorAll("*").length);
    }
  }
  await frame();
  performance.mark("end");
  return { elements: most, pauses: pauses.filter((each) => each > LIMIT).length };
}""".replace("LIMIT", str(PAUSE_MILLISECONDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How a browser shows a parent."""

    milliseconds: float
    """From the begin of the navigation to the frame with the first child."""
    elements: int
    """The most elements that the page had while it scrolled."""
    pauses: int
    """Tasks of more than PAUSE_MILLISECONDS while it scrolled."""
    longest: float
    """Milliseconds of CPU of the longest of its tasks meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run."""

    date: str
    machine: Mapping[str, Any]
    page_bytes: int
    """All files of the page, compressed."""
    children: int
    many: Shown
    few: Shown
    """The same page with ten children."""
    parents: int
    search: Spread
    """Milliseconds of one search."""
    encode: Spread
    """Milliseconds in which all rows are written as JSON."""
    pages: int
    one_page_cpu: float
    """The part of a core that one open page takes while nothing changes."""
    all_pages_cpu: float
    bytes_per_second: float
    """What a page gets."""

    @property
    def wait(self) -> float:
        """How many milliseconds the many children take beyond the few."""
        return round(self.many.milliseconds - self.few.milliseconds, 1)

    @property
    def search_ratio(self) -> float:
        return round(self.search.median / self.encode.median, 2)


def tree(children: int) -> dict[str, Any]:
    """A parent with children of different names, some of which are not ready, so that none are folded."""
    nodes = {
        f"/ConfigMap/default/web-{number:05}": {
            "kind": "ConfigMap" if number % 2 else f"Kind{number}",
            "namespace": "default",
            "name": f"web-{number:05}",
            "uid": str(number),
            "state": "InProgress",
            "message": "1 of 2 replicas are ready" if number % 7 == 0 else "",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "depth": 1,
        }
        for number in range(children)
    }
    parent = {"group": "example.com", "kind": "Echo", "namespace": "default", "name": "web", "uid": "0"}
    return {
        "parent": {**parent, "creationTimestamp": "2026-01-01T00:00:00Z", "conditions": []},
        "nodes": nodes,
        "order": list(nodes),
        "notes": [],
        "timeline": {},
    }


@contextlib.asynccontextmanager
async def serving(*routes: web.RouteDef) -> AsyncIterator[str]:
    """A server of routes on a free port of this host; its address."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def page_routes(answers: Mapping[str, Any]) -> list[web.RouteDef]:
    """The files of the page, and what it reads once: the JSON by the last word of its path."""
    assets = read_assets()

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=assets["index.html"].body.replace(ROOT, b"/ui/"), content_type="text/html")

    async def asset(request: web.Request) -> web.Response:
        found = assets[request.match_info["file"]]
        return web.Response(body=found.body, content_type=found.content_type)

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(answers.get(request.path.rpartition("/")[2], {}))

    return [web.get("/ui/assets/{file}", asset), web.get("/ui/{page:.*}", page), web.get("/api/v1/{path:.*}", answer)]


def parent_routes(children: int) -> list[web.RouteDef]:
    """The files of the page, and the JSON of one parent."""
    value = tree(children)

    async def answer(request: web.Request) -> web.StreamResponse:
        async def values() -> AsyncIterator[dict[str, Any]]:
            for portion in portions(value):
                yield portion
                await asyncio.sleep(PAUSE)
            await asyncio.Event().wait()

        return await EventStreams().send(request, cast("Any", values()), _no_review, "reader")

    answers = {"reader": {"user": "", "cluster": "in-cluster"}, "edges": {"edges": [], "objects": {}, "problems": []}}
    return [web.get(f"/api/v1/parents/{FOLDER}/default/web", answer), *page_routes(answers)]


async def _no_review() -> None:
    pass


async def shown(children: int, browser: str | None) -> Shown:
    """How a browser shows a parent with so many children; None is the browser of Playwright."""
    async with serving(*parent_routes(children)) as base, async_playwright() as playwright:
        # No sandbox of its own: it may run as root in a container, and loads nothing but this page.
        running = await playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        try:
            page = await running.new_page(viewport={"width": 1440, "height": 900})
            await page.add_init_script(_WATCH)
            await running.start_tracing(page=page, categories=["toplevel", "blink.user_timing"])
            await page.goto(f"{base}/ui/parents/{FOLDER}/default/web")
            milliseconds = await (await page.wait_for_function("window.shown")).json_value()
            scrolled = await page.evaluate(_SCROLL)
            longest = _longest_task(msgspec.json.decode(await running.stop_tracing())["traceEvents"])
        finally:
            await running.close()
    return Shown(
        milliseconds=round(milliseconds, 1), elements=scrolled["elements"], pauses=scrolled["pauses"], longest=longest
    )


def _longest_task(events: Sequence[Mapping[str, Any]]) -> float:
    """Milliseconds of CPU of the longest task of the page between its two marks."""
    marks = {each["name"]: each for each in events if each["cat"] == "blink.user_timing"}
    begin, end = marks["begin"], marks["end"]
    spent: Iterator[float] = (
        each.get("tdur", 0) / 1000
        for each in events
        if each["name"] == "ThreadControllerImpl::RunTask"
        and (each["pid"], each["tid"]) == (begin["pid"], begin["tid"])
        and begin["ts"] < each["ts"] < end["ts"]
    )
    return round(max(spent), 1)


class _Informer:
    """The parents of one folder, as an informer has them."""

    def __init__(self, parents: int) -> None:
        self.cache = Cache()
        for number in range(parents):
            self.cache.written(LiveObject.of(_parent(number)))
        self.served = SimpleNamespace(resource=SimpleNamespace(kind="Echo"))

    def __iter__(self) -> Iterator[LiveObject]:
        return iter(self.cache)

    def state(self, _: LiveObject) -> ParentState:
        return ParentState()

    def listen(self, *_: object, **__: object) -> None:
        pass

    listen_to_states = listen


def _parent(number: int) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
    if number % 50 == 0:
        ready |= {"status": "False", "reason": "Progressing", "message": f"Deployment web-{number}: 1 of 2 are ready"}
    child = {
        "group": "apps",
        "kind": "Deployment",
        "namespace": "default",
        "name": f"web-{number}",
        "uid": f"c{number}",
    }
    return {
        "apiVersion": "example.com/v1",
        "kind": "Echo",
        "metadata": {"name": f"web-{number:05}", "namespace": f"team-{number % 40}", "uid": str(number)}
        | {"resourceVersion": str(number + 1)},
        "status": {"conditions": [ready], "resources": [{**child, "uid": f"c{number}", "state": "Current"}]},
    }


def rows_of(parents: int) -> tuple[Operator, ParentRows]:
    """An operator with so many parents, and their rows."""
    informers = {FOLDER: cast("Parents", _Informer(parents))}
    source = SimpleNamespace(digest="0", problems=())
    operator = SimpleNamespace(
        folders=informers,
        rollouts=None,
        missing={},
        leadership=None,
        options=SimpleNamespace(shard=None),
        controllers=SimpleNamespace(
            templates=SimpleNamespace(
                folders={FOLDER: source}, loaded_at={FOLDER: 0.0}, loaded=SimpleNamespace(problems=())
            ),
            refused_crds={},
        ),
    )
    rows = ParentRows(informers)
    rows.follow()
    return cast("Operator", operator), rows


def search_times(rows: ParentRows, rounds: int) -> tuple[Spread, Spread]:
    """Milliseconds of a search, and of the JSON of all rows."""
    searches, encodes = [], []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        rows.version += 1  # as after a change: no answer is kept
        rows.select(Filter(text="team-7 web replicas"), {FOLDER})
        searches.append(1000 * (time.perf_counter() - started))
        found = rows.select(Filter(), {FOLDER})
        started = time.perf_counter()
        msgspec.json.encode(found)
        encodes.append(1000 * (time.perf_counter() - started))
    return Spread.of(searches[1:]), Spread.of(encodes[1:])


async def open_pages(operator: Operator, rows: ParentRows, pages: int, seconds: float) -> tuple[float, float]:
    """The part of a core that serving so many overviews takes while no parent changes, and the bytes a second that
    each gets. The figures are sampled as in the operator.
    """
    streams, samples = EventStreams(), FigureSamples()

    async def overview(request: web.Request) -> web.StreamResponse:
        async def value() -> dict[str, Any]:
            figures = samples.figures()
            made = make_overview(operator, rows, figures, Filter(), {FOLDER}, offset=0, limit=50)
            return cast("dict[str, Any]", msgspec.to_builtins(made))

        def version() -> object:
            rows.follow()
            return rows.version, samples.version

        return await streams.send(request, paced(value, version), _no_review, "reader")

    async def sample() -> None:
        metrics = Metrics()
        while True:
            metrics.reconciles.labels(FOLDER, "ok").inc(3 * samples.version % 7)  # no two samples are alike
            samples.take(metrics, 0)
            await asyncio.sleep(INTERVAL)

    async with serving(web.get("/overview", overview)) as base:
        sampling = asyncio.create_task(sample())
        readers = _Readers(base, ["/overview"] * pages)
        await readers.opened()
        before, cpu, started = readers.received, time.thread_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        spent, took = time.thread_time() - cpu, time.perf_counter() - started
        received = readers.received - before
        await readers.close()
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)
    return spent / took, received / took / pages


class _Readers:
    """Open pages, in a thread of their own, so that their CPU is not counted."""

    def __init__(self, base: str, paths: Sequence[str]) -> None:
        self.received = 0
        self._ready = 0
        self._base, self._paths = base, paths
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read()), daemon=True)
        self._thread.start()

    async def opened(self) -> None:
        """Wait for the first part of every page. Raises TimeoutError if one gets none."""
        async with asyncio.timeout(60):
            while self._ready < len(self._paths):  # noqa: ASYNC110 - another thread counts
                await asyncio.sleep(0.05)
        await asyncio.sleep(1)

    async def close(self) -> None:
        self._stop.set()
        await asyncio.to_thread(self._thread.join)

    async def _read(self) -> None:
        async with aiohttp.ClientSession(self._base) as session:
            reading = [asyncio.create_task(self._read_one(session, path)) for path in self._paths]
            while not self._stop.is_set():  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.1)
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def _read_one(self, session: aiohttp.ClientSession, path: str) -> None:
        async with session.get(path, timeout=aiohttp.ClientTimeout()) as answer:
            first = True
            async for part in answer.content.iter_any():
                self.received += len(part)
                self._ready += first
                first = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Burden:
    """An operator's process with open pages, or without, in one run with the other."""

    median: float
    """Seconds of a reaction."""
    p99: float
    cpu: float
    """The part of a core while nothing changes."""
    bytes_per_second: float
    """What a page gets meanwhile."""


async def burdens(parents: int, pages: int, seconds: float, rounds: int) -> tuple[Burden, Burden]:
    """Without pages and with them, in turns: half of the pages are overviews, half show a parent. Raises what `bench`
    and the operator's process raise.
    """
    namespace, names = load.USER, [f"echo-{number:05}" for number in range(parents)]
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
    paths = [
        f"/api/v1/parents/{FOLDER}/{namespace}/{name}?stream=1" if at % 2 else "/api/v1/overview?stream=1"
        for at, name in enumerate(names[:pages])
    ]
    measured: dict[bool, list[float]] = {True: [], False: []}
    rest: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        async with bench(templates) as stage:
            await stage.server.create_namespace(namespace)
            await stage.create(namespace, names)
            async with (
                stage.operator(
                    namespace, "--ui", f"--listen={address}", f"--resync-rate={parents / RESYNC}"
                ) as operator,
                stage.watched(namespace) as progress,
            ):
                await operator.until(progress.reach(parents))
                seen, cache = load.Watched(), Cache()
                cache.listen(seen.see)
                deployments = Scope(stage.server.resources[load.DEPLOYMENT], namespace)
                reflector = Reflector(stage.server.client, deployments, cache)
                watching = asyncio.create_task(reflector.run())
                await reflector.synced_or_unavailable()
                user = load.User(stage, seen)
                await user.reaction(names[0])
                for turn in range(2 * rounds):
                    opened = turn % 2 == 1
                    readers = _Readers(f"http://{address}", paths if opened else ())
                    await readers.opened()
                    for name in names[: 2 * pages]:
                        measured[opened].append(await user.reaction(name))
                    await asyncio.sleep(2)
                    before, started = (machine.used(operator.pid), readers.received), time.perf_counter()
                    await asyncio.sleep(seconds)
                    took = time.perf_counter() - started
                    spent, received = machine.used(operator.pid) - before[0], readers.received - before[1]
                    rest[opened].append((spent / took, received / took / pages))
                    await readers.close()
                watching.cancel()
                await asyncio.wait([watching])
    alone, together = (_burden(measured[opened], rest[opened]) for opened in (False, True))
    return alone, together


def _burden(reactions: Sequence[float], rest: Sequence[tuple[float, float]]) -> Burden:
    cpu, received = (statistics.median(values) for values in zip(*rest, strict=True))
    found = sorted(reactions)
    return Burden(
        median=round(statistics.median(found), 4),
        p99=round(found[int(0.99 * (len(found) - 1))], 4),
        cpu=round(cpu, 5),
        bytes_per_second=round(received, 1),
    )


def _table_of_burdens(alone: Burden, together: Burden, title: str) -> Table:
    table = Table(title=title)
    for column in ("", "without pages", "with pages"):
        table.add_column(column)
    table.add_row("reaction, median", f"{alone.median} s", f"{together.median} s")
    table.add_row("reaction, p99", f"{alone.p99} s", f"{together.p99} s")
    table.add_row("CPU at rest", f"{alone.cpu:.3%}", f"{together.cpu:.3%}")
    table.add_row("bytes a second to each page", "", str(together.bytes_per_second))
    return table


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks web", description=__doc__)
    parser.add_argument("--children", type=int, default=10_000, help="children of the shown parent")
    parser.add_argument("--parents", type=int, default=10_000, help="parents of the searched overview")
    parser.add_argument("--pages", type=int, default=20, help="open pages")
    parser.add_argument("--seconds", type=float, default=30, help="how long the pages stay open")
    parser.add_argument("--rounds", type=int, default=20, help="searches")
    parser.add_argument("--browser", help="the browser's program; default: the one that the tests use")
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    parser.add_argument(
        "--operator", action="store_true", help="measure an operator's process on an API server instead"
    )
    options = parser.parse_args()
    began, described = dt.datetime.now(dt.UTC), machine.description()
    if options.operator:
        parents = min(options.parents, 1000)
        rounds = max(1, options.rounds // 4)
        pair = asyncio.run(burdens(parents, options.pages, options.seconds, rounds))
        Console(width=120).print(_table_of_burdens(*pair, title=f"{parents} parents, {options.pages} open pages"))
        if options.output:
            found = {"date": began.isoformat(timespec="seconds"), "machine": described, "parents": parents}
            machine.write_json(options.output, {**found, "alone": pair[0], "together": pair[1]})
        return
    operator, rows = rows_of(options.parents)
    search, encode = search_times(rows, options.rounds)
    one, _ = asyncio.run(open_pages(operator, rows, 1, options.seconds))
    several, received = asyncio.run(open_pages(operator, rows, options.pages, options.seconds))
    browser = options.browser or _installed_browser()
    result = Result(
        date=began.isoformat(timespec="seconds"),
        machine=described,
        page_bytes=sum(len(gzip.compress(file.read_bytes())) for file in STATIC.iterdir()),
        children=options.children,
        many=asyncio.run(shown(options.children, browser)),
        few=asyncio.run(shown(10, browser)),
        parents=options.parents,
        search=search,
        encode=encode,
        pages=options.pages,
        one_page_cpu=round(one, 5),
        all_pages_cpu=round(several, 5),
        bytes_per_second=round(received, 1),
    )
    Console(width=120).print(_table(result))
    if options.output:
        machine.write_json(options.output, result)


def _installed_browser() -> str | None:
    from tests.docs.browser import BROWSER

    return BROWSER


def _table(result: Result) -> Table:
    table = Table(title=f"{result.children} children, {result.parents} parents, {result.pages} open pages")
    for title in ("", "", "of ten children, of one page"):
        table.add_column(title)
    table.add_row("the page, compressed", f"{result.page_bytes} bytes", "")
    many, few = result.many, result.few
    table.add_row("first child shown after", f"{many.milliseconds} ms", f"{few.milliseconds} ms")
    table.add_row("elements while it scrolls", str(many.elements), str(few.elements))
    table.add_row(f"pauses of more than {PAUSE_MILLISECONDS} ms", str(many.pauses), str(few.pauses))
    table.add_row("CPU of the longest task", f"{many.longest} ms", f"{few.longest} ms")
    table.add_row("a search", f"{result.search} ms", "")
    table.add_row("searches in the JSON of all rows", str(result.search_ratio), "")
    table.add_row("CPU of the pages at rest", f"{result.all_pages_cpu:.3%}", f"{result.one_page_cpu:.3%}")
    table.add_row("bytes a second to each", str(result.bytes_per_second), "")
    return table


if __name__ == "__main__":
    main()
