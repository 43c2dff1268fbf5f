"""The informers of children: one for each kind, started when a template first renders the kind.

Promises:
- The operator watches only objects with its parent label, and only in the namespaces that it is limited to and in those
  that manifests name. Under `--shard` it keeps only the children of the shard's parents.
- A kind that can't be watched (no permission, no CRD) has a reason that reports show, and disturbs no other kind.
- The result of an apply is in the cache from the moment of its answer, also where the watch event comes late.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from ssa_operator.controller.informers.informer import Informer, wait_for_sync
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.core.planning.observed import KindState
from ssa_operator.core.policies.shards import Shard
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector

DELETED_LIMIT = 1000
"""Deleted objects whose last state is kept."""


class ChildListener(Protocol):
    """Receives the events of children."""

    def child_changed(self, parent_uid: str, namespace: str) -> None:
        """An object in this namespace with this parent's label changed, by another request than the operator's own."""

    def child_released(self, identity: Identity) -> None:
        """An object was deleted, or has another owner now."""

    def kind_changed(self) -> None:
        """A kind can be watched now, or no longer."""

    def child_written(self, live: LiveObject) -> None:
        """A request of the operator returned this object."""

    def child_deleted(self, live: LiveObject) -> None:
        """A request of the operator deleted this object, and no finalizer keeps it."""


class KindStates(Mapping[GroupKind, KindState]):
    """The state of each kind's informer. A state is made when it is read, not before."""

    def __init__(self, informers: Mapping[GroupKind, Informer]) -> None:
        self._informers = informers

    def __getitem__(self, kind: GroupKind) -> KindState:
        informer = self._informers[kind]
        return KindState(
            namespaced=informer.resource.namespaced,
            synced=informer.synced,
            problem=informer.not_synced_reason,
            needs_permission=informer.forbidden,
        )

    def __contains__(self, kind: object) -> bool:
        return kind in self._informers

    def __iter__(self) -> Iterator[GroupKind]:
        return iter(self._informers)

    def __len__(self) -> int:
        return len(self._informers)


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
        self._informers: dict[GroupKind, Informer] = {}
        self._deleted: OrderedDict[Identity, LiveObject] = OrderedDict()
        self._starting: dict[GroupKind, asyncio.Lock] = {}

    def __getitem__(self, identity: Identity) -> LiveObject:
        live = self._informers[identity.group_kind].cache.get(identity.namespace, identity.name)
        if live is None:
            raise KeyError(identity)
        return live

    def __iter__(self) -> Iterator[Identity]:
        return (live.identity for informer in self._informers.values() for live in informer.cache)

    def __len__(self) -> int:
        return sum(len(informer.cache) for informer in self._informers.values())

    @property
    def kinds(self) -> Mapping[GroupKind, KindState]:
        """The state of every watched kind."""
        return KindStates(self._informers)

    @property
    def reflectors(self) -> Iterator[Reflector]:
        return (reflector for informer in self._informers.values() for reflector in informer.reflectors)

    @property
    def tasks(self) -> Iterator[asyncio.Task[None]]:
        return (task for informer in self._informers.values() for task in informer.tasks)

    @property
    def missing(self) -> set[GroupKind]:
        """The watched kinds that the API server no longer serves."""
        return {kind for kind, informer in self._informers.items() if informer.missing}

    def by_parent(self, parent_uid: str) -> tuple[LiveObject, ...]:
        """The live objects with the label of this parent."""
        return tuple(live for informer in self._informers.values() for live in informer.cache.by_parent(parent_uid))

    def last_seen(self, identity: Identity) -> LiveObject | None:
        """The live object, or its last state if it was deleted lately: a Job with a TTL may be gone before the next
        reconcile.
        """
        return self.get(identity) or self._deleted.get(identity)

    async def watch(
        self,
        kinds: Iterable[GroupKind],
        namespaces: Iterable[tuple[GroupKind, str]] = (),
        redactor: Redactor = NO_SECRETS,
    ) -> None:
        """Watch these kinds and wait for their sync, until its deadline. Kinds that the cluster doesn't serve are left
        out.

        An operator that is limited to namespaces watches the kinds there, and each kind of `namespaces` in its
        namespace too. `redactor` hides the contents of Secrets in names of watches.
        """
        informers = [self._informers.get(kind) or await self._start(kind) for kind in kinds]
        for kind, namespace in namespaces if self._namespaces else ():
            informer = self._informers.get(kind)
            if informer is not None and namespace and namespace not in informer.namespaces:
                self._watch_namespace(
                    informer, namespace, redactor if redactor.contains_secret(namespace) else NO_SECRETS
                )
        await wait_for_sync(informer for informer in informers if informer is not None)

    async def refresh(self, kind: GroupKind) -> None:
        """Stop the informer of a kind whose CRD changed, if the cluster now serves the kind otherwise or not at all.

        The next reconcile that renders the kind starts another informer. Raises ApiError where discovery fails.
        """
        informer = self._informers.get(kind)
        if informer is None:
            return
        try:
            served = await self._mapper.resource(kind)
        except UnknownKind:
            served = None
        if served is None or (served.path(), served.namespaced) != (
            informer.resource.path(),
            informer.resource.namespaced,
        ):
            del self._informers[kind]
            await informer.stop()

    async def close(self) -> None:
        """Stop every informer."""
        while self._informers:
            await self._informers.popitem()[1].stop()

    def writing(self, identity: Identity) -> AbstractContextManager[None]:
        """Hold back the watch events of an object while the operator writes it, to recognize those of its own write."""
        informer = self._informers.get(identity.group_kind)
        if informer is None:
            return contextlib.nullcontext()
        return informer.cache.writing(identity.namespace, identity.name)

    def written(self, live: LiveObject, *, changed: bool = True) -> LiveObject:
        """Update the cache with a live object that a request of the operator returned; `changed`: whether the request
        changed it. Returns it, as the cache has it.
        """
        informer = self._informers.get(live.identity.group_kind)
        if informer is not None:
            live = informer.cache.written(live, changed=changed)
        self._listener.child_written(live)
        return live

    def deleted(self, live: LiveObject) -> None:
        """Remove from the cache an object that a request of the operator deleted, or found absent."""
        self._remember_deleted(live)
        informer = self._informers.get(live.identity.group_kind)
        if informer is not None:
            informer.cache.deleted(live)
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

    async def _start(self, kind: GroupKind) -> Informer | None:
        async with self._starting.setdefault(kind, asyncio.Lock()):
            if kind in self._informers:
                return self._informers[kind]
            try:
                resource = await self._mapper.resource(kind)
            except UnknownKind:
                return None
            cache = Cache()
            cache.listen(self._changed)
            informer = self._informers[kind] = Informer(resource, cache, lambda _: self._listener.kind_changed())
            for namespace in self._namespaces if resource.namespaced and self._namespaces else ("",):
                self._watch_namespace(informer, namespace)
            return informer

    def _watch_namespace(self, informer: Informer, namespace: str, redactor: Redactor = NO_SECRETS) -> None:
        """Watch one more namespace ('': all)."""
        shard = self._shard
        selector = PARENT_UID_LABEL if shard is None else shard.child_selector
        keep = None if shard is None else lambda live: shard.owns(live.parent_uid)
        scope = Scope(informer.resource, namespace, selector, redactor=redactor)
        informer.add(Reflector(self._client, scope, informer.cache, keep=keep))

    def _changed(self, old: LiveObject | None, new: LiveObject | None) -> None:
        if old is not None and new is None:
            self._remember_deleted(old)
        for uid, namespace in {(live.parent_uid, live.identity.namespace) for live in (old, new) if live is not None}:
            self._listener.child_changed(uid, namespace)
        if old is not None and (new is None or _owners(old) != _owners(new)):
            self._listener.child_released(old.identity)

    def _remember_deleted(self, live: LiveObject) -> None:
        self._deleted[live.identity] = live
        self._deleted.move_to_end(live.identity)
        if len(self._deleted) > DELETED_LIMIT:
            self._deleted.popitem(last=False)


def _owners(live: LiveObject) -> tuple[object, ...]:
    return live.uid, live.parent_uid, live.owner_references
