"""The work queue: which parent is reconciled next.

Promises (those of client-go's util/workqueue, and controller-runtime's priority queue):
- Fair: within one priority, workers get a parent of each flow (a namespace) in turn, and the parents of one flow in the
  order in which they were added. A thousand changes in one namespace don't delay a change in another.
- Stingy: a parent is never reconciled twice at once. A parent that is added many times before a worker gets it is
  reconciled once, with all causes.
- A parent that is added while it is reconciled is reconciled again afterwards.
- Users' changes come before events of children, and these before deferred statuses, retries, the first list and
  resyncs: a resync never starves a change.
- Each cause of a parent keeps its earliest deadline. The memory depends only on the deadlines that are currently set,
  however often and however far in the future deadlines were set before.
- The queue duration of a parent counts from the moment at which it was added or became due.
- Slow parents wait in lines of their own, for workers of their own, so they delay no others.

`QueueState` is the state alone, without a clock or an event loop. `Queue` has workers wait for it.

How it works:
`_waiting` has the causes of each parent that waits, `_processing` the parents that workers have, `_delayed` the
deadlines. A parent that is added while it is processed is only in `_waiting`. All others that wait are also in one line
of `_ready`, by slowness, rank and flow; `done` puts a parent there that was added meanwhile. So no two workers have the
same parent, and no cause is lost.

`pop` takes the first parent of the first flow in the most urgent rank that has any, and moves that flow to the end:
the flows take turns, and each is served in the order of its additions. A further cause either leaves the parent in its
place, or moves it to a more urgent rank. It never moves it back.

The heap of deadlines is never searched. A deadline that is cancelled or set again leaves a stale entry, which differs
from the one in `_delayed` and is skipped when its time comes. `_drop_stale` rebuilds the heap when most of it is stale.
`pop` first adds the parents that became due, waiting since their deadline.

Idle workers wait on one future each. Every addition wakes one worker, one timer wakes one at the earliest deadline, and
a worker that has a parent wakes the next worker if more parents are ready. A worker that is cancelled after it was
woken wakes another one. So a parent never waits while a worker of its kind is idle.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from ssa_operator.objects.causes import Cause

Key = TypeVar("Key", bound=Hashable)


def rank(causes: Cause) -> int:
    """The rank of the most urgent cause: the smaller, the earlier."""
    return -int(causes).bit_length()


FEW_FLOWS = 16
"""While parents of more flows than this wait, they are one burst: a status waits for all of them. This is the default
number of workers, so that each flow's next parent is reconciled at once.
"""


FEW_DEADLINES = 64
"""Stale entries that the heap of deadlines may have beyond the number of valid ones."""


def one_flow(_: Hashable) -> Hashable:
    """The same flow for all parents."""
    return ""


class Item(NamedTuple, Generic[Key]):
    """A parent that a worker gets from the queue, why, and since when it waited."""

    key: Key
    causes: Cause
    since: float


class WaitingItem(NamedTuple, Generic[Key]):
    """A parent that waits for a worker, and for how many seconds so far."""

    key: Key
    causes: Cause
    age: float


_Flows: TypeAlias = OrderedDict[Hashable, OrderedDict[Key, None]]


class QueueState(Generic[Key]):
    """The parents that wait, that are processed, and that are due later. Times are seconds on any one clock.

    `flow_of` names the flow of a parent, as the flow distinguisher of API Priority and Fairness does.
    """

    def __init__(self, flow_of: Callable[[Key], Hashable] = one_flow) -> None:
        self._flow_of = flow_of
        self._waiting: dict[Key, Cause] = {}
        self._since: dict[Key, float] = {}
        self._processing: dict[Key, float] = {}
        self._slow: set[Key] = set()
        self._ready: dict[bool, dict[int, _Flows[Key]]] = {
            slow: {rank(cause): OrderedDict() for cause in sorted(Cause, key=rank)} for slow in (False, True)
        }
        """By slowness, rank and flow, the parents in the order in which workers get them. Each operation takes constant
        time.
        """
        self._places: dict[Key, tuple[bool, int]] = {}
        """The slowness and the rank under which a parent is in `_ready`."""
        self._delayed: dict[tuple[Key, Cause], tuple[float, int]] = {}
        """The deadlines, each with the number of its entry in the heap."""
        self._deadlines: list[tuple[float, int, Key, Cause]] = []
        """A heap of the deadlines, with entries of deadlines that are cancelled or were set again."""
        self._added = 0

    def __len__(self) -> int:
        """How many parents wait for a worker now."""
        return len(self._waiting)

    def add(self, key: Key, cause: Cause, now: float) -> None:
        """Add the parent with a cause, at the place that its most urgent cause gives."""
        self._since[key] = min(self._since.get(key, now), now)
        before = self._waiting.get(key)
        causes = self._waiting[key] = cause if before is None else before | cause
        if key not in self._processing:
            self._put(key, rank(causes))

    def add_at(self, key: Key, cause: Cause, when: float) -> None:
        """Add the parent at `when`, unless the same cause is due earlier."""
        due = self._delayed.get((key, cause))
        if due is None or when < due[0]:
            self._added += 1
            self._delayed[key, cause] = (when, self._added)
            heapq.heappush(self._deadlines, (when, self._added, key, cause))
            self._drop_stale()

    def is_scheduled(self, key: Key, cause: Cause) -> bool:
        """Whether the cause of a parent has a deadline in the future."""
        return (key, cause) in self._delayed

    def cancel(self, key: Key, cause: Cause) -> None:
        """Remove the deadline of one cause."""
        if self._delayed.pop((key, cause), None) is not None:
            self._drop_stale()

    def forget(self, key: Key) -> None:
        """Remove the parent with all causes and deadlines."""
        self._waiting.pop(key, None)
        self._since.pop(key, None)
        self._slow.discard(key)
        self._remove(key)
        for cause in Cause:
            self.cancel(key, cause)

    def set_slow(self, key: Key, *, slow: bool) -> None:
        """From now on, the parent waits among the slow ones, or among the others."""
        if slow:
            self._slow.add(key)
        else:
            self._slow.discard(key)
        if key in self._places:
            self._put(key, self._places[key][1])

    def is_ready(self, *, slow: bool) -> bool:
        """Whether a slow parent, or another one, can be handed out now."""
        return any(self._ready[slow].values())

    def pop(self, now: float, *, slow: bool = False) -> Item[Key] | None:
        """Hand out the next parent, a slow one or another. It is processed until `done`. None if no such parent is
        due.
        """
        self._add_due(now)
        key = self._next_key(slow=slow)
        if key is None:
            return None
        flows, flow = self._line(self._places[key]), self._flow_of(key)
        self._remove(key)
        if flow in flows:
            flows.move_to_end(flow)
        self._processing[key] = now
        return Item(key, self._waiting.pop(key), self._since.pop(key))

    def has_as_urgent(self, causes: Cause, beside: Key | None = None) -> bool:
        """Whether a parent waits that is at least as urgent as one with these causes.

        With `beside`, only parents of its flow count that are as slow, unless parents of more than FEW_FLOWS flows wait
        in one priority.
        """
        last = rank(causes)
        lines = self._ready.values() if beside is None else (self._ready[beside in self._slow],)
        urgent = [flows for line in lines for place, flows in line.items() if place <= last and flows]
        if beside is None:
            return bool(urgent)
        flow = self._flow_of(beside)
        return any(flow in flows or len(flows) > FEW_FLOWS for flows in urgent)

    def done(self, key: Key) -> None:
        """End the processing of the parent. If it was added meanwhile, it waits again."""
        del self._processing[key]
        if key in self._waiting:
            self._put(key, rank(self._waiting[key]))

    def waiting(self, now: float) -> Iterator[WaitingItem[Key]]:
        """The parents that wait and are not processed: the most urgent ones first, and flow by flow."""
        for ready in self._ready.values():
            for flows in ready.values():
                for line in flows.values():
                    for key in line:
                        yield WaitingItem(key, self._waiting[key], now - self._since[key])

    def processing(self, now: float) -> dict[Key, float]:
        """The parents that are processed, with the seconds spent so far."""
        return {key: now - since for key, since in self._processing.items()}

    @property
    def delayed(self) -> int:
        """How many causes of parents are due later."""
        return len(self._delayed)

    def unfinished(self, now: float) -> float:
        """The seconds spent so far on all parents that are processed now."""
        return sum(now - since for since in self._processing.values())

    def longest_running(self, now: float) -> float:
        """The seconds spent so far on the parent that has been processed for the longest time."""
        return max((now - since for since in self._processing.values()), default=0.0)

    def next_deadline(self) -> float | None:
        """The earliest deadline, None without one."""
        while self._deadlines:
            if self._is_set(self._deadlines[0]):
                return self._deadlines[0][0]
            heapq.heappop(self._deadlines)
        return None

    def _is_set(self, entry: tuple[float, int, Key, Cause]) -> bool:
        """Whether an entry of the heap is a deadline that is still set."""
        when, number, key, cause = entry
        return self._delayed.get((key, cause)) == (when, number)

    def _drop_stale(self) -> None:
        """Rebuild the heap if most entries are stale: otherwise a stale entry stays until its time comes."""
        if len(self._deadlines) > 2 * len(self._delayed) + FEW_DEADLINES:
            self._deadlines = [entry for entry in self._deadlines if self._is_set(entry)]
            heapq.heapify(self._deadlines)

    def _next_key(self, *, slow: bool) -> Key | None:
        """The most urgent parent that waits and is not processed, None without one."""
        for flows in self._ready[slow].values():
            if flows:
                return next(iter(next(iter(flows.values()))))
        return None

    def _line(self, place: tuple[bool, int]) -> _Flows[Key]:
        slow, urgency = place
        return self._ready[slow][urgency]

    def _put(self, key: Key, urgency: int) -> None:
        """Put the parent at the end of its flow's line, unless its place is the same already."""
        place = (key in self._slow, urgency)
        if self._places.get(key) == place:
            return
        self._remove(key)
        self._places[key] = place
        self._line(place).setdefault(self._flow_of(key), OrderedDict())[key] = None

    def _remove(self, key: Key) -> None:
        place = self._places.pop(key, None)
        if place is not None:
            flows, flow = self._line(place), self._flow_of(key)
            del flows[flow][key]
            if not flows[flow]:
                del flows[flow]

    def _add_due(self, now: float) -> None:
        while (when := self.next_deadline()) is not None and when <= now:
            _, _, key, cause = heapq.heappop(self._deadlines)
            del self._delayed[key, cause]
            self.add(key, cause, when)


class Queue(Generic[Key]):
    """A work queue that workers wait on.

    `clock` returns the seconds of the event loop's clock. `observe` receives the queue duration of each parent.
    `flow_of` names the flow of a parent.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        observe: Callable[[float], object] = float,
        flow_of: Callable[[Key], Hashable] = one_flow,
    ) -> None:
        self._state: QueueState[Key] = QueueState(flow_of)
        self._clock = clock
        self._observe = observe
        self._idle_workers: dict[bool, deque[asyncio.Future[None]]] = {False: deque(), True: deque()}
        """The idle workers of slow parents, and the others."""
        self._empty_waiters: list[asyncio.Future[None]] = []
        self._done_waiters: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._closed = False
        self.adds = 0
        """How often a parent was added, at once or with a deadline."""

    def __len__(self) -> int:
        return len(self._state)

    def add(self, key: Key, cause: Cause) -> None:
        self.adds += 1
        self._state.add(key, cause, self._clock())
        self._wake_for_ready()

    def add_after(self, key: Key, cause: Cause, seconds: float) -> None:
        self.adds += 1
        self._state.add_at(key, cause, self._clock() + seconds)
        self._set_timer()

    def is_scheduled(self, key: Key, cause: Cause) -> bool:
        return self._state.is_scheduled(key, cause)

    def has_as_urgent(self, causes: Cause, beside: Key | None = None) -> bool:
        return self._state.has_as_urgent(causes, beside)

    def waiting(self) -> Iterator[WaitingItem[Key]]:
        return self._state.waiting(self._clock())

    def processing(self) -> dict[Key, float]:
        return self._state.processing(self._clock())

    def unfinished(self) -> float:
        return self._state.unfinished(self._clock())

    def longest_running(self) -> float:
        return self._state.longest_running(self._clock())

    def cancel(self, key: Key, cause: Cause) -> None:
        self._state.cancel(key, cause)

    def set_slow(self, key: Key, *, slow: bool) -> None:
        self._state.set_slow(key, slow=slow)
        self._wake_for_ready()

    def forget(self, key: Key) -> None:
        self._state.forget(key)
        self._notify_empty()

    async def until_empty(self) -> None:
        """Wait until no parent waits for a worker."""
        while len(self._state):
            waiter = asyncio.get_running_loop().create_future()
            self._empty_waiters.append(waiter)
            await waiter

    async def until_idle(self) -> None:
        """Wait until no parent waits for a worker, and none is processed."""
        while len(self._state) or self._state.processing(0.0):
            await self.until_empty()
            if self._state.processing(0.0):
                waiter = asyncio.get_running_loop().create_future()
                self._done_waiters.append(waiter)
                await waiter

    def done(self, key: Key) -> None:
        self._state.done(key)
        self._wake_for_ready()
        for waiter in self._done_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._done_waiters.clear()

    def close(self) -> None:
        """Stop handing out parents. Workers that wait get None."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for slow, idle in self._idle_workers.items():
            while idle:
                self._wake_worker(slow=slow)

    async def get(self, *, slow: bool = False) -> tuple[Key, Cause] | None:
        """Wait for the next slow parent, or the next other one, and return it with its causes; None when the queue is
        closed.
        """
        idle = self._idle_workers[slow]
        while not self._closed:
            now = self._clock()
            item = self._state.pop(now, slow=slow)
            self._set_timer()
            # One wake-up is for one parent, so other workers are woken for the next ones, too, if they became due.
            self._wake_for_ready()
            if item is not None:
                self._observe(now - item.since)
                if self._empty_waiters:
                    self._notify_empty()
                return item.key, item.causes
            waiter = asyncio.get_running_loop().create_future()
            idle.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter in idle:
                    idle.remove(waiter)
                else:
                    # This worker was woken and is cancelled: it wakes another one, or a parent would wait for ever.
                    self._wake_worker(slow=slow)
                raise
        return None

    def _wake_for_ready(self) -> None:
        """Wake a worker for the next parent, and one for the next slow one."""
        for slow, idle in self._idle_workers.items():
            if idle and self._state.is_ready(slow=slow):
                self._wake_worker(slow=slow)

    def _wake_worker(self, *, slow: bool) -> None:
        idle = self._idle_workers[slow]
        while idle:
            waiter = idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _notify_empty(self) -> None:
        if not len(self._state):
            for waiter in self._empty_waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._empty_waiters.clear()

    def _set_timer(self) -> None:
        when = self._state.next_deadline()
        if self._timer is not None:
            if self._timer_at == when:
                return
            self._timer.cancel()
            self._timer = None
        if when is not None and not self._closed:
            self._timer = asyncio.get_running_loop().call_at(when, self._on_timer)
            self._timer_at = when

    def _on_timer(self) -> None:
        # If no worker waits, the next one that is free gets the parent.
        self._timer = None
        self._wake_worker(slow=False)
        self._wake_worker(slow=True)
