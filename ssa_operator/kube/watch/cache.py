"""The live objects of one resource, as its watches told and as our own requests changed them.

Promises:
- We read our own writes: what `written` took is what is read until the watch knows something newer, and no list that is
  older than the write takes it away.
- A listener is told of every change that a watch delivers, once, as the step from what was told before; the echo of a
  write of ours is no change. A foreign change that our write came on top of is still told.
- Listeners are called when the cache already shows what they are told of. While a write is under way (`writing`) what
  they have to be told of that object waits, because the echo often comes before the answer.

resourceVersions are compared as numbers where both are numbers (comparable within one resource from 1.35, KEP-5504; in
practice wherever etcd is the store), else only for equality: then a write of ours counts until its own echo, a list or
a deletion comes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.kube.watch.label_index import LabelIndex

Listener = Callable[[LiveObject | None, LiveObject | None], None]
Change = tuple[LiveObject | None, LiveObject | None]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Behind:
    """What the watch last told of an object that our own write is ahead of. `write` is the write's number."""

    told: LiveObject | None
    write: int
    deleted: str = ""
    """The uid of the object that our write deleted."""
    earlier: frozenset[str] = frozenset()
    """The versions of writes of ours before this one, whose echoes may still come."""


@dataclass(slots=True)
class _Held:
    """What listeners are told of an object once our write has its answer, and the versions that are our own."""

    changes: list[Change]
    versions: set[str]


class Cache:
    """Objects by namespace and name. Several reflectors may fill it, each with another namespace."""

    def __init__(self) -> None:
        self._objects: dict[Key, LiveObject] = {}
        self._behind: dict[Key, _Behind] = {}
        self._children: dict[str, dict[Key, LiveObject]] = {}
        self._groups = LabelIndex()
        self._seen: dict[str, int] = {}
        self._writes = 0
        self._listeners: list[Listener] = []
        self._write_listeners: list[Listener] = []
        self._held: dict[Key, _Held] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[LiveObject]:
        return iter(list(self._objects.values()))

    def get(self, namespace: str, name: str) -> LiveObject | None:
        return self._objects.get((namespace, name))

    def by_parent(self, uid: str) -> tuple[LiveObject, ...]:
        """The objects whose parent label holds that uid."""
        return tuple(self._children.get(uid, {}).values())

    def select(self, namespace: str, labels: Mapping[str, str]) -> Collection[LiveObject]:
        """The objects in a namespace ('' is all) with all of these labels."""
        return self._groups.find(namespace, labels, self._objects)

    def listen(self, listener: Listener, *, own_writes: bool = False) -> None:
        """Have `listener(old, new)` called for every change by others, with `own_writes` for our own too."""
        self._listeners.append(listener)
        if own_writes:
            self._write_listeners.append(listener)

    # What our own requests returned.

    @contextmanager
    def writing(self, namespace: str, name: str) -> Iterator[None]:
        """Around a write and its `written`: what a watch tells of the object meanwhile is told afterwards, without the
        echo.
        """
        key = (namespace, name)
        if key in self._held:
            yield
            return
        held = self._held[key] = _Held([], set())
        try:
            yield
        finally:
            del self._held[key]
            self._tell([change for change in held.changes if not _is_echo(change, held.versions)])

    def written(self, live: LiveObject) -> None:
        """Take the object that a write of ours returned, unless something newer is known."""
        key = _key(live)
        visible = self._objects.get(key)
        if key in self._held:
            self._held[key].versions.add(live.resource_version)
        if self._told_of(live) or (visible is not None and not _is_newer(live, visible)):
            return
        behind = self._behind.get(key)
        self._writes += 1
        earlier = behind.earlier | {visible.resource_version} if behind and visible else frozenset[str]()
        self._behind[key] = _Behind(behind.told if behind else visible, self._writes, earlier=earlier)
        self._show(key, live)
        for listener in self._write_listeners:
            listener(visible, live)

    def deleted(self, live: LiveObject) -> None:
        """Take that our own request deleted this object for good."""
        key = _key(live)
        visible = self._objects.get(key)
        if visible is None or visible.uid != live.uid:
            return
        behind = self._behind.get(key)
        self._writes += 1
        self._behind[key] = _Behind(behind.told if behind else visible, self._writes, live.uid)
        self._show(key, None)
        for listener in self._write_listeners:
            listener(visible, None)

    # What a watch delivers.

    def mark(self) -> int:
        """To be asked for when a list begins, and given to `replace`: which writes the list can't have missed."""
        return self._writes

    def replace(self, items: Iterable[LiveObject], resource_version: str, *, mark: int, namespace: str = "") -> None:
        """Take a whole list of a namespace ('' is all): what is not in it is gone, unless we wrote it since `mark`."""
        incoming = {_key(live): live for live in items}
        scope = [key for key in {*self._objects, *self._behind} if not namespace or key[0] == namespace]
        changes: list[Change] = []
        for key in {*scope, *incoming}:
            told = self._replaced(key, incoming.get(key), _number(resource_version), mark)
            new = incoming.get(key)
            if told is not new and not (told and new and _same(told, new)):
                changes.append((told, new))
        self._seen[namespace] = _number(resource_version) or 0
        self._tell(changes)

    def _replaced(self, key: Key, new: LiveObject | None, version: int | None, mark: int) -> LiveObject | None:
        """Put one entry of a list in; returns what listeners were told of it before."""
        behind = self._behind.get(key)
        visible = self._objects.get(key)
        told = behind.told if behind else visible
        if behind is not None and behind.write > mark and self._is_ahead(behind, visible, new, version):
            self._behind[key] = _Behind(new, behind.write, behind.deleted)
            return told
        self._behind.pop(key, None)
        self._show(key, new)
        return told

    @staticmethod
    def _is_ahead(behind: _Behind, visible: LiveObject | None, new: LiveObject | None, version: int | None) -> bool:
        """Whether our write came after the moment that a list shows."""
        if visible is None:
            return new is not None and new.uid == behind.deleted
        number = _number(visible.resource_version)
        return number is not None and version is not None and number > version

    def upsert(self, live: LiveObject) -> None:
        """Take an added or modified object."""
        key = _key(live)
        behind = self._behind.get(key)
        visible = self._objects.get(key)
        told = behind.told if behind else visible
        if told is not None and not _is_newer(live, told):
            return
        if behind is None:
            self._show(key, live)
        elif visible is None:
            if live.uid == behind.deleted:
                self._behind[key] = _Behind(live, behind.write, behind.deleted)
                return
            del self._behind[key]
            self._show(key, live)
        elif _same(visible, live):
            del self._behind[key]  # the echo
            return
        elif _is_newer(visible, live):
            self._behind[key] = _Behind(live, behind.write, earlier=behind.earlier)
            if live.resource_version in behind.earlier:
                return  # the echo of a write of ours before the last one
        else:
            del self._behind[key]
            self._show(key, live)
        self._tell([(told, live)])

    def remove(self, live: LiveObject) -> None:
        """Take a deletion; `live` is the object's last state, or the first that a selector no longer matches."""
        key = _key(live)
        behind = self._behind.get(key)
        visible = self._objects.get(key)
        told = behind.told if behind else visible
        ahead = visible is not None and visible.uid != live.uid and _is_newer(visible, live)
        if visible is not None and (ahead or _is_older(live, visible)):
            if behind is None:
                return  # of an object that was made again since
            self._behind[key] = _Behind(None, behind.write)
        else:
            self._behind.pop(key, None)
            self._show(key, None)
            told = told or visible
        if told is not None:
            self._tell([(told, None)])

    def advance(self, resource_version: str, *, namespace: str = "") -> None:
        """Everything up to that version has been delivered for the namespace ('' is all)."""
        self._seen[namespace] = max(_number(resource_version) or 0, self._seen.get(namespace, 0))

    def _tell(self, changes: Iterable[Change]) -> None:
        """Tell every listener of every change, whatever one of them raises; the first error is raised at the end."""
        failures: list[Exception] = []
        for old, new in changes:
            either = new or old
            held = self._held.get(_key(either)) if self._held and either is not None else None
            if held is not None:
                held.changes.append((old, new))
                continue
            for listener in self._listeners:
                try:
                    listener(old, new)
                except Exception as error:  # noqa: BLE001 - raised below
                    failures.append(error)
        if failures:
            raise failures[0]

    def _told_of(self, live: LiveObject) -> bool:
        """Whether the watch has already gone past this version: what it said since, a deletion too, counts more."""
        number = _number(live.resource_version)
        namespace = live.identity.namespace
        return number is not None and number <= max(self._seen.get("", 0), self._seen.get(namespace, 0))

    def _show(self, key: Key, live: LiveObject | None) -> None:
        old = self._objects.pop(key, None) if live is None else self._objects.get(key)
        if old is not None and old.parent_uid and (live is None or live.parent_uid != old.parent_uid):
            children = self._children[old.parent_uid]
            del children[key]
            if not children:
                del self._children[old.parent_uid]
        self._groups.move(key, old, live)
        if live is not None:
            self._objects[key] = live
            if live.parent_uid:
                self._children.setdefault(live.parent_uid, {})[key] = live


def _is_echo(change: Change, versions: set[str]) -> bool:
    return change[1] is not None and change[1].resource_version in versions


def _key(live: LiveObject) -> Key:
    return live.identity.namespace, live.identity.name


def _number(resource_version: str) -> int | None:
    return int(resource_version) if resource_version.isascii() and resource_version.isdigit() else None


def _same(one: LiveObject, other: LiveObject) -> bool:
    return one.resource_version == other.resource_version and one.uid == other.uid


def _is_newer(live: LiveObject, than: LiveObject) -> bool:
    """Whether it is certainly newer, or only different where versions can't be compared."""
    number, other = _number(live.resource_version), _number(than.resource_version)
    if number is None or other is None:
        return live.resource_version != than.resource_version
    return number > other


def _is_older(live: LiveObject, than: LiveObject) -> bool:
    number, other = _number(live.resource_version), _number(than.resource_version)
    return number is not None and other is not None and number < other
