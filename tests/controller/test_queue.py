"""The promises of the work queue."""

from __future__ import annotations

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ssa_operator.controller.queue import Backlog, Cause, Queue, rank

keys = st.sampled_from("abc")
causes = st.sampled_from(list(Cause))


class BacklogModel(RuleBasedStateMachine):
    """The backlog against a model that keeps everything in plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.backlog: Backlog[str] = Backlog()
        self.now = 0.0
        self.waiting: dict[str, Cause] = {}
        self.order: list[str] = []
        self.since: dict[str, float] = {}
        self.working: dict[str, float] = {}
        self.later: dict[tuple[str, Cause], float] = {}

    @rule(key=keys, cause=causes)
    def add(self, key: str, cause: Cause) -> None:
        self.backlog.add(key, cause, self.now)
        self._expect(key, cause, self.now)

    def _expect(self, key: str, cause: Cause, when: float) -> None:
        self.waiting[key] = self.waiting.get(key, Cause(0)) | cause
        self.since[key] = min(self.since.get(key, when), when)

    @rule(key=keys, cause=causes, delay=st.integers(0, 5))
    def add_later(self, key: str, cause: Cause, delay: int) -> None:
        self.backlog.add_at(key, cause, self.now + delay)
        self.later[key, cause] = min(self.later.get((key, cause), self.now + delay), self.now + delay)

    @rule(key=keys, cause=causes)
    def cancel(self, key: str, cause: Cause) -> None:
        self.backlog.cancel(key, cause)
        self.later.pop((key, cause), None)

    @rule(key=keys)
    def forget(self, key: str) -> None:
        self.backlog.forget(key)
        self.waiting.pop(key, None)
        self.since.pop(key, None)
        self.later = {location: when for location, when in self.later.items() if location[0] != key}

    @rule(seconds=st.integers(0, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def pop(self) -> None:
        for (key, cause), when in list(self.later.items()):
            if when <= self.now:
                del self.later[key, cause]
                self._expect(key, cause, when)
        free = {key: found for key, found in self.waiting.items() if key not in self.working}
        item = self.backlog.pop(self.now)
        if item is None:
            assert not free
            return
        key, found, since = item
        assert since == self.since.pop(key), "the time of waiting does not count from the first cause"
        assert key not in self.working, "handed out twice at once"
        assert found == self.waiting.pop(key), "a cause was lost or invented"
        assert all(rank(found) <= rank(other) for other in free.values()), "something more urgent was passed over"
        self.working[key] = self.now

    @rule(key=keys)
    def done(self, key: str) -> None:
        if key in self.working:
            self.backlog.done(key)
            del self.working[key]

    @invariant()
    def nothing_is_forgotten(self) -> None:
        assert len(self.backlog) == len(self.waiting)
        assert self.backlog.next_deadline() == min(self.later.values(), default=None)
        assert self.backlog.idle == (not self.waiting and not self.working)
        assert self.backlog.unfinished(self.now) == sum(self.now - began for began in self.working.values())
        assert self.backlog.longest_running(self.now) == max(
            (self.now - began for began in self.working.values()), default=0
        )
        free = [found for key, found in self.waiting.items() if key not in self.working]
        for cause in Cause:
            assert self.backlog.urges(cause) == any(rank(found) <= rank(cause) for found in free)


TestBacklog = BacklogModel.TestCase
TestBacklog.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_parents_of_one_rank_are_handed_out_in_the_order_in_which_they_came() -> None:
    backlog: Backlog[str] = Backlog()
    for key in "cab":
        backlog.add(key, Cause.RESYNC, 0.0)
    assert [item[0] for item in iter(lambda: backlog.pop(0.0), None) if item] == ["c", "a", "b"]


def test_a_users_change_goes_ahead_of_a_thousand_resyncs() -> None:
    backlog: Backlog[int] = Backlog()
    for number in range(1000):
        backlog.add(number, Cause.RESYNC, 0.0)
    backlog.add(999, Cause.PARENT, 0.0)
    assert backlog.pop(0.0) == (999, Cause.RESYNC | Cause.PARENT, 0.0)


def test_a_status_lets_users_changes_go_first_but_not_for_ever() -> None:
    backlog: Backlog[str] = Backlog()
    backlog.add("a", Cause.STATUS, 0.0)
    backlog.add_at("a", Cause.STATUS_OVERDUE, 10.0)
    for key in "bc":
        backlog.add(key, Cause.PARENT, 0.0)
    assert backlog.pop(9.0) == ("b", Cause.PARENT, 0.0)
    assert backlog.pop(10.0) == ("a", Cause.STATUS | Cause.STATUS_OVERDUE, 0.0)


async def test_a_worker_that_waits_is_woken_by_what_is_added() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a", Cause.PARENT)
    assert await waiting == ("a", Cause.PARENT)


async def test_a_deadline_wakes_a_worker_also_while_another_one_is_busy() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    queue.add_after("a", Cause.TICK, 0.01)
    queue.add_after("b", Cause.TICK, 0.02)
    workers = [asyncio.create_task(queue.get()) for _ in range(2)]
    found = await asyncio.gather(*workers)
    assert found == [("a", Cause.TICK), ("b", Cause.TICK)]


async def test_the_time_that_a_retry_waits_counts_from_the_moment_at_which_it_is_due() -> None:
    loop, waited = asyncio.get_running_loop(), list[float]()
    now = loop.time()
    queue: Queue[str] = Queue(lambda: now, waited.append)
    queue.add_after("a", Cause.RETRY, 5.0)
    queue.add_after("b", Cause.TICK, 7.0)
    now += 12.0
    assert await queue.get() == ("a", Cause.RETRY)
    assert await queue.get() == ("b", Cause.TICK)
    assert waited == [7.0, 5.0]


async def test_the_queue_says_for_how_long_parents_have_been_worked_on() -> None:
    now = 0.0
    queue: Queue[str] = Queue(lambda: now)
    for key in "ab":
        queue.add(key, Cause.PARENT)
    await queue.get()
    now = 3.0
    await queue.get()
    now = 4.0
    assert (queue.unfinished(), queue.longest_running()) == (5.0, 4.0)
    queue.done("a")
    assert (queue.unfinished(), queue.longest_running()) == (1.0, 1.0)
    queue.done("b")
    assert (queue.unfinished(), queue.longest_running()) == (0.0, 0.0)


async def test_an_item_is_not_lost_with_a_worker_that_is_cancelled_just_when_it_is_woken() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    doomed, other = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a", Cause.PARENT)
    doomed.cancel()
    assert await other == ("a", Cause.PARENT)


async def test_all_workers_end_when_the_queue_is_closed() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    assert await asyncio.gather(*workers) == [None, None, None]
    assert await queue.get() is None


async def test_whoever_lets_parents_go_first_has_its_turn_when_none_waits_for_a_worker() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    await queue.empty()
    for key in "ab":
        queue.add(key, Cause.PARENT)
    patient = asyncio.create_task(queue.empty())
    assert await queue.get() is not None
    await asyncio.sleep(0)
    assert not patient.done()
    assert await queue.get() is not None
    await patient
