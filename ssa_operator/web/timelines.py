"""What happened to parents in the last hour: reconciles, changes by others and conditions, in bounded memory.

Promises:
- At most MAX_ENTRIES are kept, of one parent at most MAX_OF_PARENT, and none that is older than an hour. The oldest are
  dropped first, of one parent the conditions last.
- Reconciles that follow one another for the same causes, with the same result and without a change, are one entry with
  their number.
- An entry has names of objects, fields and managers, and no value of a field.
- A change by another manager is one of a field that this manager owns, by the object's managedFields. Writes of a
  status are none, because controllers make them all the time. The first state of an object is no change.
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
from weakref import WeakSet

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.field_set import changed_fields, path_text
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import HANDOVER_MANAGER, MANAGER, LiveObject
from ssa_operator.objects.readiness import conditions_of
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.workers import EndedReconcile
from ssa_operator.reconcile.child import Child, Result
from ssa_operator.reconcile.parent_records import rules as parent_records
from ssa_operator.web.parent_page import key_of
from ssa_operator.web.parent_rows import ParentRow

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


MAX_DONE = 12
"""Objects that one reconcile names; the others are counted."""

MAX_FIELDS = 8

_OWN = frozenset({MANAGER, HANDOVER_MANAGER, parent_records.MANAGER})
"""The field managers of the operator itself."""
_DONE = frozenset({Result.CREATED, Result.CONFIGURED, Result.RECREATED, Result.PRUNED, Result.FAILED})


class TimelineRecording:
    """Follows an operator. `follow_parents` makes its caller receive the changes of all parents that it has by now."""

    def __init__(self, operator: Operator, timelines: Timelines, follow_parents: Callable[[], None]) -> None:
        self._follow_parents = follow_parents
        self._operator = operator
        self._timelines = timelines
        self._followed: WeakSet[Cache] = WeakSet()
        self._open = False

    def start(self) -> None:
        self._open = True
        self._operator.reconcile_listeners.append(self.reconciled)
        self._follow_children()

    def stop(self) -> None:
        self._open = False
        self._operator.reconcile_listeners.remove(self.reconciled)

    def reconciled(self, ended: EndedReconcile) -> None:
        """A reconcile ended."""
        self._follow_parents()
        self._follow_children()
        done = [_done(each) for each in ended.report.outcomes if each.result in _DONE] if ended.report else []
        data: dict[str, Any] = {"causes": _causes(ended.causes), "result": ended.result}
        if done:
            data["did"] = done[:MAX_DONE]
            if len(done) > MAX_DONE:
                data["more"] = len(done) - MAX_DONE
        if ended.message:
            data["message"] = ended.message
        changed = any(each["result"] != Result.FAILED.value for each in done)
        self._timelines.reconciled(ended.key, ended.seconds, data, changed=changed)

    def parent_changed(self, row: ParentRow, old: LiveObject, new: LiveObject) -> None:
        """A parent changed, by its user or by the operator's status."""
        key = ParentKey(row.folder, row.namespace, row.name)
        before = {each.get("type"): each for each in conditions_of(old.body)}
        for condition in conditions_of(new.body):
            known = before.get(condition.get("type"), {})
            if any(known.get(part) != condition.get(part) for part in ("status", "reason")):
                data = {part: _text(condition.get(part)) for part in ("type", "status", "reason")}
                if known:
                    data["before"] = _text(known.get("reason"))
                if condition.get("type") == "Ready":
                    data["group"] = row.group
                self._timelines.condition_changed(key, data)
        for change in changes_by_others(old, new):
            fields = change.pop("fields")
            self._timelines.changed_by_other(key, {**change, "object": "parent"}, fields=fields)

    def _follow_children(self) -> None:
        """Listen to the caches of children that the operator has by now."""
        for informer in self._operator.controllers.children.informers.values():
            if informer.cache not in self._followed:
                self._followed.add(informer.cache)
                informer.cache.listen(self._child_changed)

    def _child_changed(self, old: LiveObject | None, new: LiveObject | None) -> None:
        live = new or old
        if not self._open or live is None or live.partial or old is None or old.partial:
            return
        for uid in live.parent_uids or old.parent_uids:
            self._child_of_changed(uid, old, new)

    def _child_of_changed(self, uid: str, old: LiveObject, new: LiveObject | None) -> None:
        live = new or old
        key = self._operator.shared.router.key_of(uid)
        parents = self._operator.folders.get(key.folder) if key is not None else None
        parent = parents.find(key.namespace, key.name) if key is not None and parents is not None else None
        if key is None or parents is None or parent is None or parent.deleting:
            return
        secrets = parents.state(parent).secrets
        identity = secrets.shown(live.identity)
        named = {"object": f"{identity.kind} {identity.name}", "child": key_of(identity)}
        if new is None or new.uid != old.uid:
            self._timelines.changed_by_other(key, {**named, "deleted": True})
            return
        quiet = bool(secrets.of(live.identity)) or identity.kind == "Secret"
        for change in changes_by_others(old, new):
            fields = change.pop("fields")
            self._timelines.changed_by_other(
                key, {**change, **named}, child=live.identity, fields=() if quiet else fields
            )


def changes_by_others(old: LiveObject, new: LiveObject) -> Iterator[dict[str, Any]]:
    """What other managers changed between two states of an object: `manager`, `operation`, `fields`."""
    times = {(each.manager, each.operation, each.subresource): each.time for each in old.managed_fields}
    found = [each for each in new.managed_fields if each.manager not in _OWN and each.subresource != "status"]
    same_spec = new.metadata.generation == old.metadata.generation != 0
    for entry in found:
        if same_spec and times.get((entry.manager, entry.operation, entry.subresource)) == entry.time:
            continue
        if paths := changed_fields(bytes(entry.fields_v1), old.body, new.body):
            yield {
                "manager": entry.manager,
                "operation": entry.operation,
                "fields": [path_text(path) for path in paths[:MAX_FIELDS]],
            }


def _done(outcome: Child) -> dict[str, Any]:
    identity = outcome.identity
    data = {"result": outcome.result.value, "object": f"{identity.kind} {identity.name}", "child": key_of(identity)}
    reason = outcome.message if outcome.result is Result.FAILED else outcome.reason
    return data | ({"reason": reason} if reason else {})


def _causes(causes: Cause) -> Sequence[str]:
    """The names of causes, the most urgent first."""
    found = [cause for cause in reversed(Cause) if cause in causes and cause is not Cause.RESYNC_DUE]
    return [(cause.name or "").lower() for cause in found]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
