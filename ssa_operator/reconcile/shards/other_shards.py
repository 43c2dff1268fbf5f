"""The parents that other shards reconcile: whether the parent whose label an object carries still exists, and which
parents other parents created.

Promises:
- The only parents of other shards in memory are those whose objects this shard wants to apply, and for some seconds
  those that other parents created.
- A parent counts as gone only by a list that began after its object was read, and as created by none only by a list
  that began after it was asked for.
- Reconciles that ask at the same time share one list, of metadata only.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ssa_operator.kube.api.client import Client
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.shards import Shard
from ssa_operator.reconcile.nested_parents.ancestors import CreatedParent
from ssa_operator.reconcile.parent_state import Parents

REMEMBERED_SECONDS = 10.0
"""How long a parent counts as existing after a list that had it: an object that it releases is free only after that."""


class OtherShards:
    """The parents of `folders`, the running folders, that do not belong to `shard`."""

    def __init__(
        self,
        client: Client,
        folders: Mapping[str, Parents],
        shard: Shard,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._folders = folders
        self._shard = shard
        self._now = now
        self._found: dict[str, tuple[Identity, float]] = {}
        self._wanted: set[str] = set()
        self._lock = asyncio.Lock()
        self._created: dict[str, CreatedParent] = {}
        self._others: set[str] = set()
        """Uids that no created parent had in the list that `_created` is from."""
        self._created_since = -math.inf
        """When that list began."""
        self._created_lock = asyncio.Lock()

    def their_uids(self, uids: Iterable[str]) -> frozenset[str]:
        """The uids of parents that belong to another shard."""
        return frozenset(uid for uid in uids if uid and not self._shard.owns(uid))

    async def existing(self, uids: AbstractSet[str]) -> Mapping[str, Identity]:
        """The existing parents of other shards among these, by uid. Raises ApiError and CredentialsError."""
        oldest = self._now() - REMEMBERED_SECONDS
        self._found = {uid: found for uid, found in self._found.items() if found[1] > oldest}
        # Kept here, because another call may forget them while this one waits.
        found = self._known(uids)
        missing = uids - found.keys()
        if not missing:
            return found
        self._wanted |= missing
        async with self._lock:
            if missing & self._wanted:  # otherwise a list that began after this question has the answer
                await self._list()
            return found | self._known(missing)

    async def created(self, uid: str) -> Mapping[str, CreatedParent]:
        """All parents that other parents created, of all shards, by uid; as they are since some seconds if this one is
        among them or known not to be. Raises ApiError and CredentialsError.
        """
        asked = self._now()
        async with self._created_lock:
            is_known = uid in self._created or uid in self._others
            if self._created_since < asked and not (is_known and self._created_since > asked - REMEMBERED_SECONDS):
                began = self._now()
                created: dict[str, CreatedParent] = {}
                async for identity, live in self._metadata(label_selector=PARENT_UID_LABEL):
                    created[live.uid] = CreatedParent(identity, live.creator_uid)
                self._created, self._others, self._created_since = created, set(), began
            if uid not in self._created:
                self._others.add(uid)
            return self._created

    def _known(self, uids: AbstractSet[str]) -> dict[str, Identity]:
        return {uid: self._found[uid][0] for uid in uids if uid in self._found}

    async def _list(self) -> None:
        wanted, self._wanted = self._wanted, set()
        found = dict[str, Identity]()
        try:
            async for identity, live in self._metadata(keep=lambda live: live.uid in wanted):
                found[live.uid] = identity
        except BaseException:
            self._wanted |= wanted
            raise
        # The time of the end: reconciles that wait for a slow list have its answer, too.
        now = self._now()
        self._found |= {uid: (identity, now) for uid, identity in found.items()}

    async def _metadata(
        self, label_selector: str = "", keep: Callable[[LiveObject], bool] | None = None
    ) -> AsyncIterator[tuple[Identity, LiveObject]]:
        """The metadata of the parents of all shards, each with its identity. Raises ApiError and CredentialsError."""
        for parents in tuple(self._folders.values()):
            resource = parents.served.resource
            for reflector in parents.reflectors:
                scope = replace(reflector.scope, shard_selector="", metadata_only=True)
                if label_selector:
                    scope = replace(scope, label_selector=label_selector)
                for live in (await self._client.list_scope(scope, keep=keep))[0]:
                    metadata = live.metadata
                    yield resource.identity(metadata.namespace, metadata.name), live
