"""Hands over the number of replicas that a manifest leaves to others.

Promises:
- An object gets the other owners after it was created with the number, or before a manifest without it is applied. A
  process that dies in between leaves a number that the operator owns, which the next process hands over.
- If others have written the object meanwhile, it is read and judged again.
"""

from __future__ import annotations

import logging
from functools import partial

from ssa_operator.kube.api.conflicts import retry_on_conflict
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.reconcile.adoption import depends_on_known
from ssa_operator.reconcile.current_reconcile import Reconcile, SharedCluster
from ssa_operator.reconcile.prune.outdated_view import is_outdated
from ssa_operator.reconcile.replicas.rules import SPEC_REPLICAS, OthersReplicas, ScalePaths, find_handover

log = logging.getLogger("ssa_operator")


def scale_paths(resource: Resource, cluster: SharedCluster) -> ScalePaths:
    """The field of the number of replicas in each version of a resource. Where the operator may not read CRDs, it is
    that of built-in kinds.
    """
    defined = cluster.crds.scale_paths(resource.name)
    if defined is not None:
        return defined.get
    path = SPEC_REPLICAS if "scale" in resource.subresources else None
    return lambda _: path


async def hand_over(
    manifest: Manifest, live: LiveObject, resource: Resource, reconcile: Reconcile, replicas: OthersReplicas | None
) -> LiveObject:
    """Give the number of a live object other owners, if a manifest leaves it to them. `replicas` is what the object's
    predecessor had. Returns the patched object, or the object that was read if the manifest must not be applied to the
    present one. Raises ApiError.
    """
    paths, identity = scale_paths(resource, reconcile.cluster), manifest.identity

    async def change(current: LiveObject | None) -> LiveObject:
        if current is None or current.uid != live.uid or (depends_on_known(manifest) and is_outdated(live, current)):
            return live
        handover = find_handover(manifest, current, paths, replicas)
        if handover is None:
            return current
        patch = handover.patch(current)
        patched = await reconcile.client.merge_patch(resource, identity.namespace, identity.name, patch)
        log.info("%s: %s", identity, handover)
        return reconcile.cluster.written(patched)

    read = partial(reconcile.client.find, resource, identity.name, identity.namespace)
    return await retry_on_conflict(read, change, known=live)
