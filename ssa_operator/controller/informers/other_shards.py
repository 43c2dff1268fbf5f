"""The parents that other shards reconcile: whether the parent whose label an object carries still exists.

Promises:
- No parent of another shard is kept in memory but those whose objects this shard wants to apply.
- A parent counts as gone only by a list that began after its object was read.
- Reconciles that ask at the same time share one list, of metadata only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ssa_operator.controller.informers.parents import ParentInformer
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.policies.shards import Shard
from ssa_operator.kube.api.client import Client

REMEMBERED_SECONDS = 10.0
"""How long a parent counts as existing after a list that had it: an object that it releases is free only after that."""


class OtherShards:
    """The parents of `folders`, the running folders, that do not belong to `shard`."""

    def __init__(
        self,
        client: Client,
        folders: Mapping[str, ParentInformer],
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

    def their_uids(self, uids: Iterable[str]) -> frozenset[str]:
        """Those of these uids of parents that belong to another shard."""
        return frozenset(uid for uid in uids if uid and not self._shard.owns(uid))

    async def existing(self, uids: AbstractSet[str]) -> Mapping[str, Identity]:
        """Those of these parents of other shards that exist, by uid. Raises ApiError and CredentialsError."""
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

    def _known(self, uids: AbstractSet[str]) -> dict[str, Identity]:
        return {uid: self._found[uid][0] for uid in uids if uid in self._found}

    async def _list(self) -> None:
        wanted, self._wanted = self._wanted, set()
        found = dict[str, Identity]()
        try:
            for parents in tuple(self._folders.values()):
                resource = parents.served.resource
                for reflector in parents.reflectors:
                    scope = replace(reflector.scope, shard_selector="", metadata_only=True)
                    objects, _ = await self._client.list_scope(scope, keep=lambda live: live.uid in wanted)
                    for live in objects:
                        metadata = live.metadata
                        found[live.uid] = Identity(resource.group, resource.kind, metadata.namespace, metadata.name)
        except BaseException:
            self._wanted |= wanted
            raise
        # The time of the end: reconciles that wait for a slow list have its answer, too.
        now = self._now()
        self._found |= {uid: (identity, now) for uid, identity in found.items()}
