"""Renders on the event loop, with its turns between them, and long ones in a thread, one at a time."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ssa_operator.objects.cluster_view import ClusterView
from ssa_operator.objects.identity import GroupKind
from ssa_operator.reconcile import render_turns
from ssa_operator.reconcile.render_turns import Pace, Postponed, RenderMoment, RenderTurns, let_renders_wait, paced
from ssa_operator.rendering.values import limits
from tests.devcluster.waiting import until

KIND = GroupKind("", "Secret")


class Caches:
    """A view of caches, which a test changes."""

    def __init__(self) -> None:
        self.kinds: dict[GroupKind, bool] = {}
        self.readers: list[int] = []

    def namespaced(self, kind: GroupKind) -> bool | None:
        self.readers.append(threading.get_ident())
        return self.kinds.get(kind)


def moment(caches: Any = None) -> RenderMoment:
    return RenderMoment(lambda: caches)


class LongRender:
    """A render that ends in a thread only: on the event loop it takes all its time."""

    def __init__(self, work: Callable[[ClusterView], Any] = lambda _: None, seconds: float = render_turns.SLOW) -> None:
        self.threads: list[int] = []
        self._work, self._seconds = work, seconds

    def __call__(self, view: ClusterView) -> Any:
        self.threads.append(threading.get_ident())
        on_loop = threading.current_thread() is threading.main_thread()
        with limits.enforced():
            while on_loop:
                limits.current().step()
        found = self._work(view)
        work_for(self._seconds)
        return found


def work_for(seconds: float) -> None:
    """Use the processor for some seconds."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


async def renders_and_reads(turns: RenderTurns, names: Sequence[str]) -> str:
    """The order of renders (`-`) and of what the event loop reads (the parent's first letter) if one reconcile of each
    parent begins in the same turn of the loop.
    """
    done = list[str]()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, lambda: done.append(ours.recv(1).decode()))

        async def reconcile(name: str) -> None:
            def render(_: ClusterView) -> None:
                done.append("-")
                theirs.send(name[0].encode())

            await turns.run(name, moment(), render)

        await asyncio.gather(*map(reconcile, names))
        await asyncio.sleep(0)
        loop.remove_reader(ours)
    return "".join(done)


def taking(seconds: float) -> Callable[[], float]:
    """A clock by which each render takes some seconds."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += seconds
        return now

    return clock


async def test_the_event_loop_reads_its_sockets_between_two_slow_renders() -> None:
    assert (await renders_and_reads(RenderTurns(clock=taking(1.0)), ["e"] * 3))[:5] == "-e-e-"
    assert (await renders_and_reads(RenderTurns(clock=taking(1.0)), ["a", "b", "c"]))[:5] == "-a-b-"


async def test_the_event_loop_reads_its_sockets_between_many_renders_that_take_long_together() -> None:
    half = RenderTurns(clock=taking(0.6 * render_turns.SLOW))
    assert (await renders_and_reads(half, ["a", "b", "c", "d"])) == "--ab--cd"
    assert (await renders_and_reads(RenderTurns(clock=taking(0.0)), ["a", "b", "c", "d"]))[:4] == "----"


async def test_a_long_render_begins_again_in_a_thread_and_next_time_at_once() -> None:
    turns, render, own = RenderTurns(), LongRender(lambda _: "done"), threading.get_ident()
    assert await turns.run("slow", moment(), render) == "done"
    assert [thread == own for thread in render.threads] == [True, False]
    assert await turns.run("slow", moment(), render) == "done"
    assert [thread == own for thread in render.threads] == [True, False, False]
    # One that is fast is on the event loop the next time.
    threads = list[int]()
    for _ in range(2):
        await turns.run("slow", moment(), lambda _: threads.append(threading.get_ident()))
    assert [thread == own for thread in threads] == [False, True]


async def test_what_another_thread_takes_counts_for_a_render_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, threads = [0.0], list[int]()
    monkeypatch.setattr(time, "process_time", lambda: seconds[0])

    def render(_: ClusterView) -> None:
        threads.append(threading.get_ident())
        seconds[0] += 2 * render_turns.SLOW  # as if a thread had them
        limits.current().check_time()

    await RenderTurns().run("web", moment(), render)
    assert [thread == threading.get_ident() for thread in threads] == [True, False]


async def test_a_render_that_takes_half_of_the_time_begins_in_the_thread_the_next_time() -> None:
    turns, render = RenderTurns(), LongRender(seconds=0.6 * render_turns.SLOW)
    for _ in range(2):
        await turns.run("slow", moment(), render)
    assert [thread == threading.get_ident() for thread in render.threads] == [True, False, False]


async def test_one_render_is_in_a_thread_at_a_time_and_a_fast_one_waits_for_none() -> None:
    turns, go_on, running = RenderTurns(), threading.Event(), list[str]()

    def waiting(name: str) -> LongRender:
        def work(_: ClusterView) -> str:
            running.append(name)
            go_on.wait()
            return name

        return LongRender(work)

    renders = [asyncio.create_task(turns.run(name, moment(), waiting(name))) for name in ("a", "b")]
    await until(lambda: running == ["a"])
    assert await turns.run("fast", moment(), lambda _: "fast") == "fast"
    assert running == ["a"]
    go_on.set()
    assert await asyncio.gather(*renders) == ["a", "b"]


async def test_a_render_that_may_not_wait_for_the_thread_is_postponed_and_a_fast_one_is_not() -> None:
    turns, render, pace = RenderTurns(), LongRender(lambda _: "done"), Pace(waits=False)
    with paced(pace):
        assert await turns.run("fast", moment(), lambda _: "fast") == "fast"
        with pytest.raises(Postponed):
            await turns.run("slow", moment(), render)
        with pytest.raises(Postponed):
            await turns.in_thread(lambda: None)
    assert (pace.rendered, pace.slow, len(render.threads)) == (True, False, 1)
    with paced(pace):
        let_renders_wait()
        assert await turns.run("slow", moment(), render) == "done"
    assert pace.slow
    with paced(again := Pace(waits=True)):
        await turns.run("slow", moment(), lambda _: None)
    assert (again.rendered, again.slow) == (True, False)


async def test_a_cancelled_render_ends_in_its_thread_first() -> None:
    turns, began, ended = RenderTurns(), asyncio.Event(), list[str]()
    loop = asyncio.get_running_loop()

    def endless(_: ClusterView) -> None:
        loop.call_soon_threadsafe(began.set)
        try:
            with limits.enforced(60.0):
                while True:
                    limits.current().check_time()
        finally:
            ended.append("ended")

    task = asyncio.create_task(turns.run("slow", moment(), LongRender(endless)))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["ended"]
    assert await turns.run("other", moment(), LongRender(lambda _: "done")) == "done"


async def test_an_error_of_a_thread_is_raised() -> None:
    def fail(_: ClusterView) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await RenderTurns().run("slow", moment(), LongRender(fail))


async def test_only_the_event_loop_reads_the_caches_and_a_render_sees_them_at_one_moment() -> None:
    caches, loop, seen = Caches(), asyncio.get_running_loop(), list[tuple[bool | None, bool | None]]()
    other = GroupKind("", "ConfigMap")

    def read(view: ClusterView) -> tuple[bool | None, bool | None]:
        first = view.namespaced(KIND)
        if not seen:
            asyncio.run_coroutine_threadsafe(change(), loop).result()
        seen.append((first, view.namespaced(other)))
        return seen[-1]

    async def change() -> None:
        caches.kinds = dict.fromkeys((KIND, other), True)

    assert await RenderTurns().run("slow", moment(caches), LongRender(read)) == (True, True)
    assert seen == [(None, True), (True, True)]
    assert {*caches.readers} == {threading.get_ident()}


async def test_a_kept_moment_is_the_same_for_further_renders() -> None:
    caches, turns = Caches(), RenderTurns()
    kept = moment(caches)
    assert await turns.run("slow", kept, LongRender(lambda view: view.namespaced(KIND))) is None
    caches.kinds[KIND] = True
    kept.keep()
    assert await turns.run("slow", kept, LongRender(lambda view: view.namespaced(KIND))) is None
    assert await turns.run("slow", moment(caches), LongRender(lambda view: view.namespaced(KIND))) is True
