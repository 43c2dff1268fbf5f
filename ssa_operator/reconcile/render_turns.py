"""Renders a parent on the event loop if that takes a moment, and in a thread if it takes longer.

A render is pure, so it may begin again. It begins on the event loop, where most renders end within a millisecond. One
that holds the loop for SLOW seconds is interrupted there and rendered again in a thread, and so are its next renders
from the beginning.

Promises:
- Renders hold the event loop for SLOW seconds at most between two polls of its sockets, all parents' renders together
  with what a thread takes meanwhile; of a render in a thread, only a single step in C holds it.
- One render runs in a thread at a time: the threads of an operator share one lock of Python.
- A render that is usually fast waits for none in a thread.
- A worker of parents that are not slow never waits for the thread: Postponed ends the reconcile, and a worker of slow
  parents begins it again.
- A render sees the caches at one moment, and only the event loop's thread reads them. What a render in a thread asks
  later is answered as it is then; if not all answers were the same then, it begins again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from ssa_operator.informers.lookup_index import AnswerVersion, LookupQuery
from ssa_operator.objects.cluster_view import ClusterView, RecordedView, ViewCall, answer_now
from ssa_operator.objects.context_values import set_within
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.parent_view import ParentView
from ssa_operator.rendering.values import limits

SLOW = 0.025
"""Seconds of processor time of the process. A usual render takes less than a millisecond, one of 1 000 manifests about
these.
"""

MOMENTS = 3
"""Renders in a thread until one reads all at the same moment. The last one counts in any case."""

REMEMBERED = 1000
"""Parents that are remembered as slow. A forgotten one costs SLOW seconds."""

Result = TypeVar("Result")


class Postponed(Exception):  # noqa: N818 - it is no error
    """A render takes long, and the worker of the reconcile must not wait for the thread."""


@dataclass(slots=True)
class Pace:
    """How the renders of one reconcile are: `waits` says whether they may wait for the thread."""

    waits: bool
    rendered: bool = False
    """Whether there was a render."""
    slow: bool = False
    """Whether one of them took long."""


_pace: ContextVar[Pace | None] = ContextVar("ssa_operator_render_pace", default=None)


def paced(pace: Pace) -> AbstractContextManager[None]:
    """Render in the block, and in the tasks that it starts, as `pace` says, and record there how that was. Outside of
    such a block every render may wait.
    """
    return set_within(_pace, pace)


def let_renders_wait() -> None:
    """Let the further renders of this reconcile wait for the thread, because it can't begin again without a loss."""
    if (pace := _pace.get()) is not None:
        pace.waits = True


CallSoon = Callable[[Callable[[], None]], object]
"""Has the event loop's thread call a function."""


class RenderMoment:
    """The moment of one render, at which `look` gives the view of the caches. `view` is that of the last render that
    began.
    """

    def __init__(self, look: Callable[[], ParentView]) -> None:
        self._look = look
        self._record: RecordedView | None = None
        self._kept = False
        self._versions: dict[LookupQuery, AnswerVersion] = {}
        self._lives: dict[Identity, LiveObject | None] = {}
        self.view: ParentView

    def keep(self) -> None:
        """Have the further renders see what the last one saw."""
        self._kept = True

    def begin(self) -> RecordedView:
        """What a render sees that begins now, and that ends before the event loop goes on."""
        if self._record is None or not self._kept:
            self.view = self._look()
            self._record = RecordedView(self.view)
            self._versions, self._lives = {}, {}
        return self._record

    def begin_in_thread(self, call_soon: CallSoon) -> RecordedView:
        """What a render in a thread sees that begins now. What an interrupted one asked is answered now."""
        questions = () if self._record is None or self._kept else tuple(self._record.answers)
        record = self.begin()
        for question in questions:
            record.answers[question] = self._answer(self.view, question)

        def ask(view: ClusterView, question: ViewCall) -> Any:
            found: Future[Any] = Future()

            def answer() -> None:
                try:
                    found.set_result(self._answer(view, question))
                except BaseException as error:  # noqa: BLE001 - the thread raises it
                    found.set_exception(error)

            call_soon(answer)
            return found.result()

        return RecordedView(self.view, record.answers, ask)

    def _answer(self, view: Any, question: ViewCall) -> Any:
        """The answer of the caches, and the version of what a template looks up."""
        what, asked = question[:2]
        if what == "answer":
            self._versions[asked] = view.version(asked)
        elif what == "lookup":
            self._lives[asked] = view.objects.get(asked)
        return answer_now(view, question)

    def is_one(self) -> bool:
        """Whether the caches give now all answers that the last render got."""
        if self._kept or self._record is None:
            return True
        now = self._look()
        return all(
            now.version(question[1]) == self._versions.get(question[1])
            if question[0] == "answer"
            else answer_now(now, question) == answer
            for question, answer in self._record.answers.items()
        )

    def versions(self, current: Mapping[LookupQuery, AnswerVersion]) -> Mapping[LookupQuery, AnswerVersion]:
        """The versions of answers that the last render saw; `current` are the present ones of its queries."""
        return {query: self._versions.get(query, version) for query, version in current.items()}

    def watched(self, identity: Identity) -> LiveObject | None:
        """An object with the operator's label, as the last render saw it."""
        return self._lives[identity] if identity in self._lives else self.view.objects.get(identity)


class RenderTurns:
    """Knows the parents whose last render was slow."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._slow: dict[str, None] = {}
        """The keys of what renders slowly, the latest at the end: a parent's uid, and apart from it its status."""
        self._lane = asyncio.Lock()
        self._held = 0.0
        """Seconds that renders took since the event loop has polled its sockets."""
        self._polled = asyncio.Event()
        """Whether the event loop has polled its sockets since renders took SLOW seconds."""
        self._polled.set()

    async def run(self, key: str, moment: RenderMoment, render: Callable[[ClusterView], Result]) -> Result:
        """What a parent's `render` gives for the view of the moment; it may be called again, in a thread.

        After a render nothing awaits: what was rendered is as new as the caches, or as `moment` tells. Raises
        Postponed.
        """
        pace = _pace.get()
        if pace is not None:
            pace.rendered = True
        if key not in self._slow:
            await self._wait_for_poll()
            interrupt = limits.Interrupt(time.process_time() + SLOW)
            started = self._clock()
            try:
                with limits.interruptible(interrupt):
                    return render(moment.begin())
            except limits.Interrupted:
                pass
            finally:
                self._count(self._clock() - started)
        _may_wait()
        async with self._lane:
            return await self._render_in_thread(key, moment, render)

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """The result of work that needs no view, and that takes long, in a thread. Raises Postponed."""
        _may_wait()
        if (pace := _pace.get()) is not None:
            pace.slow = True
        async with self._lane:
            result, _ = await self._in_thread(work)
            return result

    async def _render_in_thread(
        self, key: str, moment: RenderMoment, render: Callable[[ClusterView], Result]
    ) -> Result:
        call_soon = asyncio.get_running_loop().call_soon_threadsafe
        for _ in range(MOMENTS):
            view = moment.begin_in_thread(call_soon)
            known = len(view.answers)
            result, seconds = await self._in_thread(lambda view=view: render(view))  # type: ignore[misc]
            # Half, because another render may take half of the time on the event loop.
            self._remember(key, slow=seconds >= SLOW / 2)
            if len(view.answers) == known or moment.is_one():
                break
        return result

    async def _in_thread(self, work: Callable[[], Result]) -> tuple[Result, float]:
        """The result of some work in a thread, and its seconds of processor time. The work ends before a cancellation
        is raised.
        """
        interrupt = limits.Interrupt()

        def measured() -> tuple[Result, float]:
            started = time.thread_time()
            with limits.interruptible(interrupt):
                result = work()
            return result, time.thread_time() - started

        done = asyncio.get_running_loop().run_in_executor(None, copy_context().run, measured)
        try:
            await asyncio.wait((done,))
            return done.result()
        finally:
            if not done.done():
                interrupt.now()
                await asyncio.wait((done,))
                done.exception()

    def _remember(self, key: str, *, slow: bool) -> None:
        self._slow.pop(key, None)
        if slow and (pace := _pace.get()) is not None:
            pace.slow = True
        if slow and key:
            self._slow[key] = None
            if len(self._slow) > REMEMBERED:
                del self._slow[next(iter(self._slow))]

    async def _wait_for_poll(self) -> None:
        while not self._polled.is_set():  # another render that waited may have been slow just now
            await self._polled.wait()

    def _count(self, seconds: float) -> None:
        """Count what a render took on the event loop."""
        if not self._held:
            # The next turn of the loop polls the sockets, and runs what it found after all that was due before.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._count_poll)
        self._held += seconds
        if self._held >= SLOW:
            self._polled.clear()

    def _count_poll(self) -> None:
        self._held = 0.0
        self._polled.set()


def _may_wait() -> None:
    """Raise Postponed if the renders of this reconcile must not wait for the thread."""
    if (pace := _pace.get()) is not None and not pace.waits:
        raise Postponed
