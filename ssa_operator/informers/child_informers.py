"""The informers of children: one for each kind, version and namespace that a manifest needs.

Promises:
- A child is watched in the version of its manifest, each version separately.
- The operator watches only objects with its parent label, and only in the namespaces that it is limited to and in those
  that manifests name. Under `--shard` it keeps only the children of the shard's parents, and all shared objects.
- If a kind can't be watched (no permission, no CRD), reports show the reason. Other kinds are not affected, nor are
  parents that need nothing of the kind in that namespace.
- If no known parent names an object in its manifests, its records or its status, only the object's metadata is kept,
  because any client that may create objects may give them the label. If a parent names it later, `read_whole` reads it.
- A watch that no parent needs any more stops: at once if it has not synced, otherwise after `GRACE_PERIOD` seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from ssa_operator.informers.child_caches import ChildCaches, ChildListener, WatchedVersion
from ssa_operator.informers.informer import Informer, Informers, wait_for_sync
from ssa_operator.informers.watch_scopes import ChildNeed, ChildScope
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.shards import Shard


class ChildInformers(ChildCaches, Informers[ChildScope]):
    """The informers of all kinds of children, and their caches."""

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        namespaces: tuple[str, ...],
        listener: ChildListener,
        shard: Shard | None = None,
    ) -> None:
        ChildCaches.__init__(self, mapper, listener)
        Informers.__init__(self)
        self._client = client
        self._namespaces = namespaces
        self._shard = shard
        self._expected: dict[str, frozenset[Identity]] = {}

    @property
    def missing(self) -> set[GroupKind]:
        """The watched kinds that the API server no longer serves."""
        return {scope.kind for scope, informer in self.informers.items() if informer.missing}

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

    def watch_moment(self, parent_uid: str) -> object:
        """A value that changes whenever a watch starts, stops or changes its state, or this parent needs others."""
        return self._changes, self._uses.use(parent_uid)

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
        identity = live.identity
        named = any(
            identity in self._expected.get(uid, ()) or self._listener.names_child(uid, identity)
            for uid in live.parent_uids
        )
        return live if named else live.as_partial()

    def need_only(self, parent_uid: str, needs: Iterable[ChildNeed], versions: Mapping[Identity, str]) -> object:
        """Record that a parent needs only these objects; `versions` has the version of each of its manifests. Returns
        the `watch_moment` if synced watches show all of them in these versions, otherwise None.
        """
        found = {need: self._scope(need) for need in self._by_namespace(needs)}
        scopes = frozenset(scope for scope in found.values() if scope is not None)
        self._stop_unused(self._uses.replace(parent_uid, scopes, versions))
        shown = all(
            scope is not None and need.version in (None, scope.version) and self._state(scope, namespaced=True).synced
            for need, scope in found.items()
        )
        return self.watch_moment(parent_uid) if shown else None

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
        informers = versions[chosen].informers
        namespace = "" if "" in informers else need.namespace
        return ChildScope(need.kind, chosen, namespace) if namespace in informers else None

    def _ensure_watched(self, scope: ChildScope, resource: Resource, *, hidden: bool) -> Informer:
        versions = self._kinds.setdefault(scope.kind, {})
        watched = versions.get(scope.version)
        if watched is None:
            watched = versions[scope.version] = WatchedVersion(resource)
            watched.cache.listen(partial(self._changed, watched))
        informer = watched.informers.get(scope.namespace)
        if informer is None:
            self._watches_changed()
            shard = self._shard
            selector = PARENT_UID_LABEL if shard is None else shard.child_selector
            keep = None if shard is None else lambda live: live.shared is not None or shard.owns(live.parent_uid)
            selected = Scope(watched.resource, scope.namespace, selector, hidden=hidden)
            reflector = Reflector(self._client, selected, watched.cache, keep=keep, reduce=self._reduced)
            informer = watched.informers[scope.namespace] = self._start(scope, reflector, self._state_changed)
        return informer

    def _state_changed(self, _: Reflector) -> None:
        self._watches_changed()
        self._listener.kind_changed()

    def _stop_unused(self, scopes: Iterable[ChildScope]) -> None:
        """Stop watches that no parent needs any more. A synced watch keeps running for a while, because a template or a
        condition may change back.
        """
        for scope in scopes:
            if self._state(scope, namespaced=True).synced:
                self._stop_later(scope)
            else:
                self._stop(scope)

    def _is_used(self, shown: ChildScope) -> bool:
        return self._uses.is_used(shown)

    def _stopped(self, shown: ChildScope, informer: Informer) -> None:
        versions = self._kinds[shown.kind]
        watched = versions[shown.version]
        del watched.informers[shown.namespace]
        self._watches_changed()
        informer.cache.forget(shown.namespace)
        if not watched.informers:
            del versions[shown.version]
        if not versions:
            del self._kinds[shown.kind]
