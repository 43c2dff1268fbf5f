"""Keeps an object unchanged except for its owner reference to the parent: the reference names a served version
(reconcile.owner_references.rules), and objects that the parent lives in have none
(reconcile.finalization.deletion_cycles).

Promises:
- The first reconcile that reads a parent in a version renews the owner references of all of its children, whatever
  becomes of their manifests: of a suspended parent, of one whose templates wait or fail, of shared objects.
- The patch changes the owner reference and nothing else, and only of the very object that was read.
- An object that is kept, and that is being deleted, is not written, nor is one of a parent that is being deleted.
- A dry run writes nothing.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from ssa_operator.kube.api.discovery import REQUEST_ERRORS
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.failures import failed_request
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.owner_references.rules import orphan_patch, owner_version_patch

log = logging.getLogger("ssa_operator")


async def renew_owner_references(reconcile: Reconcile) -> None:
    """Have the children name their parent in the version in which this process reads it. A refusal is logged."""
    parent = reconcile.parent.live
    for live in reconcile.cluster.children.by_parent(parent.uid):
        if owner_version_patch(live, parent) is not None:
            step = Child(action=Action.KEEP, identity=live.identity, live=live)
            outcome = await keep(step, parent, reconcile)
            if outcome.result is Result.FAILED:
                log.warning("%s: its owner reference is not renewed: %s", reconcile.key, outcome.message)


async def keep(step: Child, parent: LiveObject, reconcile: Reconcile) -> Child:
    """The outcome of an object that is not applied. Its owner reference may be written."""
    live = step.live
    patch = owner_version_patch(live, parent) if live is not None else None
    kept = step.ended(Result.UNCHANGED, live=live)
    if live is None or patch is None or live.deleting or parent.deleting or reconcile.cluster.dry_run:
        return kept
    return await _patched(kept, live, patch, reconcile)


async def disown_kept(outcome: Child, observed: Observed, reconcile: Reconcile) -> Child:
    """The outcome of a step. If the parent lives in the object, the object loses an owner reference to the parent that
    an apply did not remove, because an earlier version or another client wrote it.
    """
    live, parent = outcome.live, observed.parent
    if live is None or reconcile.cluster.dry_run or not observed.why_kept(live.identity):
        return outcome
    patch = orphan_patch(live, parent.uid)
    return outcome if patch is None else await _patched(outcome, live, patch, reconcile)


async def _patched(outcome: Child, live: LiveObject, patch: bytes, reconcile: Reconcile) -> Child:
    """The outcome with the patched object, or a failure."""
    identity = live.identity
    try:
        resource = await reconcile.cluster.children.resource(identity.group_kind, live.version)
        with reconcile.cluster.writing(identity):
            written = reconcile.cluster.written(
                await reconcile.client.json_patch(resource, identity.namespace, identity.name, patch)
            )
    except REQUEST_ERRORS as error:
        return failed_request(outcome.again, error)
    return replace(outcome, live=written)
