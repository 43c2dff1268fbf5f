"""Observes the parents of other shards: those whose label an object carries, before a manifest is applied to the
object; and those above a parent, before the operator creates children of it, and where they decide what is never
deleted.

Promises:
- Without `--shard`, nothing is read: the informers know all parents. Nothing is read for a parent that no other parent
  created, either.
- While the parents above a parent can't be read, no child of it is created.
- An object of another shard's parent is not adopted while that parent exists, or while that is not known.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from msgspec.structs import replace

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.nested_parents import OtherParent
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.shards.other_shards import OtherShards

log = logging.getLogger("ssa_operator")


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
