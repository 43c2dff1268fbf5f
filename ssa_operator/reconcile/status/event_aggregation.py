"""Aggregates and limits Events: a repeated Event becomes a series, and token buckets limit the rate of new ones.

It follows client-go: the series are those of `tools/events`, the token bucket of each parent is the spam filter of
`tools/record`.

Promises:
- An Event that repeats within `SERIES_FINISH_TIME` of the last time is counted in the `series` of the existing Event.
  That count is written at most every `HEARTBEAT`, and when the operator stops.
- A parent has `PARENT_BURST` Events at once and then one every `PARENT_INTERVAL`. All parents together have `BURST` and
  then `RATE` a second; the last quarter of the burst is for warnings. Any Event beyond that is dropped.
- The caches of series and of token buckets are bounded.
- Time is an argument. Intervals are those of the monotonic clock, so that a change of the wall clock drops no Event.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.status.events import Event, EventSeries, event_body

SERIES_FINISH_TIME = 360.0
"""Seconds without a repetition after which a series is over."""

HEARTBEAT = 30.0
"""Seconds between two writes of a series."""

PARENT_BURST = 25
PARENT_INTERVAL = 300.0
BURST = 100
RATE = 10.0

MAX_LRU_CACHE_ENTRIES = 4096
"""Series that are kept, and token buckets of parents. The least recently used one is dropped first."""


class Moment(NamedTuple):
    """The time on both clocks."""

    wall: float
    """In seconds since the epoch: the time that an Event records."""
    monotonic: float
    """In seconds on the process's monotonic clock, which measures intervals."""


class TokenBucket(Struct):
    """A token bucket: it holds at most `burst` tokens and gets `rate` tokens a second."""

    burst: float
    rate: float
    tokens: float
    since: float

    def take(self, now: float, reserve: float = 0.0) -> bool:
        """Take a token, unless that would leave less than `reserve`."""
        self.tokens = min(self.burst, self.tokens + (now - self.since) * self.rate)
        self.since = now
        if self.tokens - 1 < reserve:
            return False
        self.tokens -= 1
        return True


class EventKey(NamedTuple):
    """Two Events with the same key are one series."""

    uid: str
    warning: bool
    reason: str
    action: str
    note: str


class _Series(Struct):
    """An Event that was written, and its repetitions."""

    namespace: str
    name: str
    count: int
    last: Moment
    """When the Event occurred last."""
    written: int
    """The count that was written last."""
    written_at: float

    def write(self, now: float) -> Write:
        """The request that writes the count."""
        self.written, self.written_at = self.count, now
        return Write(namespace=self.namespace, name=self.name, series=EventSeries(self.count, self.last.wall))


class Write(Struct, frozen=True, kw_only=True):
    """One request: it creates an Event (`body`), or patches the `series` of an existing one."""

    namespace: str
    name: str
    body: dict[str, object] | None = None
    series: EventSeries | None = None


class EventCorrelator:
    """Decides for each Event whether it is created, counted in a series, or dropped. `instance` names this process."""

    def __init__(self, instance: str, now: float) -> None:
        self._instance = instance
        self._series: OrderedDict[EventKey, _Series] = OrderedDict()
        self._parent_buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._bucket = TokenBucket(BURST, RATE, BURST, now)

    def correlate(self, parent: LiveObject, event: Event, moment: Moment) -> Write | None:
        """The request for an Event, None if it is only counted. Raises EventDropped if a token bucket is empty."""
        now = moment.monotonic
        regarding = event.regarding or parent
        key = EventKey(regarding.uid, event.warning, event.reason, event.action, event.note)
        series = self._series.get(key)
        if series is not None and now - series.last.monotonic <= SERIES_FINISH_TIME:
            self._series.move_to_end(key)
            series.count += 1
            series.last = moment
            return self._heartbeat(series, now)
        reserve = 0.0 if event.warning else BURST / 4
        if not self._take_of_parent(parent.uid, now) or not self._bucket.take(now, reserve):
            raise EventDropped
        body = event_body(event, regarding, self._instance, moment.wall)
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        self._series.pop(key, None)
        self._series[key] = _Series(namespace, name, 1, moment, 1, now - HEARTBEAT)
        if len(self._series) > MAX_LRU_CACHE_ENTRIES:
            self._series.popitem(last=False)
        return Write(namespace=namespace, name=name, body=body)

    def due_series(self, now: float, *, end: bool = False) -> Iterator[Write]:
        """The requests for the counts that are due; at the `end`, for all counts that changed. Removes the series that
        are over.
        """
        for key, series in list(self._series.items()):
            over = now - series.last.monotonic > SERIES_FINISH_TIME
            if series.count > series.written and (over or end or now - series.written_at >= HEARTBEAT):
                yield series.write(now)
            if over:
                del self._series[key]

    def forget(self, namespace: str, name: str) -> None:
        """Forget an Event that doesn't exist: the next repetition creates a new one."""
        for key, series in list(self._series.items()):
            if (series.namespace, series.name) == (namespace, name):
                del self._series[key]

    def _take_of_parent(self, uid: str, now: float) -> bool:
        """Take a token of the parent's own bucket."""
        bucket = self._parent_buckets.pop(uid, None) or TokenBucket(
            PARENT_BURST, 1 / PARENT_INTERVAL, PARENT_BURST, now
        )
        self._parent_buckets[uid] = bucket
        if len(self._parent_buckets) > MAX_LRU_CACHE_ENTRIES:
            self._parent_buckets.popitem(last=False)
        return bucket.take(now)

    def _heartbeat(self, series: _Series, now: float) -> Write | None:
        if now - series.written_at < HEARTBEAT or not self._bucket.take(now):
            return None
        return series.write(now)


class EventDropped(Exception):  # noqa: N818 - it is no error
    """A token bucket is empty, so the Event is not written."""
