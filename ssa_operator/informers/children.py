"""The informers of children: one for each kind, version and namespace that a manifest needs.

Promises:
- A child is watched in the version of its manifest. If manifests have a kind in several versions, each version is
  watched, and every object is shown in the version of its own parent's manifest.
- The operator watches only objects with its parent label, and only in the namespaces that it is limited to and in those
  that manifests name. Under `--shard` it keeps only the children of the shard's parents.
- If a kind can't be watched (no permission, no CRD), reports show the reason. Other kinds are not affected, nor are
  parents that need nothing of the kind in that namespace.
- If no known parent names an object in its manifests, its records or its status, only the object's metadata is kept,
  because any client that may create objects may give them the label. If a parent names it later, `read_whole` reads it.
- A watch that no parent needs any more stops: at once if it has not synced, otherwise after `GRACE_PERIOD` seconds.
- The result of an apply is in the cache from the moment of its answer, even if the watch event comes late.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Protocol

from ssa_operator.informers.informer import GRACE_PERIOD, Informer, wait_for_sync
from ssa_operator.informers.watch_scopes import ChildNeed, ChildScope, ScopeUses
from ssa_operator.informers.watched_version import ObjectsInVersions, WatchedVersion, shown_by
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState, kind_state
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.shards import Shard

DELETED_LIMIT = 1000
"""Deleted objects whose last state is kept."""


class ChildListener(Protocol):
    """Receives the events of children."""

    def child_changed(self, parent_uid: str, namespace: str) -> None:
        """An object in this namespace with this parent's label changed, by another request than the operator's own."""

    def names_child(self, parent_uid: str, identity: Identity) -> bool:
        """Whether a known parent renders or records an object, or its status has it."""

    async def until_parents_known(self) -> None:
        """Wait until all parents are listed, for a while."""

    def child_released(self, identity: Identity) -> None:
        """An object was deleted, or has another owner now."""

    def kind_changed(self) -> None:
        """A kind can be watched now, or no longer."""

    def child_written(self, live: LiveObject) -> None:
        """A request of the operator returned this object."""

    def child_deleted(self, live: LiveObject) -> None:
        """A request of the operator deleted this object, and no finalizer keeps it."""


class ChildInformers(Mapping[Identity, LiveObject]):
    """The informers of all kinds of children. As a mapping: all watched objects by identity."""

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        namespaces: tuple[str, ...],
        listener: ChildListener,
        shard: Shard | None = None,
    ) -> None:
        self._client = client
        self._mapper = mapper
        self._namespaces = namespaces
        self._shard = shard
        self._listener = listener
        self._kinds: dict[GroupKind, dict[str, WatchedVersion]] = {}
        self._uses = ScopeUses()
        self._deleted: OrderedDict[Identity, LiveObject] = OrderedDict()
        self._stopping: set[asyncio.Task[None]] = set()
        self._expected: dict[str, frozenset[Identity]] = {}

    def __getitem__(self, identity: Identity) -> LiveObject:
        found = self.find(identity, self._version_of_parent(identity))
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

    @property
    def informers(self) -> Iterator[tuple[ChildScope, Informer]]:
        """Every informer, and what it shows."""
        return (
            (ChildScope(kind, version, namespace), informer)
            for kind, versions in self._kinds.items()
            for version, watched in versions.items()
            for namespace, informer in watched.informers.items()
        )

    @property
    def reflectors(self) -> Iterator[Reflector]:
        return (reflector for _, informer in self.informers for reflector in informer.reflectors)

    @property
    def tasks(self) -> Iterator[asyncio.Task[None]]:
        return (task for _, informer in self.informers for task in informer.tasks)

    @property
    def missing(self) -> set[GroupKind]:
        """The watched kinds that the API server no longer serves."""
        return {scope.kind for scope, informer in self.informers if informer.missing}

    def find(self, identity: Identity, version: str | None = None) -> LiveObject | None:
        """A live object, in this version if the kind is watched in it; None if the cache has none."""
        versions = self._kinds.get(identity.group_kind)
        if not versions:
            return None
        return shown_by(versions, identity.namespace, version).cache.get(identity.namespace, identity.name)

    def of(self, parent_uid: str) -> Mapping[Identity, LiveObject]:
        """All watched objects, those that this parent's manifests name in the versions of these."""
        return ObjectsInVersions(self, partial(self._find_of_parent, parent_uid))

    def _find_of_parent(self, parent_uid: str, identity: Identity) -> LiveObject | None:
        """A live object, in the version of a parent's manifests."""
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
            live
            for kind, versions in self._kinds.items()
            for watched in versions.values()
            for live in watched.cache.by_parent(parent_uid)
            if len(versions) == 1 or self._is_shown_by(watched, kind, live)
        )

    def last_seen(self, identity: Identity) -> LiveObject | None:
        """The live object, or its last state if it was deleted recently: a Job with a TTL may be gone before the next
        reconcile.
        """
        return self.get(identity) or self._deleted.get(identity)

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
        namespaced = self.namespaced(kind)
        if namespaced is None:
            return None
        scopes = sorted(scope for scope in self._uses.scopes(parent_uid) if scope.kind == kind)
        return kind_state(namespaced, [(scope.namespace, self._state(scope, namespaced)) for scope in scopes])

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

    async def watch(self, parent_uid: str, needs: Iterable[ChildNeed], hidden: AbstractSet[str] = frozenset()) -> bool:
        """Watch what a parent additionally needs, and wait for the sync, until its deadline. Returns whether new
        objects became known. Kinds that the cluster doesn't serve are left out.

        An operator that is limited to namespaces watches each of them separately; for a need without a namespace it
        watches all of them. `hidden` are namespaces that contents of Secrets name.
        """
        needs = self._by_namespace(self._in_known_version(parent_uid, need) for need in needs)
        if any(self._scope(need) is None for need in needs):
            await self._listener.until_parents_known()
        served = [(need, resource) for need in needs if (resource := await self._resource(need)) is not None]
        # No other task runs from here until the scopes are recorded, so none of them is stopped in between.
        informers: dict[ChildScope, Informer] = {}
        for need, resource in served:
            limited = bool(self._namespaces) and resource.namespaced
            for namespace in ([need.namespace] if need.namespace else self._namespaces) if limited else [""]:
                scope = ChildScope(need.kind, resource.version, namespace)
                informers[scope] = self._ensure_watched(scope, resource, hidden=scope.namespace in hidden)
        self._uses.add(parent_uid, frozenset(informers))
        unsynced = [informer for informer in informers.values() if not informer.synced]
        await wait_for_sync(unsynced)
        return any(informer.synced for informer in unsynced)

    def expect(self, parent_uid: str, identities: Iterable[Identity]) -> None:
        """From now on, keep these objects whole: a parent is about to apply them or has read them."""
        if expected := frozenset(identities):
            self._expected[parent_uid] = expected
        else:
            self._expected.pop(parent_uid, None)

    async def read_whole(self, partial: LiveObject) -> None:
        """Read the body of an object of which only metadata was kept, with the permission of its watch. Raises ApiError
        and CredentialsError.
        """
        identity = partial.identity
        watched = self._kinds.get(identity.group_kind, {}).get(partial.version)
        if watched is None:
            return
        scope = Scope(watched.resource, identity.namespace, PARENT_UID_LABEL, name=identity.name)
        for live in (await self._client.list_scope(scope))[0]:
            watched.cache.written(live, changed=False)

    def _reduced(self, live: LiveObject) -> LiveObject:
        """The object to keep: whole if a parent names it, otherwise its metadata."""
        uid, identity = live.parent_uid, live.identity
        named = identity in self._expected.get(uid, ()) or self._listener.names_child(uid, identity)
        return live if named else live.as_partial()

    def need_only(self, parent_uid: str, needs: Iterable[ChildNeed], versions: Mapping[Identity, str]) -> None:
        """Record that a parent needs only these objects; `versions` has the version of each of its manifests."""
        scopes = {scope for need in self._by_namespace(needs) if (scope := self._scope(need)) is not None}
        self._stop_unused(self._uses.replace(parent_uid, frozenset(scopes), versions))

    def shown_versions(self, parent_uid: str) -> object:
        """A value that changes whenever the versions change in which this parent's children are shown."""
        several = (kind for kind, versions in self._kinds.items() if len(versions) > 1)
        return self._uses.versions(parent_uid, several)

    def forget(self, parent_uid: str) -> None:
        """Record that a parent is gone."""
        self._expected.pop(parent_uid, None)
        self._stop_unused(self._uses.forget(parent_uid))

    async def refresh(self, kind: GroupKind) -> None:
        """Stop the informers of a kind whose CRD changed, if the cluster now serves the kind differently or not at all.

        The next reconcile that renders the kind starts others. Raises ApiError if discovery fails.
        """
        for version, watched in [*self._kinds.get(kind, {}).items()]:
            try:
                served = await self._mapper.resource(kind, version)
            except UnknownKind:
                served = None
            before = watched.resource
            if served is None or (served.path(), served.namespaced) != (before.path(), before.namespaced):
                for namespace in [*watched.informers]:
                    self._stop(ChildScope(kind, version, namespace))

    async def close(self) -> None:
        """Stop every informer."""
        for scope, _ in [*self.informers]:
            self._stop(scope)
        await asyncio.gather(*self._stopping, return_exceptions=True)

    def writing(self, identity: Identity) -> contextlib.AbstractContextManager[None]:
        """Defer the watch events of an object while the operator writes it, to recognize those of its own write."""
        versions = self._kinds.get(identity.group_kind, {}).values()
        writes = [watched.cache.writing(identity.namespace, identity.name) for watched in versions]
        return writes[0] if len(writes) == 1 else _all_of(writes)

    def written(self, live: LiveObject, *, changed: bool = True) -> LiveObject:
        """Update the cache with a live object that a request of the operator returned; `changed`: whether the request
        changed it. Returns the cache's own object.
        """
        watched = self._kinds.get(live.identity.group_kind, {}).get(live.version)
        if watched is not None:
            live = watched.cache.written(live, changed=changed)
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
        """How the cluster serves a kind, in this version or in the preferred one. Raises UnknownKind."""
        return await self._mapper.resource(kind, version)

    async def resource_by_name(self, name: str) -> Resource:
        """The resource called `deployments.apps`. Raises UnknownKind."""
        return await self._mapper.resource_by_name(name)

    def _in_known_version(self, parent_uid: str, need: ChildNeed) -> ChildNeed:
        """The need, in the version in which the parent's manifests have the kind if any version will do."""
        known = self._uses.version(parent_uid, Identity(*need.kind, need.namespace, ""))
        return need if need.version is not None or known is None else need._replace(version=known)

    async def _resource(self, need: ChildNeed) -> Resource | None:
        """How a need is watched, None if the cluster doesn't serve the kind. If it doesn't serve the version, the
        kind is watched in another one: the apply names the versions that are served.
        """
        versions = self._kinds.get(need.kind, {})
        if need.version in versions:
            return versions[need.version].resource
        if need.version is None and versions:
            return next(iter(versions.values())).resource
        try:
            return await self._mapper.resource(need.kind, need.version)
        except UnknownKind:
            return None if need.version is None else await self._resource(need._replace(version=None))

    def _by_namespace(self, needs: Iterable[ChildNeed]) -> set[ChildNeed]:
        """The needs; those without a namespace, once for each namespace that the operator is limited to."""
        found = set[ChildNeed]()
        for need in needs:
            anywhere = self._namespaces and not need.namespace and self.namespaced(need.kind)
            found |= {need._replace(namespace=each) for each in self._namespaces} if anywhere else {need}
        return found

    def _scope(self, need: ChildNeed) -> ChildScope | None:
        """The scope of a need that is watched; None without an informer."""
        versions = self._kinds.get(need.kind, {})
        chosen = need.version if need.version in versions else next(iter(versions), None)
        if chosen is None:
            return None
        namespace = next((each for each in ("", need.namespace) if each in versions[chosen].informers), None)
        return None if namespace is None else ChildScope(need.kind, chosen, namespace)

    def _ensure_watched(self, scope: ChildScope, resource: Resource, *, hidden: bool) -> Informer:
        versions = self._kinds.setdefault(scope.kind, {})
        watched = versions.get(scope.version)
        if watched is None:
            watched = versions[scope.version] = WatchedVersion(resource)
            watched.cache.listen(partial(self._changed, watched))
        informer = watched.informers.get(scope.namespace)
        if informer is None:
            informer = Informer(watched.resource, watched.cache, lambda _: self._listener.kind_changed())
            watched.informers[scope.namespace] = informer
            shard = self._shard
            selector = PARENT_UID_LABEL if shard is None else shard.child_selector
            keep = None if shard is None else lambda live: shard.owns(live.parent_uid)
            selected = Scope(watched.resource, scope.namespace, selector, hidden=hidden)
            informer.add(Reflector(self._client, selected, watched.cache, keep=keep, reduce=self._reduced))
        return informer

    def _stop_unused(self, scopes: Iterable[ChildScope]) -> None:
        """Stop watches that no parent needs any more. A synced watch keeps running for a while, because a template or a
        condition may change back.
        """
        for scope in scopes:
            if self._state(scope, namespaced=True).synced:
                asyncio.get_running_loop().call_later(GRACE_PERIOD, self._stop_if_unused, scope)
            else:
                self._stop(scope)

    def _stop_if_unused(self, scope: ChildScope) -> None:
        if not self._uses.is_used(scope):
            self._stop(scope)

    def _stop(self, scope: ChildScope) -> None:
        versions = self._kinds.get(scope.kind, {})
        watched = versions.get(scope.version)
        informer = None if watched is None else watched.informers.pop(scope.namespace, None)
        if watched is None or informer is None:
            return
        informer.cancel()
        self._stopping.update(informer.tasks)
        for task in informer.tasks:
            task.add_done_callback(self._stopping.discard)
        watched.cache.forget(scope.namespace)
        if not watched.informers:
            del versions[scope.version]
        if not versions:
            del self._kinds[scope.kind]

    def _version_of_parent(self, identity: Identity) -> str | None:
        """The version in which the manifest of an object's parent has it; None if that makes no difference."""
        versions = self._kinds.get(identity.group_kind, {})
        if len(versions) < 2:
            return None
        found = (each.cache.get(identity.namespace, identity.name) for each in versions.values())
        parents = (self._uses.version(live.parent_uid, identity) for live in found if live is not None)
        return next((version for version in parents if version is not None), None)

    def _is_shown_by(self, watched: WatchedVersion, kind: GroupKind, live: LiveObject) -> bool:
        """Whether an object is shown in this version."""
        versions = self._kinds.get(kind, {})
        if len(versions) < 2:
            return watched in versions.values()
        version = self._uses.version(live.parent_uid, live.identity)
        return shown_by(versions, live.identity.namespace, version) is watched

    def _counts(self, watched: WatchedVersion, live: LiveObject) -> bool:
        """Whether changes of an object in this version count: this version shows the object, or will once it has
        synced. The informers of other versions deliver the same changes, including the operator's own.
        """
        wanted = self._uses.version(live.parent_uid, live.identity)
        return wanted == watched.resource.version or self._is_shown_by(watched, live.identity.group_kind, live)

    def _changed(self, watched: WatchedVersion, old: LiveObject | None, new: LiveObject | None) -> None:
        lives = [live for live in (old, new) if live is not None]
        if not any(self._counts(watched, live) for live in lives):
            return
        if old is not None and new is None:
            self._remember_deleted(old)
        for uid, namespace in {(live.parent_uid, live.identity.namespace) for live in lives}:
            self._listener.child_changed(uid, namespace)
        if old is not None and (new is None or _owners(old) != _owners(new)):
            self._listener.child_released(old.identity)

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
