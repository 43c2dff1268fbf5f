"""Removes the owner references that children got back while their parent was deleted without them
(reconcile.orphaning.rules).

Promises:
- Before the operator's finalizer goes, every child is read, and loses an owner reference to the parent.
- A child that may not be read because its namespace is being deleted goes with the namespace.
- If another client changes a child meanwhile, the child is read again, and that change is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.act import run_all
from ssa_operator.reconcile.cluster_access import ClusterAccess
from ssa_operator.reconcile.finalization.requests import ending_namespaces
from ssa_operator.reconcile.orphaning.rules import orphan_patch

ATTEMPTS = 3
"""How often a child is read in one reconcile if others change its owners meanwhile; the garbage collector does."""


async def release_children(
    cluster: ClusterAccess, parent: LiveObject, only: Callable[[Identity], object] = lambda _: True
) -> None:
    """Remove every owner reference to this parent, or those of some children. No apply is in flight, because reconciles
    of a parent follow each other, so no reference comes back. Raises ApiError and CredentialsError.
    """
    children = [live for live in cluster.children.by_parent(parent.uid) if only(live.identity)]
    await run_all(_release(live, parent, cluster) for live in children)


async def _release(live: LiveObject, parent: LiveObject, cluster: ClusterAccess) -> None:
    identity = live.identity
    try:
        resource = await cluster.children.resource(identity.group_kind, live.version)
    except UnknownKind:
        return  # its CRD is gone, and the object with it
    for attempt in range(1, ATTEMPTS + 1):
        try:
            current = await cluster.client.find(resource, identity.name, identity.namespace)
        except ApiError as error:
            if error.forbidden and await ending_namespaces([identity.namespace], parent, cluster):
                return  # it goes with its namespace
            raise
        patch = None if current is None else orphan_patch(current, parent.uid)
        if patch is None:
            return
        try:
            with cluster.writing(identity):
                cluster.written(await cluster.client.json_patch(resource, identity.namespace, identity.name, patch))
        except ApiError as error:
            changed = error.conflict or error.invalid or error.not_found
            if attempt == ATTEMPTS or not changed:
                raise
