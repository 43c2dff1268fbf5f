"""The work queue: which parent is looked at next.

Promises (client-go's util/workqueue, and controller-runtime's priority queue):
- Fair: within one rank, parents are handed out in the order in which they were added.
- Stingy: a parent is never handed out twice at once, and added many times before it is handed out it is handed out
  once, with all causes.
- A parent that is added while it is being worked on is handed out again afterwards.
- Users' changes go ahead of children's events, these ahead of statuses that were put off, retries, the first list and
  ticks: a resync never starves a change.
- Each cause of a parent keeps its earliest deadline.
- The time that a parent waits counts from the moment at which it was added or became due.

`Backlog` is the state alone, without a clock or a loop; `Queue` waits on it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Hashable
from enum import IntFlag
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Cause(IntFlag):
    """Why a parent is looked at; several may come together. A greater value is a more urgent one."""

    TICK = 1
    """The timer, not granted by the budget yet."""
    TICK_GRANTED = 2
    RESYNC = 4
    """It was in the first list and its status says that it has been seen before."""
    RETRY = 8
    STATUS = 16
    """A pass is over but for its status, which is still to be written."""
    TEMPLATE = 32
    """Its templates, its settings, a kind that it needs, or something that its templates look up changed."""
    CHILD = 64
    """Something that it made changed."""
    PARENT = 128
    """Somebody changed the parent itself."""
    STATUS_OVERDUE = 256
    """Its status has waited for long."""


APPLY_ALL = Cause.PARENT | Cause.TEMPLATE | Cause.RESYNC
"""Each of these has everything applied, also what is proven unchanged."""

STATUS_ONLY = Cause.STATUS | Cause.STATUS_OVERDUE
"""These alone have a status written, without another pass."""


def rank(causes: Cause) -> int:
    """The place in the queue that the most urgent cause gives: the smaller the earlier."""
    return -int(causes).bit_length()


class Item(NamedTuple, Generic[Key]):
    """A parent that the queue hands out: why, and since when it has waited."""

    key: Key
    causes: Cause
    since: float


class Backlog(Generic[Key]):
    """What waits, what is being worked on, and what is due later. Times are seconds on any one clock."""

    def __init__(self) -> None:
        self._waiting: dict[Key, Cause] = {}
        self._since: dict[Key, float] = {}
        self._working: dict[Key, float] = {}
        self._line: list[tuple[int, int, Key]] = []
        self._later: dict[tuple[Key, Cause], float] = {}
        self._deadlines: list[tuple[float, int, Key, Cause]] = []
        self._added = 0

    def __len__(self) -> int:
        """How many parents wait for a worker now."""
        return len(self._waiting)

    def add(self, key: Key, cause: Cause, now: float) -> None:
        """Have the parent looked at as soon as its turn comes."""
        self._since[key] = min(self._since.get(key, now), now)
        before = self._waiting.get(key)
        causes = (before or Cause(0)) | cause
        self._waiting[key] = causes
        if key not in self._working and (before is None or rank(causes) < rank(before)):
            self._stand(key, causes)

    def add_at(self, key: Key, cause: Cause, when: float) -> None:
        """Have the parent looked at from `when` on, unless the same cause is due earlier already."""
        due = self._later.get((key, cause))
        if due is None or when < due:
            self._later[key, cause] = when
            self._added += 1
            heapq.heappush(self._deadlines, (when, self._added, key, cause))

    def awaits(self, key: Key, cause: Cause) -> bool:
        """Whether the cause has a deadline that is not over."""
        return (key, cause) in self._later

    def cancel(self, key: Key, cause: Cause) -> None:
        """Forget the deadline of one cause."""
        self._later.pop((key, cause), None)

    def forget(self, key: Key) -> None:
        """Drop everything that waits or is due for the parent."""
        self._waiting.pop(key, None)
        self._since.pop(key, None)
        for cause in Cause:
            self.cancel(key, cause)

    def pop(self, now: float) -> Item[Key] | None:
        """The parent whose turn it is, and why; it is being worked on until `done`. None where nothing is due."""
        self._promote(now)
        key = self._first()
        if key is None:
            return None
        heapq.heappop(self._line)
        self._working[key] = now
        return Item(key, self._waiting.pop(key), self._since.pop(key))

    def urges(self, causes: Cause) -> bool:
        """Whether a parent waits for a worker that is at least as urgent as one with these causes."""
        key = self._first()
        return key is not None and rank(self._waiting[key]) <= rank(causes)

    def done(self, key: Key) -> None:
        """The work on the parent ended; what was added meanwhile stands in line now."""
        del self._working[key]
        if key in self._waiting:
            self._stand(key, self._waiting[key])

    def unfinished(self, now: float) -> float:
        """The seconds that have gone into all parents that are being worked on."""
        return sum(now - since for since in self._working.values())

    def longest_running(self, now: float) -> float:
        """The seconds that have gone into the parent that has been worked on for the longest time."""
        return max((now - since for since in self._working.values()), default=0.0)

    def next_deadline(self) -> float | None:
        """The earliest moment at which something is due, None where nothing is."""
        while self._deadlines:
            when, _, key, cause = self._deadlines[0]
            if self._later.get((key, cause)) == when:
                return when
            heapq.heappop(self._deadlines)
        return None

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is being worked on; deadlines don't count."""
        return not self._waiting and not self._working

    def _first(self) -> Key | None:
        """Whose turn it is now."""
        while self._line:
            location, _, key = self._line[0]
            causes = self._waiting.get(key)
            if causes is not None and key not in self._working and location == rank(causes):
                return key
            # It stands elsewhere in line by now, or is being worked on.
            heapq.heappop(self._line)
        return None

    def _stand(self, key: Key, causes: Cause) -> None:
        self._added += 1
        heapq.heappush(self._line, (rank(causes), self._added, key))

    def _promote(self, now: float) -> None:
        while (when := self.next_deadline()) is not None and when <= now:
            _, _, key, cause = heapq.heappop(self._deadlines)
            del self._later[key, cause]
            self.add(key, cause, when)


class Queue(Generic[Key]):
    """A backlog that workers wait on.

    `clock` gives the seconds of `asyncio`'s loop; `observe` receives the seconds that each parent waited for a worker.
    """

    def __init__(self, clock: Callable[[], float], observe: Callable[[float], object] = float) -> None:
        self._backlog: Backlog[Key] = Backlog()
        self._clock = clock
        self._observe = observe
        self._idle_workers: deque[asyncio.Future[None]] = deque()
        self._patient: list[asyncio.Future[None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        self._closed = False

    def __len__(self) -> int:
        return len(self._backlog)

    @property
    def idle(self) -> bool:
        return self._backlog.idle

    def add(self, key: Key, cause: Cause) -> None:
        self._backlog.add(key, cause, self._clock())
        self._wake()

    def add_after(self, key: Key, cause: Cause, seconds: float) -> None:
        self._backlog.add_at(key, cause, self._clock() + seconds)
        self._set_alarm()

    def awaits(self, key: Key, cause: Cause) -> bool:
        return self._backlog.awaits(key, cause)

    def urges(self, causes: Cause) -> bool:
        return self._backlog.urges(causes)

    def unfinished(self) -> float:
        return self._backlog.unfinished(self._clock())

    def longest_running(self) -> float:
        return self._backlog.longest_running(self._clock())

    def cancel(self, key: Key, cause: Cause) -> None:
        self._backlog.cancel(key, cause)

    def forget(self, key: Key) -> None:
        self._backlog.forget(key)
        self._let_others()

    async def empty(self) -> None:
        """Wait until no parent waits for a worker."""
        while len(self._backlog):
            waiter = asyncio.get_running_loop().create_future()
            self._patient.append(waiter)
            await waiter

    def done(self, key: Key) -> None:
        self._backlog.done(key)
        self._wake()

    def close(self) -> None:
        """Hand out nothing more; workers that wait get None."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        while self._idle_workers:
            self._wake()

    async def get(self) -> tuple[Key, Cause] | None:
        """The next parent and why, once there is one; None when the queue is closed."""
        while not self._closed:
            now = self._clock()
            item = self._backlog.pop(now)
            self._set_alarm()
            if item is not None:
                self._observe(now - item.since)
                # Another worker may be able to take what is left: one wake-up is one item otherwise.
                if len(self._backlog):
                    self._wake()
                else:
                    self._let_others()
                return item.key, item.causes
            waiter = asyncio.get_running_loop().create_future()
            self._idle_workers.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter in self._idle_workers:
                    self._idle_workers.remove(waiter)
                else:
                    # The wake-up was ours and is not used: hand it on, or an item is left lying.
                    self._wake()
                raise
        return None

    def _wake(self) -> None:
        while self._idle_workers:
            waiter = self._idle_workers.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _let_others(self) -> None:
        if self._patient and not len(self._backlog):
            for waiter in self._patient:
                if not waiter.done():
                    waiter.set_result(None)
            self._patient.clear()

    def _set_alarm(self) -> None:
        when = self._backlog.next_deadline()
        if self._alarm is not None:
            if self._rings_at == when:
                return
            self._alarm.cancel()
            self._alarm = None
        if when is not None and not self._closed:
            self._alarm = asyncio.get_running_loop().call_at(when, self._ring)
            self._rings_at = when

    def _ring(self) -> None:
        # Where nobody waits now, whoever is free next pops what is due.
        self._alarm = None
        self._wake()
