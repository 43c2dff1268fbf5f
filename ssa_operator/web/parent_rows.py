"""One row for each parent of a running operator, kept current from the informers' events.

Promises:
- A row has the conditions and the children of the parent's status, as `ssa-operator status` prints them. If the status
  has no place for them, as that of a built-in kind, the row has those of the operator's last report.
- A search over all rows reads no object: a row is made once for each version of its parent.
- The rows are in the order of `ssa-operator status`: what needs a change comes first, and what is ready last.

How it works:
Each template folder has one informer of parents. It calls `_changed` with what a watch or an own write stored, and
`reported` after a reconcile, and each makes one row. `version` grows with each row that differs from the one before, so
a page that has nothing to show costs one comparison of numbers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct

from ssa_operator.objects.label_selectors import label_selector, selects
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import ReadinessState, conditions_of
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.reconcile.status.previous_status import reported_children
from ssa_operator.tools.tree.tree_view import (
    FAILED,
    READY,
    UNKNOWN,
    WORKING,
    condition,
    entry,
    group_of,
    has_conflict,
    searched_text,
    urgency,
)

MAX_ANSWERS = 64
"""Answers that are kept until a row changes."""

_Answer = TypeVar("_Answer")


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


def row_of(folder: str, data: Mapping[str, Any]) -> ParentRow:
    """The row of a parent, made of its `data_of`."""
    ready: Mapping[str, Any] = condition(data, "Ready") or {}
    is_ready = ready.get("status") == "True"
    children = data["resources"]
    since = ready.get("lastTransitionTime")
    return ParentRow(
        folder=folder,
        kind=data["kind"],
        namespace=data["namespace"],
        name=data["name"],
        uid=data["uid"],
        group=group_of(data),
        reason=str(ready.get("reason", "Unknown")),
        message="" if is_ready else str(ready.get("message", "")),
        since=since if isinstance(since, str) else None,
        current=sum(each.get("state") == ReadinessState.CURRENT for each in children),
        children=len(children),
        suspended=condition(data, "Suspended") is not None,
        conflict=has_conflict(data),
    )


def data_of(live: LiveObject, reported: Mapping[str, Any]) -> dict[str, Any]:
    """A parent with its conditions and children: those of its status, or those of the operator's last report if its
    status has none.
    """
    conditions, children = conditions_of(live.body), reported_children(live)
    if not any(each.get("type") == "Ready" for each in conditions):
        conditions = reported.get("conditions", conditions)
    return entry(
        live, {"conditions": conditions, "resources": reported.get("resources", []) if children is None else children}
    )


GROUPS = ("", FAILED, WORKING, UNKNOWN, READY, "unready")
"""What a filter may name; `unready` is all but READY."""


class Filter(Struct, frozen=True, kw_only=True):
    """Which parents a list shows; what is empty selects nothing."""

    folder: str = ""
    namespace: str = ""
    group: str = ""
    """One of GROUPS."""
    selector: str = ""
    """Labels of the parents, as `app=web,!old`."""
    text: str = ""
    """Words that each occur in the kind, the namespace, the name, the reason or the message, in any case."""
    suspended: bool = False
    conflict: bool = False

    @property
    def words(self) -> Sequence[str]:
        return self.text.lower().split()


class _Indexed(Struct, frozen=True):
    """A row with what searches look at."""

    row: ParentRow
    order: tuple[Any, ...]
    """The key by which rows are sorted."""
    labels: Mapping[str, str]
    text: str

    def fits(self, wanted: Filter, words: Sequence[str], selector: Mapping[str, Any]) -> bool:
        return _fits(self.row, wanted) and all(word in self.text for word in words) and selects(selector, self.labels)


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
        self._answers: tuple[int, dict[Hashable, Any]] = (-1, {})
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
            rows[live.identity.namespace, live.identity.name] = _indexed(name, live, parents.state(live))
        self.version += 1

        def changed(old: LiveObject | None, new: LiveObject | None) -> None:
            if self._rows.get(name) is rows:
                self._changed(name, rows, parents, old, new)

        def reported(live: LiveObject, state: ParentState) -> None:
            current = parents.find(live.identity.namespace, live.identity.name)
            if self._rows.get(name) is rows and current is not None:
                self._update(name, rows, current, state)

        parents.listen(changed, own_writes=True)
        parents.listen_to_states(reported)

    def _changed(
        self,
        folder: str,
        rows: dict[tuple[str, str], _Indexed],
        parents: Parents,
        old: LiveObject | None,
        new: LiveObject | None,
    ) -> None:
        live = new or old
        if live is None:
            return
        for event in self._waiting.get(live.uid, ()):
            event.set()
        if new is None:
            self.version += rows.pop((live.identity.namespace, live.identity.name), None) is not None
            return
        row = self._update(folder, rows, new, parents.state(new))
        if old is not None and old.uid == new.uid:
            self.on_change(row, old, new)

    def _update(
        self, folder: str, rows: dict[tuple[str, str], _Indexed], live: LiveObject, state: ParentState
    ) -> ParentRow:
        key, made = (live.identity.namespace, live.identity.name), _indexed(folder, live, state)
        if rows.get(key) != made:
            rows[key] = made
            self.version += 1
        return made.row

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
        return self._kept(("rows", wanted, frozenset(visible)), lambda: self._select(wanted, visible))

    def _select(self, wanted: Filter, visible: Collection[str]) -> list[ParentRow]:
        words, selector = wanted.words, label_selector(wanted.selector)
        return [
            each.row for each in self._in_order() if each.row.folder in visible and each.fits(wanted, words, selector)
        ]

    def find(self, folder: str, namespace: str, name: str) -> ParentRow | None:
        """The row of a parent, None where there is none."""
        found = self._rows.get(folder, {}).get((namespace, name))
        return None if found is None else found.row

    def namespaces(self, visible: Collection[str]) -> list[str]:
        """The namespaces of the parents of the `visible` folders."""

        def find() -> list[str]:
            found = {namespace for folder in visible for namespace, _ in self._rows.get(folder, {})}
            return sorted(found - {""})

        return self._kept(("namespaces", frozenset(visible)), find)

    def flagged(self, visible: Collection[str]) -> tuple[int, int]:
        """How many parents of the `visible` folders are suspended, and how many have a child that others change."""

        def count() -> tuple[int, int]:
            rows = [each.row for folder in visible for each in self._rows.get(folder, {}).values()]
            return sum(row.suspended for row in rows), sum(row.conflict for row in rows)

        return self._kept(("flagged", frozenset(visible)), count)

    def counts(self, folder: str) -> Mapping[str, int]:
        """How many parents of a folder each group of states has."""

        def count() -> Counter[str]:
            return Counter(each.row.group for each in self._rows.get(folder, {}).values())

        return self._kept(("counts", folder), count)

    def _kept(self, question: Hashable, answer: Callable[[], _Answer]) -> _Answer:
        """The answer to a question. While no row changes, pages that ask the same share it."""
        version, answers = self._answers
        if version != self.version or len(answers) >= MAX_ANSWERS:
            answers = {}
            self._answers = (self.version, answers)
        if question not in answers:
            answers[question] = answer()
        found: _Answer = answers[question]
        return found

    def _in_order(self) -> list[_Indexed]:
        version, found = self._sorted
        if version != self.version:
            found = sorted(
                (each for rows in self._rows.values() for each in rows.values()), key=lambda each: each.order
            )
            self._sorted = (self.version, found)
        return found


def _indexed(folder: str, live: LiveObject, state: ParentState) -> _Indexed:
    report = state.status.report
    data = data_of(live, {} if report is None else report.status)
    row = row_of(folder, data)
    labels = live.metadata.labels or {}
    return _Indexed(row=row, order=urgency(data), labels=labels, text=searched_text(data))


def _fits(row: ParentRow, wanted: Filter) -> bool:
    return (
        wanted.folder in ("", row.folder)
        and wanted.namespace in ("", row.namespace)
        and (wanted.group in ("", row.group) or (wanted.group == "unready" and row.group != READY))
        and (row.suspended or not wanted.suspended)
        and (row.conflict or not wanted.conflict)
    )
