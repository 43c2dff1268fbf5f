"""The live children of all parents, as the caches of their informers show them.

Promises:
- If manifests have a kind in several versions, every object is shown in the version of its own parent's manifest, once
  that version has synced.
- Each version has a cache of its own: a cache mirrors the API server, and no body is converted.
- The result of an apply is in the cache from the moment of its answer, even if the watch event comes late.
- The last state of an object that was deleted recently can still be read.
- A write of a shared object that takes long holds up no other parent: the owners that wait for it come back later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from ssa_operator.informers.informer import Informer
from ssa_operator.informers.watch_scopes import ChildScope, ScopeUses
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState, kind_state
from ssa_operator.objects.live_object import LiveObject


@dataclass(slots=True, eq=False)
class WatchedVersion:
    """A kind in one of its versions: one cache, and an informer for each watched namespace ('': all) that fills it."""

    resource: Resource
    cache: Cache = field(default_factory=Cache)
    informers: dict[str, Informer] = field(default_factory=dict)

    def informer(self, namespace: str) -> Informer | None:
        """The informer that shows a namespace."""
        return self.informers.get("") or self.informers.get(namespace)

    def has_synced(self, namespace: str) -> bool:
        """Whether all objects of a namespace are in the cache."""
        informer = self.informer(namespace)
        return informer is not None and informer.synced


def shown_by(versions: Mapping[str, WatchedVersion], namespace: str, version: str | None) -> WatchedVersion:
    """The version that shows the objects of a namespace: this one, or the first one that has synced."""
    first = next(iter(versions.values()))
    if len(versions) == 1:
        return first
    wanted = versions.get(version or "")
    if wanted is not None and wanted.has_synced(namespace):
        return wanted
    return next((each for each in versions.values() if each.has_synced(namespace)), wanted or first)


class ObjectsInVersions(Mapping[Identity, LiveObject]):
    """All watched objects, each as `find` gives it."""

    def __init__(self, objects: Mapping[Identity, LiveObject], find: Callable[[Identity], LiveObject | None]) -> None:
        self._objects = objects
        self._find = find

    def __getitem__(self, identity: Identity) -> LiveObject:
        found = self._find(identity)
        if found is None:
            raise KeyError(identity)
        return found

    def __iter__(self) -> Iterator[Identity]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)


DELETED_LIMIT = 1000
"""Deleted objects whose last state is kept."""


TURN_WAIT = 1.0
"""Seconds since the beginning of a write of a shared object for which its other owners wait. Most take milliseconds."""


@dataclass(slots=True, eq=False)
class _SharedTurn:
    """The writes of a shared object, one at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    since: float = 0.0
    """When the present one began, in seconds on the clock of the event loop."""
    users: int = 0
    """How many parents write or wait."""
    requeued_later: dict[str, None] = field(default_factory=dict)
    """The uids of the parents that did not wait."""
    following: set[str] = field(default_factory=set)
    """The uids of those of them that were requeued. They wait as long as it takes: others could always be faster."""


class ChildListener(Protocol):
    """Receives the events of children."""

    def child_changed(self, parent_uid: str, namespace: str) -> None:
        """An object in this namespace with this parent's label changed, by another request than the operator's own."""

    def names_child(self, parent_uid: str, identity: Identity) -> bool:
        """Whether a known parent renders or records an object, or its status has it."""

    async def until_parents_known(self) -> None:
        """Wait until all parents are listed, for a while."""

    def child_released(self, identity: Identity) -> None:
        """An object was deleted, has another owner now, or several parents share it and it changed."""

    def kind_changed(self) -> None:
        """A kind can be watched now, or no longer."""

    def child_written(self, live: LiveObject) -> None:
        """A request of the operator returned this object."""

    def child_deleted(self, live: LiveObject) -> None:
        """A request of the operator deleted this object, and no finalizer keeps it."""


class ChildCaches(Mapping[Identity, LiveObject]):
    """The caches of all kinds of children. As a mapping: all watched objects by identity."""

    def __init__(self, mapper: RESTMapper, listener: ChildListener) -> None:
        self._mapper = mapper
        self._listener = listener
        self._kinds: dict[GroupKind, dict[str, WatchedVersion]] = {}
        """Each kind in each version that is watched."""
        self._uses = ScopeUses()
        self._changes = 0
        """How often a watch started, stopped, or changed its state."""
        self._kind_states: dict[tuple[GroupKind, frozenset[ChildScope]], KindState] = {}
        """The states of watched kinds since the last such change, by what parents need."""
        self._deleted: OrderedDict[Identity, LiveObject] = OrderedDict()
        self._shared_turns: dict[Identity, _SharedTurn] = {}

    def __getitem__(self, identity: Identity) -> LiveObject:
        found = self._find_of_parent("", identity)
        if found is None:
            raise KeyError(identity)
        return found

    def __iter__(self) -> Iterator[Identity]:
        found = (
            live.identity for versions in self._kinds.values() for each in versions.values() for live in each.cache
        )
        return iter(dict.fromkeys(found))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def of(self, parent_uid: str) -> Mapping[Identity, LiveObject]:
        """All watched objects, those that this parent's manifests name in the versions of these."""
        return ObjectsInVersions(self, partial(self._find_of_parent, parent_uid))

    def _find_of_parent(self, parent_uid: str, identity: Identity) -> LiveObject | None:
        """A live object, in the version of a parent's manifests: of this parent, or else of its own."""
        versions = self._kinds.get(identity.group_kind)
        if not versions:
            return None
        version = None
        if len(versions) > 1:
            version = self._uses.version(parent_uid, identity) or self._version_of_parent(identity)
        return shown_by(versions, identity.namespace, version).cache.get(identity.namespace, identity.name)

    def by_parent(self, parent_uid: str) -> tuple[LiveObject, ...]:
        """The live objects with the label of this parent."""
        return tuple(
            [
                live
                for kind, versions in self._kinds.items()
                for watched in versions.values()
                for live in watched.cache.by_parent(parent_uid)
                if len(versions) == 1 or self._is_shown_by(watched, kind, live)
            ]
        )

    def last_seen(self, identity: Identity) -> LiveObject | None:
        """The live object, or its last state if it was deleted recently: a Job with a TTL may be gone before the next
        reconcile.
        """
        return self.get(identity) or self._deleted.get(identity)

    def was_deleted(self, identity: Identity) -> bool:
        """Whether a watch or a request showed the end of an object, and nothing has shown the object since."""
        return identity in self._deleted

    def has_synced(self, identity: Identity) -> bool:
        """Whether a watch shows the object, or that there is none."""
        versions = self._kinds.get(identity.group_kind, {})
        return any(each.has_synced(identity.namespace) for each in versions.values())

    def is_awaited(self, identity: Identity, parent_uid: str) -> bool:
        """Whether a watch that a parent needs has not shown yet whether the object exists."""
        places = {(identity.group_kind, namespace) for namespace in ("", identity.namespace)}
        needed = any((scope.kind, scope.namespace) in places for scope in self._uses.scopes(parent_uid))
        return needed and not self.has_synced(identity)

    def namespaced(self, kind: GroupKind) -> bool | None:
        """Whether a kind is namespaced, None if the cluster doesn't serve it."""
        for each in self._kinds.get(kind, {}).values():
            return each.resource.namespaced
        try:
            return self._mapper.peek(kind).namespaced
        except UnknownKind:
            return None

    def kind_state(self, kind: GroupKind, parent_uid: str) -> KindState | None:
        """What discovery and the watches that this parent needs know of a kind; None if the cluster doesn't serve
        it.
        """
        needed = self._uses.scopes(parent_uid)
        if (known := self._kind_states.get((kind, needed))) is not None:
            return known
        namespaced = self.namespaced(kind)
        if namespaced is None:
            return None
        scopes = sorted(scope for scope in needed if scope.kind == kind)
        state = kind_state(namespaced, [(scope.namespace, self._state(scope, namespaced)) for scope in scopes])
        if kind in self._kinds:
            self._kind_states[kind, needed] = state
        return state

    def _watches_changed(self) -> None:
        self._changes += 1
        self._kind_states.clear()

    def watch_states(self, parent_uid: str) -> frozenset[tuple[ChildScope, bool, str]]:
        """What this parent needs, each with whether it has synced, and why not."""
        states = ((scope, self._state(scope, namespaced=True)) for scope in self._uses.scopes(parent_uid))
        return frozenset((scope, state.synced, state.problem) for scope, state in states)

    def _state(self, scope: ChildScope, namespaced: bool) -> KindState:
        watched = self._kinds.get(scope.kind, {}).get(scope.version)
        informer = None if watched is None else watched.informers.get(scope.namespace)
        if informer is None:
            return KindState(namespaced=namespaced, synced=False)
        return KindState(
            namespaced=namespaced,
            synced=informer.synced,
            problem=informer.problem,
            needs_permission=informer.forbidden,
            was_synced=informer.was_synced,
        )

    def shown_versions(self, parent_uid: str) -> object:
        """A value that changes whenever the versions change in which this parent's children are shown."""
        several = [kind for kind, versions in self._kinds.items() if len(versions) > 1]
        return self._uses.versions(parent_uid, several) if several else None

    def writing(self, identity: Identity) -> contextlib.AbstractContextManager[None]:
        """Defer the watch events of an object while the operator writes it, to recognize those of its own write."""
        versions = self._kinds.get(identity.group_kind, {})
        if len(versions) == 1:
            (watched,) = versions.values()
            return watched.cache.writing(identity.namespace, identity.name)
        return _all_of([each.cache.writing(identity.namespace, identity.name) for each in versions.values()])

    @contextlib.asynccontextmanager
    async def shared_turn(self, identity: Identity, uid: str, *, patient: bool = False) -> AsyncIterator[bool]:
        """The turn of a parent to write an object that several share: their writes have its resourceVersion as
        precondition, so only one of several at once would succeed. False if the write of another one takes long, unless
        the parent is `patient`: it is requeued later, and must not keep its worker meanwhile.
        """
        turn, granted = self._shared_turns.setdefault(identity, _SharedTurn()), False
        turn.users += 1
        try:
            waits = patient or uid in turn.following or not turn.lock.locked()
            until = None if waits else turn.since + TURN_WAIT
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    granted = await turn.lock.acquire()
            if granted:
                turn.since = asyncio.get_running_loop().time()
                turn.requeued_later.pop(uid, None)
                turn.following.discard(uid)
            else:
                turn.requeued_later[uid] = None
            yield granted
        finally:
            turn.users -= 1
            if granted:
                turn.lock.release()
            if turn.requeued_later and not (turn.users and (turn.following or not granted)):
                # One, because all others would wait for it. If it doesn't come, they come by their own retries.
                following = next(iter(turn.requeued_later))
                del turn.requeued_later[following]
                turn.following.add(following)
                self._listener.child_changed(following, identity.namespace)
            elif not turn.users and not turn.following:
                del self._shared_turns[identity]

    def written(self, live: LiveObject, *, changed: bool = True) -> LiveObject:
        """Update the cache with a live object that a request of the operator returned; `changed`: whether the request
        changed it. Returns the cache's own object.
        """
        self._deleted.pop(live.identity, None)
        watched = self._kinds.get(live.identity.group_kind, {}).get(live.version)
        if watched is not None:
            live = watched.cache.written(live, changed=changed)
        if changed and live.shared is not None:
            # The watch event is an echo for the parent that wrote it, and news for all others.
            self._shared_object_changed(live)
        self._listener.child_written(live)
        return live

    def deleted(self, live: LiveObject) -> None:
        """Remove from the cache an object that a request of the operator deleted, or found absent."""
        self._remember_deleted(live)
        for watched in self._kinds.get(live.identity.group_kind, {}).values():
            watched.cache.deleted(live)
        self._listener.child_deleted(live)

    def is_served(self, kind: GroupKind) -> bool:
        """Whether the cluster serves a kind, by the last discovery."""
        try:
            self._mapper.peek(kind)
        except UnknownKind:
            return False
        return True

    async def resource(self, kind: GroupKind, version: str | None = None) -> Resource:
        """How the cluster serves a kind, in this version or in the preferred one. A synced watch shows it, too. Raises
        UnknownKind.
        """
        watched = self._kinds.get(kind, {}).get(version or "")
        if watched is not None and all(informer.synced for informer in watched.informers.values()):
            return watched.resource
        return await self._mapper.resource(kind, version)

    async def resource_by_name(self, name: str) -> Resource:
        """The resource called `deployments.apps`. Raises UnknownKind."""
        return await self._mapper.resource_by_name(name)

    def _version_of_parent(self, identity: Identity) -> str | None:
        """The version in which the manifest of an object's parent has it; None if that makes no difference."""
        versions = self._kinds.get(identity.group_kind, {})
        if len(versions) < 2:
            return None
        found = (each.cache.get(identity.namespace, identity.name) for each in versions.values())
        versions_of_parents = (self._wanted_version(live) for live in found if live is not None)
        return next((version for version in versions_of_parents if version is not None), None)

    def _wanted_version(self, live: LiveObject) -> str | None:
        """The version in which the manifest of an object's parent has it; None if no parent has a manifest of it."""
        wanted = (self._uses.version(uid, live.identity) for uid in live.parent_uids)
        return next((version for version in wanted if version is not None), None)

    def _is_shown_by(self, watched: WatchedVersion, kind: GroupKind, live: LiveObject) -> bool:
        """Whether an object is shown in this version."""
        versions = self._kinds.get(kind, {})
        if len(versions) < 2:
            return watched in versions.values()
        return shown_by(versions, live.identity.namespace, self._wanted_version(live)) is watched

    def _counts(self, watched: WatchedVersion, live: LiveObject) -> bool:
        """Whether changes of an object in this version count: this version shows the object, or will once it has
        synced. The informers of other versions deliver the same changes, including the operator's own.
        """
        shown = self._is_shown_by(watched, live.identity.group_kind, live)
        return shown or self._wanted_version(live) == watched.resource.version

    def _changed(self, watched: WatchedVersion, old: LiveObject | None, new: LiveObject | None) -> None:
        lives = [live for live in (old, new) if live is not None]
        if new is not None:
            self._deleted.pop(new.identity, None)
        if not any(self._counts(watched, live) for live in lives):
            return
        if old is not None and new is None:
            self._remember_deleted(old)
        for uid, namespace in {(uid, live.identity.namespace) for live in lives for uid in live.parent_uids}:
            self._listener.child_changed(uid, namespace)
        if new is not None and new.shared is not None:
            self._listener.child_released(new.identity)
        if old is not None and (new is None or _owners(old) != _owners(new)):
            self._listener.child_released(old.identity)

    def _shared_object_changed(self, live: LiveObject) -> None:
        """Requeue the owners of a shared object, and the parents that wait for these."""
        for uid in live.parent_uids:
            self._listener.child_changed(uid, live.identity.namespace)
        self._listener.child_released(live.identity)

    def _remember_deleted(self, live: LiveObject) -> None:
        self._deleted[live.identity] = live
        self._deleted.move_to_end(live.identity)
        if len(self._deleted) > DELETED_LIMIT:
            self._deleted.popitem(last=False)


@contextlib.contextmanager
def _all_of(blocks: Iterable[contextlib.AbstractContextManager[None]]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for block in blocks:
            stack.enter_context(block)
        yield


def _owners(live: LiveObject) -> tuple[object, ...]:
    return live.uid, live.parent_uid, live.owner_references
