"""The live objects of one resource, from its watches and from the answers to the operator's own writes.

The echo of a write is the watch event that the operator's own write causes.

Promises:
- The operator reads its own writes: an object that `written` stored stays until the watch delivers a newer one. A list
  that is older than the write does not remove it.
- A listener gets every change that a watch delivers once, with the object that the watch delivered before. It does not
  get the echo of a write, and it does get a foreign change just before the write.
- If the write changed nothing, its answer shows someone else's change. Its listeners get it as if the watch had
  delivered it, because the watch event of that version is no echo.
- A whole object replaces the partial one of the same version, and changes nothing for listeners.
- A list by another schema changes an object of the same version for listeners if its content differs.
- The cache shows a change before it calls the listeners. During a write (`writing`) it defers the changes of the
  written object, because the echo often arrives before the answer.

The cache compares resourceVersions as numbers if both are numbers (comparable within one resource from 1.35, KEP-5504;
in practice wherever etcd is the store), and else only for equality. Then an own write stays until its echo, a list or a
deletion arrives.

How it works:
Of each object the cache knows two states: the visible one (`_objects`), which readers get, and the one that the watch
delivered last, with which a change begins for listeners. They are the same unless an own write is ahead of the watch.
Then `_pending` has the delivered state and the number of the write. An event of such an object is one of these:

- the version of the write, so its echo: the two states are the same again, and listeners get nothing;
- an older version: the write stays visible. Listeners get the event as a foreign change, unless it is the echo of an
  earlier own write;
- a newer version: it becomes visible, and listeners get it;
- after an own deletion, a state of the deleted object: the object stays deleted.

Versions of one resource only grow, so this order is that of the changes. An answer that arrives after the watch has
passed its version (`_watched_version`) is not stored, so no answer brings back an object that was changed or deleted
since. A list has every write before its `mark`. A later write stays visible if its version is greater than the list's,
and a later deletion while the list has the deleted object. The echo may arrive before the answer that has its version.
So the changes during `writing` are kept back, and those with a version that a write returned are dropped at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from ssa_operator.kube.watch.label_index import LabelIndex
from ssa_operator.objects.live_object import LiveObject

Listener = Callable[[LiveObject | None, LiveObject | None], None]
Change = tuple[LiveObject | None, LiveObject | None]
Key = tuple[str, str]


class _PendingEcho(Struct, frozen=True):
    """An own write that the watch is behind."""

    watched: LiveObject | None
    """The object as the watch last delivered it, before the write; for a write that changed nothing, its answer."""

    write: int
    """The number of the write."""

    deleted: str = ""
    """The uid of the object that the write deleted, '' if it deleted none."""

    earlier: frozenset[str] = frozenset()
    """The resourceVersions of own writes before this one, whose echoes may still arrive."""


class _DeferredChanges(Struct):
    """The changes of an object during an own write."""

    changes: list[Change]

    own_versions: set[str]
    """The resourceVersions that own writes returned."""


class Cache:
    """Objects by namespace and name. Several reflectors may fill it, each with the objects of one namespace."""

    def __init__(self) -> None:
        self.changes = 0
        """How often an object was stored or removed. Results that were computed from the cache are valid until it
        increases.
        """
        self.partial = 0
        """How many objects are partial."""
        self._objects: dict[Key, LiveObject] = {}
        self._pending: dict[Key, _PendingEcho] = {}
        self._children: dict[str, dict[Key, LiveObject]] = {}
        self._labels = LabelIndex()
        self._watched_version: dict[str, int] = {}
        self.on_list: Callable[[Collection[LiveObject]], None] = lambda _: None
        """Called with the objects of each list, before the listeners get the changes."""
        self._writes = 0
        self._listeners: list[Listener] = []
        self._write_listeners: list[Listener] = []
        self._deferred: dict[Key, _DeferredChanges] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[LiveObject]:
        return iter(list(self._objects.values()))

    def get(self, namespace: str, name: str) -> LiveObject | None:
        return self._objects.get((namespace, name))

    def by_parent(self, uid: str) -> tuple[LiveObject, ...]:
        """The objects that the parent with that uid owns, by its label or as one of several owners."""
        return tuple(self._children.get(uid, {}).values())

    def select(self, namespace: str, labels: Mapping[str, str]) -> Collection[LiveObject]:
        """The objects in a namespace ('' is all) with all of these labels."""
        return self._labels.find(namespace, labels, self._objects)

    def listen(self, listener: Listener, *, own_writes: bool = False) -> None:
        """Call `listener(old, new)` for every foreign change, and with `own_writes` for every own write."""
        self._listeners.append(listener)
        if own_writes:
            self._write_listeners.append(listener)

    # The operator's own requests call these.

    @contextmanager
    def writing(self, namespace: str, name: str) -> Iterator[None]:
        """Defer the object's changes during a write and its `written`. Afterwards the listeners get them without the
        echo.
        """
        key = (namespace, name)
        if key in self._deferred:
            yield
            return
        deferred = self._deferred[key] = _DeferredChanges([], set())
        try:
            yield
        finally:
            del self._deferred[key]
            self._notify(deferred.changes, deferred.own_versions)

    def written(self, live: LiveObject, *, changed: bool = True) -> LiveObject:
        """Store the object that an own write returned, unless the cache has a newer one; `changed`: whether the write
        changed the object. Returns the cache's own object, so that callers and the cache share one.
        """
        key = _key(live)
        visible = self._objects.get(key)
        if visible is not None and visible.partial and not live.partial and _is_same(visible, live):
            self._store(key, live)
            return live
        if changed and key in self._deferred:
            self._deferred[key].own_versions.add(live.resource_version)
        if self._watch_has_passed(live) or (visible is not None and not _is_newer(live, visible)):
            known = visible is not None and _is_same(visible, live) and visible.version == live.version
            return visible if known and visible is not None else live
        pending = self._pending.get(key)
        watched = pending.watched if pending else visible
        self._writes += 1
        earlier = pending.earlier | {visible.resource_version} if pending and visible else frozenset[str]()
        self._pending[key] = _PendingEcho(watched if changed else live, self._writes, earlier=earlier)
        self._store(key, live)
        if not changed:
            self._notify([(watched, live)])
            return live
        # No rule reads the answer to the last write of a reconcile before the next one.
        live.compress_later()
        for listener in self._write_listeners:
            listener(visible, live)
        return live

    def deleted(self, live: LiveObject) -> None:
        """Remove an object that an own request has deleted; no finalizer keeps it."""
        key = _key(live)
        visible = self._objects.get(key)
        if visible is None or visible.uid != live.uid:
            return
        pending = self._pending.get(key)
        self._writes += 1
        self._pending[key] = _PendingEcho(pending.watched if pending else visible, self._writes, live.uid)
        self._store(key, None)
        for listener in self._write_listeners:
            listener(visible, None)

    # A reflector calls these.

    def mark(self) -> int:
        """The number of own writes before a list begins. `replace` needs it: the list has all of them."""
        return self._writes

    def replace(
        self,
        items: Iterable[LiveObject],
        resource_version: str,
        *,
        mark: int,
        namespace: str = "",
        changes_schema: bool = False,
    ) -> None:
        """Replace the objects of a namespace ('' is all) by a list. Own writes after `mark` stay. If the list
        `changes_schema`, objects of the same version are compared.
        """
        incoming = {_key(live): live for live in items}
        present = [key for key in {*self._objects, *self._pending} if not namespace or key[0] == namespace]
        changes: list[Change] = []
        for key in {*present, *incoming}:
            new, visible = incoming.get(key), self._objects.get(key)
            if changes_schema and new is not None and visible is not None and _is_equal(visible, new):
                new = visible
            watched = self._replace_one(key, new, version_number(resource_version), mark)
            same_version = watched is not None and new is not None and _is_same(watched, new)
            if watched is not new and (changes_schema or not same_version):
                changes.append((watched, new))
        self._watched_version[namespace] = version_number(resource_version) or 0
        self.on_list([*incoming.values()])
        self._notify(changes)

    def _replace_one(self, key: Key, new: LiveObject | None, version: int | None, mark: int) -> LiveObject | None:
        """Replace one object by its entry in a list. Returns the object that the watch delivered before."""
        pending = self._pending.get(key)
        visible = self._objects.get(key)
        watched = pending.watched if pending else visible
        if pending is not None and pending.write > mark and self._is_ahead(pending, visible, new, version):
            if watched is not None and _is_after(watched, version):
                return new  # the listeners have got a later state
            self._pending[key] = _PendingEcho(new, pending.write, pending.deleted, pending.earlier)
            return watched
        self._pending.pop(key, None)
        self._store(key, new)
        return watched

    @staticmethod
    def _is_ahead(
        pending: _PendingEcho, visible: LiveObject | None, new: LiveObject | None, version: int | None
    ) -> bool:
        """Whether the own write is newer than the list."""
        if visible is None:
            return new is not None and new.uid == pending.deleted
        return _is_after(visible, version)

    def upsert(self, live: LiveObject) -> None:
        """Store an object that a watch delivered as added or modified."""
        key = _key(live)
        pending = self._pending.get(key)
        visible = self._objects.get(key)
        watched = pending.watched if pending else visible
        if watched is not None and not _is_newer(live, watched):
            return
        if pending is None:
            self._store(key, live)
        elif visible is None:
            if live.uid == pending.deleted:
                self._pending[key] = _PendingEcho(live, pending.write, pending.deleted)
                return
            del self._pending[key]
            self._store(key, live)
        elif _is_same(visible, live):
            del self._pending[key]  # the echo
            return
        elif _is_newer(visible, live):
            self._pending[key] = _PendingEcho(live, pending.write, earlier=pending.earlier)
            if live.resource_version in pending.earlier:
                return  # the echo of an own write before the last one
        else:
            del self._pending[key]
            self._store(key, live)
        self._notify([(watched, live)])

    def remove(self, live: LiveObject) -> None:
        """Remove an object that a watch delivered as deleted. `live` is its last state, or its first state that the
        label selector does not match.
        """
        key = _key(live)
        pending = self._pending.get(key)
        visible = self._objects.get(key)
        watched = pending.watched if pending else visible
        if _is_recreated(live, watched):
            return  # the listeners have got its successor
        if visible is not None and (_is_recreated(live, visible) or _is_older(live, visible)):
            if pending is None:
                return
            self._pending[key] = _PendingEcho(None, pending.write)
        else:
            self._pending.pop(key, None)
            self._store(key, None)
            watched = watched or visible
        if watched is not None:
            self._notify([(watched, None)])

    def forget(self, namespace: str) -> None:
        """Remove the objects of a namespace ('' is all) that is no longer watched. No listener is called, because the
        objects may still exist.
        """
        for key in [key for key in {*self._objects, *self._pending} if not namespace or key[0] == namespace]:
            self._pending.pop(key, None)
            self._store(key, None)
        self._watched_version.pop(namespace, None)

    def advance(self, resource_version: str, *, namespace: str = "") -> None:
        """Record that the watch of the namespace ('' is all) has delivered everything up to that version."""
        self._watched_version[namespace] = max(
            version_number(resource_version) or 0, self._watched_version.get(namespace, 0)
        )

    def _notify(self, changes: Iterable[Change], own_versions: Collection[str] = ()) -> None:
        """Call every listener for every change, even if one of them raises. A change to one of the `own_versions` is an
        echo that came before its answer. `written` did not report it, so the listeners for own writes get it here.
        Raises the first error at the end.
        """
        failures: list[Exception] = []
        for old, new in changes:
            either = new or old
            deferred = self._deferred.get(_key(either)) if self._deferred and either is not None else None
            if deferred is not None:
                deferred.changes.append((old, new))
                continue
            own = new is not None and new.resource_version in own_versions
            for listener in self._write_listeners if own else self._listeners:
                try:
                    listener(old, new)
                except Exception as error:  # noqa: BLE001 - raised below
                    failures.append(error)
        if failures:
            raise failures[0]

    def _watch_has_passed(self, live: LiveObject) -> bool:
        """Whether the watch has delivered a version after this one, perhaps a deletion."""
        number = version_number(live.resource_version)
        namespace = live.identity.namespace
        versions = self._watched_version
        return number is not None and number <= max(versions.get("", 0), versions.get(namespace, 0))

    def _store(self, key: Key, live: LiveObject | None) -> None:
        self.changes += 1
        old = self._objects.pop(key, None) if live is None else self._objects.get(key)
        self.partial += (live is not None and live.partial) - (old is not None and old.partial)
        for uid in old.parent_uids if old is not None else ():
            if live is None or not live.belongs_to(uid):
                children = self._children[uid]
                del children[key]
                if not children:
                    del self._children[uid]
        if self._labels.used:
            self._labels.update(key, old, live)
        if live is not None:
            self._objects[key] = live
            for uid in live.parent_uids:
                self._children.setdefault(uid, {})[key] = live


def _key(live: LiveObject) -> Key:
    return live.identity.namespace, live.identity.name


def version_number(resource_version: str) -> int | None:
    """The number of a resourceVersion, None if it can't be compared."""
    digits = resource_version.isascii() and resource_version.isdigit() and len(resource_version) <= _VERSION_DIGITS
    return int(resource_version) if digits else None


_VERSION_DIGITS = 1000
"""Python converts at most 4300 digits."""


def _is_same(one: LiveObject, other: LiveObject) -> bool:
    return one.resource_version == other.resource_version and one.uid == other.uid


def _is_equal(one: LiveObject, other: LiveObject) -> bool:
    """Whether two states have the same version and content. Of a partial object only the metadata is known."""
    if not _is_same(one, other):
        return False
    if one.partial or other.partial or one.raw == other.raw:
        return True
    return one.has_same_content(other) and one.body.get("status") == other.body.get("status")


def _is_newer(live: LiveObject, than: LiveObject) -> bool:
    """Whether it is newer. Versions that are not numbers count as newer if they differ."""
    number, other = version_number(live.resource_version), version_number(than.resource_version)
    if number is None or other is None:
        return live.resource_version != than.resource_version
    return number > other


def _is_recreated(live: LiveObject, successor: LiveObject | None) -> bool:
    """Whether another object got its name later."""
    return successor is not None and successor.uid != live.uid and _is_newer(successor, live)


def _is_after(live: LiveObject, version: int | None) -> bool:
    """Whether it is newer than the list of a version, as far as they can be compared."""
    number = version_number(live.resource_version)
    return number is not None and version is not None and number > version


def _is_older(live: LiveObject, than: LiveObject) -> bool:
    number, other = version_number(live.resource_version), version_number(than.resource_version)
    return number is not None and other is not None and number < other
