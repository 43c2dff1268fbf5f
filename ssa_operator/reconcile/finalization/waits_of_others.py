"""Reading what the ends of namespaces, CRDs and parents wait for because of the parents of other operator processes:
other shards, and operators that watch other namespaces or have other folders.

Promises:
- A deletion waits for no end that waits for the parent, whichever process the parents on the way belong to: their
  finalizers and records in the cluster decide.
- The operator reads only for objects in deletion that the parent waits for and that parents may keep, and keeps no
  object without the operator's finalizer in memory.
- The operator reports what it may not read, and a person has to judge whether that waits for the parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from msgspec import Struct
from msgspec import field as struct_field

from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.reconcile.act import run_all
from ssa_operator.reconcile.cluster_access import SharedCluster
from ssa_operator.reconcile.finalization.deletion_cycles import (
    CRD,
    NAMESPACE,
    cycles,
    remaining,
    waiting_path,
    why_kept,
)
from ssa_operator.reconcile.finalization.waits import DeletionWaits
from ssa_operator.reconcile.parent_records.rules import read_parent_records

READ_LIMIT = 1000
"""Namespaces, CRDs and parents whose waits one reconcile reads."""


class WaitsOfOthers(Struct, frozen=True, kw_only=True):
    """What the objects that a parent waits for wait for themselves."""

    cycles: Mapping[Identity, str] = struct_field(default_factory=dict)
    """The objects that wait for the end of the parent, each with the path as a text."""
    unread: Mapping[Identity, str] = struct_field(default_factory=dict)
    """The objects that may wait for it, each with the reason why that is unknown."""


async def waits_of_others(
    ends: Iterable[LiveObject], parent: Identity, cluster: SharedCluster, waits: DeletionWaits
) -> WaitsOfOthers:
    """What these objects in deletion wait for. Raises ApiError and CredentialsError."""
    starts = tuple(ends)
    reading = _Reading(cluster, waits)
    await reading.follow(starts, parent)
    found = cycles((each.identity for each in starts), parent, reading.awaited_by)
    rest = [each.identity for each in starts if each.identity not in found]
    return WaitsOfOthers(cycles=found, unread={each: why for each in rest if (why := reading.why_unknown(each))})


@dataclass(slots=True)
class _Reading:
    """What one reconcile reads."""

    cluster: SharedCluster
    waits: DeletionWaits
    _edges: dict[Identity, tuple[Identity, ...]] = field(default_factory=dict)
    """What the end of each object that was read waits for."""
    _live: dict[Identity, LiveObject] = field(default_factory=dict)
    """The objects that were read."""
    _crds: dict[GroupKind, str] = field(default_factory=dict)
    """The name of the CRD of each kind of parents that were read."""
    _unread: dict[Identity, str] = field(default_factory=dict)
    """Why it is unknown what an object waits for."""

    def awaited_by(self, identity: Identity) -> tuple[Identity, ...]:
        """What the end of an object waits for."""
        return (*self._edges.get(identity, ()), *self.waits.awaited_by(identity))

    def why_unknown(self, start: Identity) -> str | None:
        """Why it is unknown whether the end of an object waits for that of the parent, None if it is known."""
        return next((why for each, why in self._unread.items() if waiting_path(start, each, self.awaited_by)), None)

    async def follow(self, starts: Iterable[LiveObject], parent: Identity) -> None:
        """Read what these objects wait for, what that waits for, and so on."""
        self._live |= {each.identity: each for each in starts}
        level = list(self._live)
        while level:
            read = [each for each in level if each not in self._edges][: READ_LIMIT - len(self._edges)]
            self._unread |= dict.fromkeys(level[len(read) :], f"more than {READ_LIMIT} objects are on the way")
            found = await run_all(self._read(identity) for identity in read)
            self._edges |= dict(zip(read, found, strict=True))
            below = dict.fromkeys(each for identity in read for each in self.awaited_by(identity))
            level = [each for each in below if each not in self._edges and each != parent and self._may_wait(each)]

    def _may_wait(self, identity: Identity) -> bool:
        """Whether the end of an object may wait for a parent."""
        return identity.group_kind in (NAMESPACE, CRD) or self._parent(identity) is not None

    def _parent(self, identity: Identity) -> LiveObject | None:
        """A parent with the operator's finalizer, of this process or another one, None if none is known."""
        found = self._live.get(identity) or self.waits.find(identity)
        return found if found is not None and _has_finalizer(found) else None

    async def _read(self, identity: Identity) -> tuple[Identity, ...]:
        """What the end of an object waits for. Objects that may not be read are recorded as such."""
        try:
            if identity.group_kind == NAMESPACE:
                return await self._in_namespace(identity)
            if identity.group_kind == CRD:
                return await self._of_crd(identity)
            found = self._parent(identity)
            return () if found is None else await self._deleted_first(identity, found)
        except ApiError as error:
            if not error.forbidden:
                raise
            self._unread[identity] = str(error)
            return ()

    async def _in_namespace(self, identity: Identity) -> tuple[Identity, ...]:
        """The parents that keep a namespace in deletion."""
        live = await self._ending(identity)
        left = None if live is None else remaining(live)
        if left is None:
            return ()
        found: list[Identity] = []
        refused: ApiError | None = None
        for name in left.resources:
            try:
                found += await self._parents(name, identity.name)
            except ApiError as error:
                if not error.forbidden:
                    raise
                refused = error
        if refused is not None and len(found) < left.count:
            self._unread[identity] = str(refused)
        return tuple(found)

    async def _of_crd(self, identity: Identity) -> tuple[Identity, ...]:
        """The parents that keep a CRD in deletion."""
        return tuple(await self._parents(identity.name, "")) if await self._ending(identity) is not None else ()

    async def _ending(self, identity: Identity) -> LiveObject | None:
        """A namespace or a CRD that is being deleted, None if it is gone or not being deleted."""
        if identity not in self._live:
            resource = await self.cluster.children.resource(identity.group_kind, "v1")
            found = await self.cluster.operator_client.find(resource, identity.name)
            if found is None:
                return None
            self._live[identity] = found
        live = self._live[identity]
        return live if live.deleting else None

    async def _deleted_first(self, identity: Identity, parent: LiveObject) -> tuple[Identity, ...]:
        """The children that a parent deletes before it goes."""
        records = read_parent_records(parent)
        crds = {**self.waits.crds, **self._crds}
        recorded = tuple(each for each in records.inventory if not why_kept(each, (identity,), crds))
        kinds = () if records.applied is None else sorted(records.applied.kinds & crds.keys())
        label = f"{PARENT_UID_LABEL}={parent.uid}"
        nested = [await self._parents(crds[kind], identity.namespace, label) for kind in kinds]
        return (*recorded, *chain.from_iterable(nested))

    async def _parents(self, name: str, namespace: str, label_selector: str = "") -> list[Identity]:
        """The objects of a resource that have the operator's finalizer. Raises ApiError."""
        try:
            resource = await self.cluster.children.resource_by_name(name)
        except UnknownKind:
            return []  # its CRD is gone, and the objects with it
        scope = Scope(resource, namespace if resource.namespaced else "", label_selector, metadata_only=True)
        found = []
        for live in (await self.cluster.operator_client.list_scope(scope, keep=_has_finalizer))[0]:
            identity = resource.identity(live.metadata.namespace, live.metadata.name)
            self._live[identity] = live
            self._crds[resource.group_kind] = resource.name
            found.append(identity)
        return found


def _has_finalizer(live: LiveObject) -> bool:
    return FINALIZER in live.metadata.finalizers
