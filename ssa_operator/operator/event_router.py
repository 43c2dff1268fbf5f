"""Routes the events of all informers to the work queue: decides which parents an event requeues.

Promises:
- An event of a parent, of its child, or of an object that its templates look up requeues exactly that parent.
- If an object has a parent's label but can't be its child because of its namespace, its events requeue nothing.
- A parent that is deleted claims no object and follows no lookup.
- The result of an own write reaches the caches of lookups at once, even if the watch event comes late.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Protocol

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.informer import SYNC_DEADLINE
from ssa_operator.informers.lookups import LookupInformers
from ssa_operator.informers.parents import ParentKey
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import may_own
from ssa_operator.operator.queue import Queue
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.status.previous_status import named_children


class Controllers(Protocol):
    """The controllers of all folders, as far as the router asks them."""

    children: ChildInformers
    lookups: LookupInformers
    unread_namespaces: frozenset[str]

    @property
    def folders(self) -> Mapping[str, Parents]: ...

    @property
    def ready(self) -> bool: ...

    def on_kind_changed(self) -> None: ...

    async def synced_or_unavailable(self) -> None: ...


class EventRouter:
    """Listens to the informers of parents, children and lookups, which `controllers` has. These need their listener
    first, so it asks them for nothing before the first event.
    """

    def __init__(self, queue: Queue[ParentKey], controllers: Controllers) -> None:
        self._queue = queue
        self._controllers = controllers
        self._keys: dict[str, ParentKey] = {}
        self._identities: dict[str, Identity] = {}
        self._crds: dict[GroupKind, str] = {}
        """The name of the CRD of each kind of parents."""
        self._creators: dict[str, str] = {}
        """For each parent that another parent created, the uid of that one."""
        self.claims = ObjectClaims(
            self._identities,
            lambda: controllers.ready,
            lambda parent_uid: self.requeue(parent_uid, Cause.CHILD),
            self._creators,
            lambda: controllers.unread_namespaces,
            self._crds,
        )

    def parent_added(self, live: LiveObject, key: ParentKey) -> None:
        self._keys[live.uid], self._identities[live.uid] = key, live.identity
        self._crds[live.identity.group_kind] = key.folder
        self.parent_owned(live)

    def parent_owned(self, live: LiveObject) -> None:
        if creator := live.creator_uid:
            self._creators[live.uid] = creator
        else:
            self._creators.pop(live.uid, None)

    def parent_deleted(self, uid: str) -> None:
        self._keys.pop(uid, None)
        self._creators.pop(uid, None)
        self.claims.forget(uid)
        self._identities.pop(uid, None)
        self._controllers.children.forget(uid)
        self._controllers.lookups.forget(uid)

    def parent_changed(self, key: ParentKey, cause: Cause) -> None:
        self._queue.add(key, cause)

    def parents_changed(self, keys: Iterable[ParentKey], cause: Cause) -> None:
        """All of these have to be reconciled, for this cause."""
        for key in keys:
            self._queue.add(key, cause)

    def child_changed(self, parent_uid: str, namespace: str) -> None:
        parent = self._identities.get(parent_uid)
        if parent is None:
            return
        if may_own(parent.namespace, namespace) or self._may_have_children_elsewhere(self._keys[parent_uid]):
            self.requeue(parent_uid, Cause.CHILD)

    def names_child(self, parent_uid: str, identity: Identity) -> bool:
        if self.claims.is_rendered(identity, parent_uid):
            return True
        parent = self._find(parent_uid)
        return parent is not None and identity in named_children(parent)

    def _may_have_children_elsewhere(self, key: ParentKey) -> bool:
        """Whether a parent may have children outside of its namespace: its folder allows them, or it has the finalizer
        for them.
        """
        parents = self._controllers.folders.get(key.folder)
        if parents is None or parents.folder.settings.cluster_scope:
            return True
        live = parents.find(key.namespace, key.name)
        return live is not None and FINALIZER in live.metadata.finalizers

    def key_of(self, uid: str) -> ParentKey | None:
        """The key of the parent with that uid, None without one."""
        return self._keys.get(uid)

    def _find(self, uid: str) -> LiveObject | None:
        """The parent with that uid, None without one."""
        key = self._keys.get(uid)
        parents = None if key is None else self._controllers.folders.get(key.folder)
        parent = None if key is None or parents is None else parents.find(key.namespace, key.name)
        return parent if parent is not None and parent.uid == uid else None

    async def until_parents_known(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SYNC_DEADLINE):
                await self._controllers.synced_or_unavailable()

    def child_released(self, identity: Identity) -> None:
        self.claims.free(identity)

    def child_written(self, live: LiveObject) -> None:
        self._controllers.lookups.written(live)

    def child_deleted(self, live: LiveObject) -> None:
        self._controllers.lookups.deleted(live)

    def kind_changed(self) -> None:
        self._controllers.on_kind_changed()

    def requeue(self, parent_uid: str, cause: Cause) -> None:
        """Requeue the parent with that uid, if it is known."""
        key = self._keys.get(parent_uid)
        if key is not None:
            self._queue.add(key, cause)
