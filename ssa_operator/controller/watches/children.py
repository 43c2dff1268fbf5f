"""The watches of everything that parents made: one for each kind, started when a template first renders it.

Promises:
- Of a kind only what carries our parent label is watched, and only in the namespaces that the operator looks after.
- A kind that can't be watched (rights missing, CRD gone) is a problem in words, and hurts no other kind.
- What we wrote is seen at once: the result of an apply counts from the moment of its answer, however late its event
  comes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from ssa_operator.controller.watches.informer import Informer, until_settled
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.core.planning.observed import KindState
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector

DEPARTED = 1000
"""Objects whose last state is kept after they went."""


class ChildListener(Protocol):
    """Who is told what happens to children."""

    def child_changed(self, parent_uid: str) -> None:
        """Something that this parent made was changed by other hands than ours."""

    def child_released(self, identity: Identity) -> None:
        """An object went, or has another owner now."""

    def kind_changed(self) -> None:
        """A kind can be watched now, or no longer."""

    def child_written(self, live: LiveObject) -> None:
        """One of our own requests returned this."""

    def child_deleted(self, live: LiveObject) -> None:
        """One of our own requests deleted this for good."""


class KindStates(Mapping[GroupKind, KindState]):
    """What the watches say of their kinds now; nothing is put together for a kind that nobody asks for."""

    def __init__(self, watches: Mapping[GroupKind, Informer]) -> None:
        self._watches = watches

    def __getitem__(self, kind: GroupKind) -> KindState:
        watch = self._watches[kind]
        return KindState(
            namespaced=watch.resource.namespaced,
            synced=watch.synced,
            problem=watch.problem,
            needs_permission=watch.forbidden,
        )

    def __contains__(self, kind: object) -> bool:
        return kind in self._watches

    def __iter__(self) -> Iterator[GroupKind]:
        return iter(self._watches)

    def __len__(self) -> int:
        return len(self._watches)


class ChildInformers(Mapping[Identity, LiveObject]):
    """All watched objects by identity, and the watches themselves."""

    def __init__(
        self, client: Client, mapper: RESTMapper, namespaces: tuple[str, ...], listener: ChildListener
    ) -> None:
        self._client = client
        self._mapper = mapper
        self._namespaces = namespaces
        self._listener = listener
        self._watches: dict[GroupKind, Informer] = {}
        self._departed: OrderedDict[Identity, LiveObject] = OrderedDict()
        self._starting: dict[GroupKind, asyncio.Lock] = {}

    def __getitem__(self, identity: Identity) -> LiveObject:
        live = self._watches[identity.group_kind].cache.get(identity.namespace, identity.name)
        if live is None:
            raise KeyError(identity)
        return live

    def __iter__(self) -> Iterator[Identity]:
        return (live.identity for watch in self._watches.values() for live in watch.cache)

    def __len__(self) -> int:
        return sum(len(watch.cache) for watch in self._watches.values())

    @property
    def kinds(self) -> Mapping[GroupKind, KindState]:
        """What is known of every kind that is watched."""
        return KindStates(self._watches)

    @property
    def reflectors(self) -> Iterator[Reflector]:
        return (reflector for watch in self._watches.values() for reflector in watch.reflectors)

    @property
    def missing(self) -> set[GroupKind]:
        """The kinds that are watched and that the API server doesn't serve any more."""
        return {kind for kind, watch in self._watches.items() if watch.missing}

    def of(self, parent_uid: str) -> tuple[LiveObject, ...]:
        """The live objects that carry the parent's label."""
        return tuple(live for watch in self._watches.values() for live in watch.cache.by_parent(parent_uid))

    def last_seen(self, identity: Identity) -> LiveObject | None:
        """An object as it is, or as it was last where it went not long ago: a Job that its TTL removes may be gone
        before anybody looked at it.
        """
        return self.get(identity) or self._departed.get(identity)

    async def watch(
        self,
        kinds: Iterable[GroupKind],
        places: Iterable[tuple[GroupKind, str]] = (),
        redactor: Redactor = NO_SECRETS,
    ) -> None:
        """Have these kinds watched, in all namespaces that the operator looks after and in these `places` (a kind in a
        namespace). Kinds that the cluster doesn't know are passed over. Nothing is said of a place whose name holds
        what `secrecy` knows.

        Waits until the watches are synced or known not to be possible, within their patience.
        """
        watches = [self._watches.get(kind) or await self._start(kind) for kind in kinds]
        for kind, namespace in places if self._namespaces else ():
            watch = self._watches.get(kind)
            if watch is not None and namespace and namespace not in watch.namespaces:
                self._widen(watch, namespace, redactor if redactor.contains_secret(namespace) else NO_SECRETS)
        await until_settled(watch for watch in watches if watch is not None)

    async def refresh(self, kind: GroupKind) -> None:
        """A kind's CRD changed or is gone: stop watching it where the cluster now serves it otherwise, or not at all.

        Whoever renders it has it watched anew. Raises ApiError where the cluster can't be asked.
        """
        watch = self._watches.get(kind)
        if watch is None:
            return
        try:
            served = await self._mapper.resource(kind)
        except UnknownKind:
            served = None
        if served is None or (served.path(), served.namespaced) != (watch.resource.path(), watch.resource.namespaced):
            del self._watches[kind]
            await watch.stop()

    async def close(self) -> None:
        """Stop every watch."""
        while self._watches:
            await self._watches.popitem()[1].stop()

    def writing(self, identity: Identity) -> AbstractContextManager[None]:
        """Hold the events of an object back while a request of ours is under way, so that its echo is known as one."""
        watch = self._watches.get(identity.group_kind)
        return watch.cache.writing(identity.namespace, identity.name) if watch is not None else contextlib.nullcontext()

    def written(self, live: LiveObject) -> None:
        """Take what one of our own requests returned for the live object."""
        watch = self._watches.get(live.identity.group_kind)
        if watch is not None:
            watch.cache.written(live)
        self._listener.child_written(live)

    def deleted(self, live: LiveObject) -> None:
        """Take that one of our own requests deleted the object for good."""
        watch = self._watches.get(live.identity.group_kind)
        if watch is not None:
            watch.cache.deleted(live)
        self._listener.child_deleted(live)

    async def resource(self, kind: GroupKind, version: str | None = None) -> Resource:
        """How the cluster serves a kind in a version, or the one that it prefers. Raises UnknownKind."""
        return await self._mapper.resource(kind, version)

    async def _start(self, kind: GroupKind) -> Informer | None:
        async with self._starting.setdefault(kind, asyncio.Lock()):
            if kind in self._watches:
                return self._watches[kind]
            try:
                resource = await self._mapper.resource(kind)
            except UnknownKind:
                return None
            cache = Cache()
            cache.listen(self._changed)
            watch = self._watches[kind] = Informer(resource, cache, lambda _: self._listener.kind_changed())
            for namespace in self._namespaces if resource.namespaced and self._namespaces else ("",):
                self._widen(watch, namespace)
            return watch

    def _widen(self, watch: Informer, namespace: str, redactor: Redactor = NO_SECRETS) -> None:
        """Watch one more namespace."""
        scope = Scope(watch.resource, namespace, PARENT_UID_LABEL, redactor=redactor)
        watch.add(Reflector(self._client, scope, watch.cache))

    def _changed(self, old: LiveObject | None, new: LiveObject | None) -> None:
        if old is not None and new is None:
            self._departed[old.identity] = old
            self._departed.move_to_end(old.identity)
            if len(self._departed) > DEPARTED:
                self._departed.popitem(last=False)
        for uid in {live.parent_uid for live in (old, new) if live is not None}:
            self._listener.child_changed(uid)
        if old is not None and (new is None or _owners(old) != _owners(new)):
            self._listener.child_released(old.identity)


def _owners(live: LiveObject) -> tuple[object, ...]:
    return live.uid, live.parent_uid, live.metadata.owner_references
