"""The parents that other shards reconcile: whether the parent whose label an object carries still exists, before a
manifest is applied to the object; and which are above a parent, before the operator creates children of it, and where
they decide what is never deleted.

Promises:
- Without `--shard`, nothing is read: the informers know all parents. Nothing is read for a parent that no other parent
  created, either.
- While the parents above a parent can't be read, no child of it is created. An object of another shard's parent is not
  adopted while that parent exists, or while that is not known.
- The only parents of other shards in memory are, for some seconds, those whose objects this shard wants to apply.
- A parent counts as gone only by a list that began after its object was read.
- Reconciles that ask at the same time share one list, of metadata only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.shards import Shard
from ssa_operator.reconcile.nested_parents import OtherParent
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.parent_state import Parents

log = logging.getLogger("ssa_operator")

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


async def with_parents_of_other_shards(
    observed: Observed, objects: Iterable[LiveObject], other_shards: OtherShards | None
) -> Observed:
    """The observation with those parents of other shards whose label these objects carry and that exist."""
    if other_shards is None:
        return observed
    parents = observed.parents
    wanted = (uid for live in objects for uid in _parents_to_know(live))
    uids = other_shards.their_uids(wanted) - parents.in_other_shards.keys()
    if not uids:
        return observed
    try:
        found = await other_shards.existing(uids)
    except (ApiError, CredentialsError) as error:
        log.info("whether parents of other shards exist is unknown: %s", error)
        return replace(observed, parents=replace(parents, all_parents_known=False))
    identities = {uid: each.identity for uid, each in found.items()}
    return replace(observed, parents=replace(parents, in_other_shards={**parents.in_other_shards, **identities}))


def _parents_to_know(live: LiveObject) -> tuple[str, ...]:
    """The parents that an object belongs to by what the operator wrote. The owner references of a shared object are
    proof enough, because the garbage collector removes that of a parent that is gone.
    """
    return () if live.shared is not None and live.owner_references else live.parent_uids


async def with_ancestors_in_other_shards(
    observed: Observed, claims: ObjectClaims, other_shards: OtherShards
) -> Observed:
    """The observation with the parents above the parent that other shards reconcile, up to the limit of nesting."""
    parents, above = observed.parents, observed.parents.ancestors
    found: dict[str, OtherParent] = {}
    try:
        while len(above.line) < observed.settings.max_depth and (uids := other_shards.their_uids({above.missing})):
            if not (creator := await other_shards.existing(uids)):
                break
            found |= creator
            above = claims.ancestors(observed.parent, found)
    except (ApiError, CredentialsError) as error:
        log.info("which parents of other shards are above %s is unknown: %s", observed.parent.identity, error)
        return replace(observed, parents=replace(parents, all_parents_known=False))
    return replace(observed, parents=replace(parents, ancestors=above)) if found else observed
