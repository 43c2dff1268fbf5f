"""One row for each parent of a running operator, kept current from the informers' events.

Promises:
- A row has the conditions and the children of the parent's status, as `ssa-operator status` prints them.
- A search over all rows reads no object: a row is made once for each version of its parent.
- Parents that are not ready come first: those that need a change, then those that may become ready, then the others.

How it works:
Each template folder has one informer of parents. It calls `_changed` with what a watch or an own write stored, and that
makes one row. `version` grows with each row that differs from the one before, so a page that has nothing to show costs
one comparison of numbers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness.rules import ReadinessState
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.status.previous_status import reported_children
from ssa_operator.tools.tree.tree_view import conditions_of

READY, WORKING, FAILED, UNKNOWN = "ready", "working", "failed", "unknown"
"""The groups of states that a page counts: Ready, may become ready by itself, needs a change, not reported yet."""

_RANKS = {FAILED: 0, WORKING: 1, UNKNOWN: 2, READY: 3}


class ParentRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One parent, as a list shows it."""

    folder: str
    """The template folder that renders it, such as `echoes.example.com`."""
    kind: str
    namespace: str
    """'' if it is cluster-scoped."""
    name: str
    uid: str
    group: str
    """READY, WORKING, FAILED or UNKNOWN."""
    reason: str
    """The reason of its condition Ready."""
    message: str = ""
    """The message of its condition Ready, where it is not ready."""
    since: str | None = None
    """Since when it has this status (RFC 3339)."""
    current: int = 0
    """How many of its children are Current."""
    children: int = 0
    suspended: bool = False
    conflict: bool = False
    """Whether another field manager changes what its templates write, or its status."""

    @property
    def address(self) -> tuple[str, str, str]:
        """Its place among all parents."""
        return self.folder, self.namespace, self.name

    @property
    def urgency(self) -> tuple[int, str, str, str]:
        """The key by which rows are sorted."""
        return _RANKS[self.group], self.folder, self.namespace, self.name


def row_of(folder: str, live: LiveObject) -> ParentRow:
    """The row of a parent, made of its status."""
    conditions = {each["type"]: each for each in conditions_of(live) if isinstance(each.get("type"), str)}
    ready: Mapping[str, Any] = conditions.get("Ready", {})
    is_ready, stalled = ready.get("status") == "True", "Stalled" in conditions
    group = READY if is_ready else FAILED if stalled else WORKING if ready else UNKNOWN
    children = reported_children(live) or ()
    reason = str(ready.get("reason", "Unknown"))
    since = ready.get("lastTransitionTime")
    identity = live.identity
    return ParentRow(
        folder=folder,
        kind=identity.kind,
        namespace=identity.namespace,
        name=identity.name,
        uid=live.uid,
        group=group,
        reason=reason,
        message="" if is_ready else str(ready.get("message", "")),
        since=since if isinstance(since, str) else None,
        current=sum(each.get("state") == ReadinessState.CURRENT for each in children),
        children=len(children),
        suspended="Suspended" in conditions,
        conflict=reason == "Conflict" or "Conflict" in conditions,
    )


class Filter(Struct, frozen=True, kw_only=True):
    """Which parents a list shows; what is empty selects nothing."""

    folder: str = ""
    namespace: str = ""
    group: str = ""
    """READY, WORKING, FAILED, UNKNOWN, or `unready` for all but READY."""
    text: str = ""
    """Words that each occur in the kind, the namespace, the name, the reason or the message, in any case."""
    suspended: bool = False
    conflict: bool = False

    @property
    def words(self) -> Sequence[str]:
        return self.text.lower().split()


class _Indexed(Struct, frozen=True):
    """A row with the text in which a search looks."""

    row: ParentRow
    text: str


RowListener = Callable[[ParentRow, LiveObject, LiveObject], None]
"""Receives the row of a parent that changed, and the parent before and after the change."""


class ParentRows:
    """The rows of all parents. `folders` are the informers of a running operator, by folder."""

    def __init__(self, folders: Mapping[str, Parents]) -> None:
        self.on_change: RowListener = lambda *_: None
        """Receives each change of a parent."""
        self.version = 0
        """How often a row was made, changed or removed."""
        self._folders = folders
        self._followed: dict[str, Parents] = {}
        self._rows: dict[str, dict[tuple[str, str], _Indexed]] = {}
        self._sorted: tuple[int, list[_Indexed]] = (-1, [])
        self._waiting: dict[str, list[asyncio.Event]] = {}

    def follow(self) -> None:
        """Take up the folders that the operator runs now."""
        for name in self._followed.keys() - self._folders.keys():
            del self._followed[name], self._rows[name]
            self.version += 1
        for name, parents in self._folders.items():
            if self._followed.get(name) is not parents:
                self._follow(name, parents)

    def _follow(self, name: str, parents: Parents) -> None:
        self._followed[name] = parents
        rows: dict[tuple[str, str], _Indexed] = {}
        self._rows[name] = rows
        for live in parents:
            rows[live.identity.namespace, live.identity.name] = _indexed(row_of(name, live))
        self.version += 1

        def changed(old: LiveObject | None, new: LiveObject | None) -> None:
            if self._rows.get(name) is rows:
                self._changed(name, rows, old, new)

        parents.listen(changed, own_writes=True)

    def _changed(
        self, folder: str, rows: dict[tuple[str, str], _Indexed], old: LiveObject | None, new: LiveObject | None
    ) -> None:
        live = new or old
        if live is None:
            return
        for event in self._waiting.get(live.uid, ()):
            event.set()
        key = (live.identity.namespace, live.identity.name)
        if new is None:
            self.version += rows.pop(key, None) is not None
            return
        row = row_of(folder, new)
        if old is not None and old.uid == new.uid:
            self.on_change(row, old, new)
        before = rows.get(key)
        if before is None or before.row != row:
            rows[key] = _indexed(row)
            self.version += 1

    @contextmanager
    def changes(self, uid: str) -> Iterator[asyncio.Event]:
        """An event that each change of a parent sets, of its status and of what no row shows, too."""
        event = asyncio.Event()
        waiting = self._waiting.setdefault(uid, [])
        waiting.append(event)
        try:
            yield event
        finally:
            waiting.remove(event)
            if not waiting:
                del self._waiting[uid]

    def select(self, wanted: Filter, visible: Collection[str]) -> list[ParentRow]:
        """The rows of the `visible` folders that a filter selects, in order."""
        words = wanted.words
        return [
            each.row
            for each in self._in_order()
            if each.row.folder in visible and _fits(each.row, wanted) and all(word in each.text for word in words)
        ]

    def namespaces(self, visible: Collection[str]) -> list[str]:
        """The namespaces of the parents of the `visible` folders."""
        found = {namespace for folder in visible for namespace, _ in self._rows.get(folder, {})}
        return sorted(found - {""})

    def counts(self, folder: str) -> Mapping[str, int]:
        """How many parents of a folder each group of states has."""
        return Counter(each.row.group for each in self._rows.get(folder, {}).values())

    def _in_order(self) -> list[_Indexed]:
        version, found = self._sorted
        if version != self.version:
            found = sorted(
                (each for rows in self._rows.values() for each in rows.values()), key=lambda each: each.row.urgency
            )
            self._sorted = (self.version, found)
        return found


def _indexed(row: ParentRow) -> _Indexed:
    return _Indexed(row, f"{row.kind} {row.namespace}/{row.name} {row.reason} {row.message}".lower())


def _fits(row: ParentRow, wanted: Filter) -> bool:
    return (
        wanted.folder in ("", row.folder)
        and wanted.namespace in ("", row.namespace)
        and (wanted.group in ("", row.group) or (wanted.group == "unready" and row.group != READY))
        and (row.suspended or not wanted.suspended)
        and (row.conflict or not wanted.conflict)
    )
