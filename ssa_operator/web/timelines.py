"""What happened to parents in the last hour: reconciles, changes by others and conditions, in bounded memory.

Promises:
- At most MAX_ENTRIES are kept, of one parent at most MAX_OF_PARENT, and none that is older than an hour. The oldest are
  dropped first, of one parent the conditions last.
- Reconciles that follow one another for the same causes, with the same result and without a change, are one entry with
  their number.
- An entry has names of objects, fields and managers, and no value of a field.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Any

from ssa_operator.informers.parents import ParentKey
from ssa_operator.objects.identity import Identity

HOUR = 3600.0

MAX_ENTRIES = 20_000

MAX_OF_PARENT = 400

RUN = 600.0
"""Seconds for which reconciles may be one entry, so that the entries are nearly in the order in which they end."""


class EntryKind(StrEnum):
    """What an entry is about."""

    RECONCILE = "reconcile"
    CHANGE = "change"
    """A change by another manager, of the parent or of a child."""
    CONDITION = "condition"
    """A condition of the parent got another status or reason."""


@dataclass(slots=True, kw_only=True)
class PastEntry:
    """One thing that happened, or several reconciles that were alike."""

    id: int
    kind: EntryKind
    at: float
    """When it began, in seconds since the epoch."""
    until: float
    """When the last one of its reconciles ended."""
    count: int = 1
    seconds: float = 0.0
    """How long its longest reconcile took."""
    data: Mapping[str, Any]
    """What a page shows of it."""
    child: Identity | None = None
    """The child that another manager changed."""
    fields: Sequence[str] = ()
    """The fields of the child that it changed, which only a reader of the child may see."""


@dataclass(slots=True)
class _OfParent:
    entries: deque[PastEntry] = field(default_factory=deque)
    waiting: list[asyncio.Event] = field(default_factory=list)


class Timelines:
    """The entries of all parents. `now` is in seconds since the epoch."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._parents: dict[ParentKey, _OfParent] = {}
        self._order: deque[tuple[ParentKey, PastEntry]] = deque()
        self._ids = count(1)

    def reconciled(self, key: ParentKey, seconds: float, data: Mapping[str, Any], *, changed: bool) -> None:
        """Add a reconcile that ended now. One that `changed` something is an entry of its own."""
        now = self._now()
        entries = self._of(key).entries
        last = entries[-1] if entries else None
        alike = last is not None and last.kind is EntryKind.RECONCILE and not changed and last.data == data
        if last is not None and alike and now - last.at < RUN:
            last.until, last.seconds, last.count = now, max(last.seconds, seconds), last.count + 1
            self._tell(key)
            return
        self._add(key, EntryKind.RECONCILE, data, at=now - seconds, until=now, seconds=seconds)

    def changed_by_other(
        self, key: ParentKey, data: Mapping[str, Any], child: Identity | None = None, fields: Sequence[str] = ()
    ) -> None:
        """Add a change by another manager, of the parent or of a child."""
        now = self._now()
        self._add(key, EntryKind.CHANGE, data, at=now, until=now, child=child, fields=fields)

    def condition_changed(self, key: ParentKey, data: Mapping[str, Any]) -> None:
        """Add another status or reason of a condition."""
        now = self._now()
        self._add(key, EntryKind.CONDITION, data, at=now, until=now)

    def of(self, key: ParentKey) -> Sequence[PastEntry]:
        """The entries of a parent, the oldest first."""
        found, since = self._parents.get(key), self._now() - HOUR
        return () if found is None else tuple(each for each in found.entries if each.until >= since)

    @contextmanager
    def changes(self, key: ParentKey) -> Iterator[asyncio.Event]:
        """An event that each new entry of a parent sets."""
        event = asyncio.Event()
        found = self._of(key)
        found.waiting.append(event)
        try:
            yield event
        finally:
            found.waiting.remove(event)

    def __len__(self) -> int:
        return len(self._order)

    def _of(self, key: ParentKey) -> _OfParent:
        found = self._parents.get(key)
        if found is None:
            found = self._parents[key] = _OfParent()
        return found

    def _add(self, key: ParentKey, kind: EntryKind, data: Mapping[str, Any], **more: Any) -> None:
        entry = PastEntry(id=next(self._ids), kind=kind, data=data, **more)
        entries = self._of(key).entries
        entries.append(entry)
        self._order.append((key, entry))
        if len(entries) > MAX_OF_PARENT:
            # Two managers that write one field fill the hour; how ready the parent was stays known.
            entries.remove(next((each for each in entries if each.kind is not EntryKind.CONDITION), entries[0]))
        if len(self._order) > MAX_ENTRIES:
            self._drop_first()
        self._drop_old()
        self._tell(key)

    def _drop_old(self) -> None:
        since = self._now() - HOUR
        while self._order and self._order[0][1].until < since:
            self._drop_first()

    def _drop_first(self) -> None:
        key, entry = self._order.popleft()
        found = self._parents[key]
        # Its parent may have dropped it before, because it has too many.
        if found.entries and found.entries[0] is entry:
            found.entries.popleft()
        if not found.entries and not found.waiting:
            del self._parents[key]

    def _tell(self, key: ParentKey) -> None:
        for event in self._parents[key].waiting:
            event.set()


def entry_data(entry: PastEntry, readable: Collection[Identity]) -> dict[str, Any]:
    """An entry as JSON. The fields of a child are shown to those who may read it."""
    data: dict[str, Any] = {"kind": entry.kind.value, "at": round(entry.at, 2), **entry.data}
    if entry.kind is EntryKind.RECONCILE:
        data |= {"seconds": round(entry.seconds, 3), "until": round(entry.until, 2)}
        if entry.count > 1:
            data["count"] = entry.count
    if entry.fields and (entry.child is None or entry.child in readable):
        data["fields"] = list(entry.fields)
    return data
