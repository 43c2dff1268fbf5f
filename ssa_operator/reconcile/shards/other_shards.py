"""The parents that other shards reconcile: whether the parent whose label an object carries still exists.

Promises:
- The only parents of other shards in memory are, for some seconds, those whose objects this shard wants to apply.
- A parent counts as gone only by a list that began after its object was read.
- Reconciles that ask at the same time share one list, of metadata only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ssa_operator.kube.api.client import Client
from ssa_operator.objects.shards import Shard
from ssa_operator.reconcile.nested_parents import OtherParent
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
        self._found: dict[str, tuple[OtherParent, float]] = {}
        self._wanted: set[str] = set()
        self._lock = asyncio.Lock()

    def their_uids(self, uids: Iterable[str]) -> frozenset[str]:
        """The uids of parents that belong to another shard."""
        return frozenset(uid for uid in uids if uid and not self._shard.owns(uid))

    async def existing(self, uids: AbstractSet[str]) -> Mapping[str, OtherParent]:
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

    def _known(self, uids: AbstractSet[str]) -> dict[str, OtherParent]:
        return {uid: self._found[uid][0] for uid in uids if uid in self._found}

    async def _list(self) -> None:
        wanted, self._wanted = self._wanted, set()
        found = dict[str, OtherParent]()
        try:
            for parents in tuple(self._folders.values()):
                resource = parents.served.resource
                for reflector in parents.reflectors:
                    scope = replace(reflector.scope, shard_selector="", metadata_only=True)
                    for live in (await self._client.list_scope(scope, keep=lambda live: live.uid in wanted))[0]:
                        identity = resource.identity(live.metadata.namespace, live.metadata.name)
                        found[live.uid] = OtherParent(identity, live.creator_uid)
        except BaseException:
            self._wanted |= wanted
            raise
        # The time of the end: reconciles that wait for a slow list have its answer, too.
        now = self._now()
        self._found |= {uid: (each, now) for uid, each in found.items()}
