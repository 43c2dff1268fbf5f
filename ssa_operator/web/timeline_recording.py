"""Records what happens to the parents of a running operator in its timelines.

Promises:
- A change by another manager is one of a field that this manager owns, by the object's managedFields. Writes of a
  status are none, because controllers make them all the time.
- Of an object that holds a Secret's content no field is named.
- The first state of an object is no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakSet

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.field_set import changed_fields, path_text
from ssa_operator.objects.live_object import HANDOVER_MANAGER, MANAGER, LiveObject
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.workers import EndedReconcile
from ssa_operator.reconcile.child import Child, Result
from ssa_operator.reconcile.parent_records import rules as parent_records
from ssa_operator.tools.tree.tree_view import conditions_of
from ssa_operator.web.parent_page import key_of
from ssa_operator.web.parent_rows import ParentRow
from ssa_operator.web.timelines import Timelines

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
        before = {each.get("type"): each for each in conditions_of(old)}
        for condition in conditions_of(new):
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
