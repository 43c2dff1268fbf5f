"""Which events are written: the same ones once, with a count, and never more than the API server should bear.

Promises (as client-go's `tools/events` and `tools/record` do):
- What is told again within `LULL` of the last time is counted in the `series` of the event that exists; such a count is
  written at most every `HEARTBEAT`, and at the end.
- A parent has `PARENT_BURST` events at once and then one every `PARENT_PAUSE`; all parents together have `BURST` and
  then `RATE` a second, the last quarter of it for warnings only. What is beyond that is not written.
- What is remembered is bounded. Time is an argument, in seconds since the epoch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.status.events import Event, EventSeries, body

LULL = 360.0
HEARTBEAT = 30.0
PARENT_BURST = 25
PARENT_PAUSE = 300.0
BURST = 100
RATE = 10.0
REMEMBERED = 4096


@dataclass(slots=True)
class Bucket:
    """Tokens: `burst` at most, `rate` more a second."""

    burst: float
    rate: float
    tokens: float
    since: float

    def take(self, now: float, reserve: float = 0.0) -> bool:
        """Take a token, unless no more than `reserve` are left."""
        self.tokens = min(self.burst, self.tokens + (now - self.since) * self.rate)
        self.since = now
        if self.tokens - 1 < reserve:
            return False
        self.tokens -= 1
        return True


class Key(NamedTuple):
    """What makes two events the same."""

    uid: str
    warning: bool
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class _Told:
    namespace: str
    name: str
    count: int
    last: float
    written: int
    written_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One request: a new Event (`body`), or the `series` of one that exists."""

    namespace: str
    name: str
    body: dict[str, object] | None = None
    series: EventSeries | None = None


class Correlator:
    """What was told already. `instance` is which operator tells it."""

    def __init__(self, instance: str, now: float) -> None:
        self._instance = instance
        self._told: OrderedDict[Key, _Told] = OrderedDict()
        self._parents: OrderedDict[str, Bucket] = OrderedDict()
        self._all = Bucket(BURST, RATE, BURST, now)

    def tell(self, parent: LiveObject, event: Event, now: float) -> Write | None:
        """The request that tells it; None where it is only counted. Raises Dropped where there is no room for it."""
        key = Key(parent.uid, event.warning, event.reason, event.action, event.note)
        told = self._told.get(key)
        if told is not None and now - told.last <= LULL:
            self._told.move_to_end(key)
            told.count += 1
            told.last = now
            return self._beat(told, now)
        if not self._room(parent.uid, now) or not self._all.take(now, 0.0 if event.warning else BURST / 4):
            raise Dropped
        made = body(event, parent, self._instance, now)
        namespace, name = made["metadata"]["namespace"], made["metadata"]["name"]
        self._told.pop(key, None)
        self._told[key] = _Told(namespace, name, 1, now, 1, now - HEARTBEAT)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        return Write(namespace=namespace, name=name, body=made)

    def due(self, now: float, *, end: bool = False) -> Iterator[Write]:
        """The counts that have to be written now; all of them at the `end`. What is over is forgotten."""
        for key, told in list(self._told.items()):
            over = now - told.last > LULL
            if told.count > told.written and (over or end or now - told.written_at >= HEARTBEAT):
                yield self._counted(told, now)
            if over:
                del self._told[key]

    def forget(self, namespace: str, name: str) -> None:
        """The event doesn't exist: what is told again is a new one."""
        for key, told in list(self._told.items()):
            if (told.namespace, told.name) == (namespace, name):
                del self._told[key]

    def _room(self, uid: str, now: float) -> bool:
        bucket = self._parents.pop(uid, None) or Bucket(PARENT_BURST, 1 / PARENT_PAUSE, PARENT_BURST, now)
        self._parents[uid] = bucket
        if len(self._parents) > REMEMBERED:
            self._parents.popitem(last=False)
        return bucket.take(now)

    def _beat(self, told: _Told, now: float) -> Write | None:
        if now - told.written_at < HEARTBEAT or not self._all.take(now):
            return None
        return self._counted(told, now)

    @staticmethod
    def _counted(told: _Told, now: float) -> Write:
        told.written, told.written_at = told.count, now
        return Write(namespace=told.namespace, name=told.name, series=EventSeries(told.count, told.last))


class Dropped(Exception):  # noqa: N818 - it is no error
    """There is no room for one more event now."""
