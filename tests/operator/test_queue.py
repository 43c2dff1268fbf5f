"""The promises of the work queue."""

from __future__ import annotations

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ssa_operator.objects.causes import Cause
from ssa_operator.operator.queue import FEW_DEADLINES, FEW_FLOWS, Queue, QueueState, rank

keys = st.sampled_from(["a1", "a2", "a3", "b1", "b2", "c1"])
causes = st.sampled_from(list(Cause))


def flow_of(key: str) -> str:
    return key[0]


class QueueStateModel(RuleBasedStateMachine):
    """The queue state against a model that keeps everything in plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.state: QueueState[str] = QueueState(flow_of)
        self.now = 0.0
        self.waiting: dict[str, Cause] = {}
        self.slow: set[str] = set()
        self.lines: list[tuple[tuple[bool, int], str, list[str]]] = []
        """Slowness and rank, flow and parents, in the order in which the flows of a rank have their turns."""
        self.since: dict[str, float] = {}
        self.processing: dict[str, float] = {}
        self.delayed: dict[tuple[str, Cause], float] = {}

    @rule(key=keys, cause=causes)
    def add(self, key: str, cause: Cause) -> None:
        self.state.add(key, cause, self.now)
        self._expect(key, cause, self.now)

    def _expect(self, key: str, cause: Cause, when: float) -> None:
        self.waiting[key] = self.waiting.get(key, Cause(0)) | cause
        self.since[key] = min(self.since.get(key, when), when)
        if key not in self.processing:
            self._line_up(key)

    def _line_up(self, key: str) -> None:
        """Put the parent at the end of its flow's line, unless it stands in the right one."""
        place = (key in self.slow, rank(self.waiting[key]))
        if any(key in line and place == other for other, _, line in self.lines):
            return
        self._step_out(key)
        for other, flow, line in self.lines:
            if (other, flow) == (place, flow_of(key)):
                line.append(key)
                return
        self.lines.append((place, flow_of(key), [key]))

    def _step_out(self, key: str) -> None:
        self.lines = [
            (place, flow, left) for place, flow, line in self.lines if (left := [each for each in line if each != key])
        ]

    def _take_turn(self, slow: bool) -> str:
        """The next parent of the flow whose turn it is in the most urgent rank; the flow then goes to the end."""
        found = min((entry for entry in self.lines if entry[0][0] == slow), key=lambda entry: entry[0])
        self.lines.remove(found)
        self.lines.append(found)
        key = found[2][0]
        self._step_out(key)
        return key

    @rule(key=keys, cause=causes, delay=st.integers(0, 5))
    def add_later(self, key: str, cause: Cause, delay: int) -> None:
        self.state.add_at(key, cause, self.now + delay)
        if self.now + delay < self.delayed.get((key, cause), self.now + delay + 1):
            # At the end, because of two deadlines at the same moment the one that was set first comes first.
            self.delayed.pop((key, cause), None)
            self.delayed[key, cause] = self.now + delay

    @rule(key=keys, cause=causes)
    def cancel(self, key: str, cause: Cause) -> None:
        self.state.cancel(key, cause)
        self.delayed.pop((key, cause), None)

    @rule(key=keys)
    def forget(self, key: str) -> None:
        self.state.forget(key)
        self.waiting.pop(key, None)
        self.since.pop(key, None)
        self.slow.discard(key)
        self._step_out(key)
        self.delayed = {entry: when for entry, when in self.delayed.items() if entry[0] != key}

    @rule(key=keys, slow=st.booleans())
    def set_slow(self, key: str, slow: bool) -> None:
        self.state.set_slow(key, slow=slow)
        (self.slow.add if slow else self.slow.discard)(key)
        if key in self.waiting and key not in self.processing:
            self._line_up(key)

    @rule(seconds=st.integers(0, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(slow=st.booleans())
    def pop(self, slow: bool) -> None:
        for (key, cause), when in sorted(self.delayed.items(), key=lambda entry: entry[1]):
            if when <= self.now:
                del self.delayed[key, cause]
                self._expect(key, cause, when)
        free = {
            key: found
            for key, found in self.waiting.items()
            if key not in self.processing and (key in self.slow) == slow
        }
        item = self.state.pop(self.now, slow=slow)
        if item is None:
            assert not free
            return
        key, found, since = item
        assert since == self.since.pop(key), "the queue duration does not count from the first cause"
        assert key not in self.processing, "handed out twice at once"
        assert key == self._take_turn(slow), "another parent's turn was passed over"
        assert found == self.waiting.pop(key), "a cause was lost or invented"
        assert all(rank(found) <= rank(other) for other in free.values()), "a more urgent parent was passed over"
        self.processing[key] = self.now

    @rule(key=keys)
    def done(self, key: str) -> None:
        if key in self.processing:
            self.state.done(key)
            del self.processing[key]
            if key in self.waiting:
                self._line_up(key)

    @invariant()
    def no_parent_is_lost(self) -> None:
        assert len(self.state) == len(self.waiting)
        assert self.state.next_deadline() == min(self.delayed.values(), default=None)
        assert self.state.unfinished(self.now) == sum(self.now - began for began in self.processing.values())
        assert self.state.longest_running(self.now) == max(
            (self.now - began for began in self.processing.values()), default=0
        )
        free = {key: found for key, found in self.waiting.items() if key not in self.processing}
        for cause in Cause:
            urgent = {key for key, found in free.items() if rank(found) <= rank(cause)}
            assert self.state.has_as_urgent(cause) == bool(urgent)
            for flow in "abc":
                as_slow = {key for key in urgent if (key in self.slow) == (flow in self.slow)}
                assert self.state.has_as_urgent(cause, flow) == (flow in map(flow_of, as_slow))
        for slow in (False, True):
            assert self.state.is_ready(slow=slow) == any((key in self.slow) == slow for key in free)
        assert {item.key: item.causes for item in self.state.waiting(self.now)} == free
        assert all(item.age == self.now - self.since[item.key] for item in self.state.waiting(self.now))
        assert self.state.processing(self.now).keys() == self.processing.keys()
        assert self.state.delayed == len(self.delayed)


TestQueueState = QueueStateModel.TestCase
TestQueueState.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_workers_get_parents_of_one_rank_in_the_order_in_which_they_were_added() -> None:
    state: QueueState[str] = QueueState()
    for key in "cab":
        state.add(key, Cause.FIRST_LIST, 0.0)
    assert [item[0] for item in iter(lambda: state.pop(0.0), None) if item] == ["c", "a", "b"]


def test_deadlines_that_are_set_again_and_again_take_no_memory() -> None:
    """As of a template with `expired("30d")`, at each reconcile."""
    state, month = QueueState[str](flow_of), 30 * 86400.0
    for number in range(10_000):
        for key in ("a1", "a2", "b1"):
            state.cancel(key, Cause.RETRY)
            state.add_at(key, Cause.RETRY, month + number)
            state.add_at(key, Cause.RESYNC_DUE, month - number)
    assert (state.delayed, state.next_deadline()) == (6, month - 9999)
    assert len(state._deadlines) <= 2 * 6 + FEW_DEADLINES


def test_parents_that_are_gone_leave_no_deadlines() -> None:
    state = QueueState[str](flow_of)
    for number in range(10_000):
        state.add_at(f"a{number}", Cause.RETRY, 86400.0 + number)
    for number in range(10_000):
        state.forget(f"a{number}")
    assert len(state._deadlines) <= FEW_DEADLINES
    assert (state.delayed, state.next_deadline()) == (0, None)


def test_dropping_stale_deadlines_keeps_the_others_in_their_order() -> None:
    state = QueueState[str](flow_of)
    for number in range(100):
        state.add_at(f"a{number:02}", Cause.RETRY, 1000.0 - number)
    for number in range(1000):
        state.add_at("b1", Cause.RETRY, 5000.0 - number)
        state.cancel("b1", Cause.RETRY)
    popped = [item.key for item in iter(lambda: state.pop(2000.0), None)]
    assert popped == [f"a{number:02}" for number in reversed(range(100))]


def test_a_change_in_one_namespace_is_the_second_after_a_thousand_changes_in_another_one() -> None:
    state: QueueState[str] = QueueState(flow_of)
    for number in range(1000):
        state.add(f"a{number}", Cause.PARENT, 0.0)
    state.add("b", Cause.PARENT, 0.0)
    assert [item.key for _ in range(3) if (item := state.pop(0.0))] == ["a0", "b", "a1"]


def test_a_status_waits_for_the_parents_of_its_own_namespace_and_for_those_of_many_namespaces() -> None:
    state: QueueState[tuple[str, int]] = QueueState(lambda key: key[0])
    state.add(("other", 1), Cause.PARENT, 0.0)
    assert not state.has_as_urgent(Cause.PARENT, ("mine", 1))
    state.add(("mine", 2), Cause.PARENT, 0.0)
    assert state.has_as_urgent(Cause.PARENT, ("mine", 1))
    state.forget(("mine", 2))
    for number in range(FEW_FLOWS):
        state.add((f"other-{number}", 1), Cause.PARENT, 0.0)
    assert state.has_as_urgent(Cause.PARENT, ("mine", 1))


def test_a_users_change_goes_ahead_of_a_thousand_resyncs() -> None:
    state: QueueState[int] = QueueState()
    for number in range(1000):
        state.add(number, Cause.FIRST_LIST, 0.0)
    state.add(999, Cause.PARENT, 0.0)
    assert state.pop(0.0) == (999, Cause.FIRST_LIST | Cause.PARENT, 0.0)


def test_a_status_waits_for_users_changes_until_it_is_overdue() -> None:
    state: QueueState[str] = QueueState()
    state.add("a", Cause.STATUS, 0.0)
    state.add_at("a", Cause.STATUS_OVERDUE, 10.0)
    for key in "bc":
        state.add(key, Cause.PARENT, 0.0)
    assert state.pop(9.0) == ("b", Cause.PARENT, 0.0)
    assert state.pop(10.0) == ("a", Cause.STATUS | Cause.STATUS_OVERDUE, 0.0)


async def test_a_worker_of_slow_parents_gets_them_and_no_others() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    queue.set_slow("slow", slow=True)
    slow, other = asyncio.create_task(queue.get(slow=True)), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a", Cause.PARENT)
    assert await other == ("a", Cause.PARENT)
    queue.add_after("slow", Cause.RESYNC_DUE, 0.01)
    assert await slow == ("slow", Cause.RESYNC_DUE)
    queue.done("a")
    waits = asyncio.create_task(queue.get(slow=True))
    queue.add("a", Cause.PARENT)
    await asyncio.sleep(0)
    assert not waits.done()
    queue.set_slow("a", slow=True)
    assert await waits == ("a", Cause.PARENT)
    waits = asyncio.create_task(queue.get(slow=True))
    await asyncio.sleep(0)
    queue.close()
    assert await waits is None


async def test_a_worker_that_waits_is_woken_by_what_is_added() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a", Cause.PARENT)
    assert await waiting == ("a", Cause.PARENT)


async def test_a_deadline_wakes_a_worker_also_while_another_one_is_busy() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    queue.add_after("a", Cause.RESYNC_DUE, 0.01)
    queue.add_after("b", Cause.RESYNC_DUE, 0.02)
    workers = [asyncio.create_task(queue.get()) for _ in range(2)]
    assert {*await asyncio.gather(*workers)} == {("a", Cause.RESYNC_DUE), ("b", Cause.RESYNC_DUE)}


async def test_the_time_that_a_retry_waits_counts_from_the_moment_at_which_it_is_due() -> None:
    loop, waited = asyncio.get_running_loop(), list[float]()
    now = loop.time()
    queue: Queue[str] = Queue(lambda: now, waited.append)
    queue.add_after("a", Cause.RETRY, 5.0)
    queue.add_after("b", Cause.RESYNC_DUE, 7.0)
    now += 12.0
    assert await queue.get() == ("a", Cause.RETRY)
    assert await queue.get() == ("b", Cause.RESYNC_DUE)
    assert waited == [7.0, 5.0]


async def test_the_queue_reports_for_how_long_parents_have_been_processed() -> None:
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


async def test_what_waits_for_an_empty_queue_goes_on_when_no_parent_waits_for_a_worker() -> None:
    queue: Queue[str] = Queue(asyncio.get_running_loop().time)
    await queue.until_empty()
    for key in "ab":
        queue.add(key, Cause.PARENT)
    waiter = asyncio.create_task(queue.until_empty())
    assert await queue.get() is not None
    await asyncio.sleep(0)
    assert not waiter.done()
    assert await queue.get() is not None
    await waiter
