"""Changes the owners of an object that several parents share, without changing the object.

Promises:
- The object is read before, and the write has its resourceVersion as precondition, so that no other owner is lost.
- The owners in one process take turns. Owners in other processes are kept out by the precondition alone.
- The last owner deletes the object only if no other parent has become an owner since.
"""

from __future__ import annotations

from msgspec.structs import replace

from ssa_operator.kube.api.discovery import REQUEST_ERRORS
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Child, Result, waiting_outcome
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.shared_ownership.rules import release_patch, released_outcome, vote_patch

OTHERS_TURN = "waits: another parent that shares it writes it, and the API server takes long to answer"


async def record_vote(step: Child, uid: str, reconcile: Reconcile) -> LiveObject | None:
    """Record on a shared object what its owner renders now. Returns the object as it is then. If it changed meanwhile,
    its event requeues the parent, and any other failure leaves it to the next resync: the parent is in conflict anyway.
    """
    live = step.live
    patch = None if live is None else vote_patch(live, uid, step.vote)
    if live is None or patch is None or reconcile.cluster.dry_run:
        return live
    try:
        resource = await reconcile.cluster.children.resource(live.identity.group_kind, live.version)
        async with reconcile.cluster.children.shared_turn(step.identity, uid) as granted:
            now = reconcile.cluster.children.of(uid).get(step.identity)
            if not granted or now is None or now.resource_version != live.resource_version:
                return live
            return await _patched(live, patch, resource, reconcile)
    except REQUEST_ERRORS:
        return live


async def release(step: Child, uid: str, resource: Resource, reconcile: Reconcile) -> LiveObject | Child:
    """Give up an object that other parents share. Returns the outcome, or the object to delete if no other parent owns
    it. Raises ApiError, `conflict` if it changed meanwhile.
    """
    live, identity = step.live, step.identity
    async with reconcile.cluster.children.shared_turn(identity, uid, patient=reconcile.cluster.dry_run) as granted:
        if not granted:
            return waiting_outcome(step, live, OTHERS_TURN)
        current = await reconcile.client.find(resource, identity.name, identity.namespace)
        if current is None or live is None or current.uid != live.uid or not current.belongs_to(uid):
            return step.ended(Result.PRUNED)
        outcome, patch = released_outcome(step, current, uid), release_patch(current, uid)
        if outcome is None or patch is None:
            return current
        if reconcile.cluster.dry_run:
            return outcome
        return replace(outcome, live=await _patched(current, patch, resource, reconcile))


async def _patched(live: LiveObject, patch: bytes, resource: Resource, reconcile: Reconcile) -> LiveObject:
    identity = live.identity
    with reconcile.cluster.writing(identity):
        written = await reconcile.client.merge_patch(resource, identity.namespace, identity.name, patch)
        return reconcile.cluster.written(written)
