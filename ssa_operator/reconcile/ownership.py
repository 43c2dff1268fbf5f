"""Which parent an object belongs to.

Promises:
- The operator doesn't apply to an object of another parent that exists, or that may exist. The refusal names it.
- An object of a parent that no longer exists can be adopted.
"""

from __future__ import annotations

from msgspec.structs import replace

from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.shared_ownership import other_owners


def belongs_to_other_parent(observed: Observed, step: Child) -> Child | None:
    """Refuses a manifest whose object another parent has."""
    owner = _other_parent(observed, step)
    if not owner:
        return None
    why = f"belongs to {owner} already; give it another name"
    live, in_other_shards = step.live, observed.parents.in_other_shards
    elsewhere = live is not None and live.parent_uid in in_other_shards
    refused = step.refused(why)
    return replace(refused, claimed_by_other=True, owner_in_other_shard=elsewhere)


def owner_may_still_exist(observed: Observed, step: Child) -> Child | None:
    """Waits while it isn't known whether the parent exists that the object names."""
    live = step.live
    if live is None or live.shared is not None or live.parent_uid in ("", observed.parent.uid):
        return None
    if not observed.parents.may_exist(live):
        return None
    return step.waiting("waits: it isn't known yet whether the parent whose label it carries still exists")


def _other_parent(observed: Observed, step: Child) -> str | None:
    """The other parent that has the object, as the message names it; None where none has."""
    live, mine = step.live, observed.parent.uid
    claimant = observed.parents.claims.get(step.wanted.identity, mine)
    if claimant != mine and claimant in observed.parents.existing:
        return str(observed.parents.existing[claimant])
    if live is None or live.parent_uid in ("", mine):
        return None
    if live.shared is not None:
        return None if step.wanted.shared is not None else other_owners(live, mine, observed.parents) or None
    if (owner_of_label := observed.parents.find(live.parent_uid)) is not None:
        return str(owner_of_label)
    me = observed.parent.identity
    for owner in live.owner_references:
        if owner.controller and (owner.kind, owner.name) != (me.kind, me.name):
            return f"{owner.kind} {owner.name}"
    return None
