"""Hands over the number of replicas that a manifest leaves to others.

Promises:
- An object gets the other owners after it was created with the number, or before a manifest without it is applied. A
  process that dies in between leaves a number that the operator owns, which the next process hands over.
- If others have written the object meanwhile, it is read and judged again.
"""

from __future__ import annotations

import logging

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.reconcile.adoption.rules import depends_on_known
from ssa_operator.reconcile.cluster_access import ClusterAccess, SharedCluster
from ssa_operator.reconcile.prune.outdated_view import is_outdated
from ssa_operator.reconcile.replicas.rules import SPEC_REPLICAS, OthersReplicas, ScalePaths, find_handover

log = logging.getLogger("ssa_operator")

ATTEMPTS = 5
"""How often a reconcile sends the patch to an object that others change meanwhile."""


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
    manifest: Manifest, live: LiveObject, resource: Resource, cluster: ClusterAccess, replicas: OthersReplicas | None
) -> LiveObject:
    """Give the number of a live object other owners, if a manifest leaves it to them. `replicas` is what the object's
    predecessor had. Returns the patched object, or the object that was read if the manifest must not be applied to the
    present one. Raises ApiError.
    """
    paths, known, identity = scale_paths(resource, cluster), live, manifest.identity
    for attempt in range(1, ATTEMPTS + 1):
        handover = find_handover(manifest, live, paths, replicas)
        if handover is None:
            return live
        try:
            patch = handover.patch(live)
            patched = await cluster.client.merge_patch(resource, identity.namespace, identity.name, patch)
        except ApiError as error:
            if not error.conflict or attempt == ATTEMPTS:
                raise
        else:
            log.info("%s: %s", identity, handover)
            return cluster.written(patched)
        current = await cluster.client.find(resource, identity.name, identity.namespace)
        if current is None or current.uid != known.uid:
            return known
        if depends_on_known(manifest) and is_outdated(known, current):
            return known
        live = current
    raise AssertionError("unreachable")
