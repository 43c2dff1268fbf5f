"""Renews the owner reference of an object that is not applied any more, and removes it from what the parent lives in.

Promises:
- An object that is not applied (`apply: Once`, `IfNotPresent`, a held prune, a suspended parent) names its parent in
  the version in which the operator reads the parent. It gets no other change.
- The first reconcile that reads a parent in a version renews the owner references of all of its children, whatever
  becomes of their manifests: of a suspended parent, of one whose templates wait or fail, of shared objects.
- The patch changes the owner reference and nothing else, and tests that object and owner are those that were read.
- An object that is kept, and that is being deleted, is not written, nor is one of a parent that is being deleted.
- A dry run writes nothing.

The garbage collector resolves an owner by the version in the reference. If the cluster no longer serves that version,
it never deletes the object.
"""

from __future__ import annotations

import json
import logging

from msgspec.structs import replace

from ssa_operator.kube.api.discovery import REQUEST_ERRORS
from ssa_operator.objects.identity import join_api_version, split_api_version
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.failures import failed_request
from ssa_operator.reconcile.observed import Observed


def owner_version_patch(live: LiveObject, parent: LiveObject) -> bytes | None:
    """The JSON patch that changes an object's owner reference to the parent's version, None if it has that version or
    no such reference.
    """
    group = parent.identity.group
    wanted = join_api_version(group, parent.version)
    for position, owner in enumerate(live.owner_references):
        if owner.uid == parent.uid and owner.api_version != wanted and split_api_version(owner.api_version)[0] == group:
            return _patch(live, position, "replace", "/apiVersion", value=wanted)
    return None


def orphan_patch(live: LiveObject, parent_uid: str) -> bytes | None:
    """The JSON patch that removes an object's owner reference to a parent, None if it has none."""
    for position, owner in enumerate(live.owner_references):
        if owner.uid == parent_uid:
            return _patch(live, position, "remove")
    return None


def _patch(live: LiveObject, position: int, operation: str, path: str = "", **value: str) -> bytes:
    """The JSON patch that changes one owner reference of an object, at a path below it."""
    reference = f"/metadata/ownerReferences/{position}"
    tests = {"/metadata/uid": live.uid, f"{reference}/uid": live.owner_references[position].uid}
    operations = [{"op": "test", "path": tested, "value": uid} for tested, uid in tests.items()]
    operations.append({"op": operation, "path": reference + path, **value})
    return json.dumps(operations, separators=(",", ":")).encode()


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
