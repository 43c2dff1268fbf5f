"""Writing what the operator keeps on a parent itself: the inventory, what was applied once, the finalizer.

Promises:
- Nothing is written where the parent says it already.
- Our own write wakes nobody, and never brings a parent back that is gone.
"""

from __future__ import annotations

from ssa_operator.core.encoding import encode
from ssa_operator.core.live import Live
from ssa_operator.core.upkeep import MANAGER, Records, read, written
from ssa_operator.kube.cache import Cache
from ssa_operator.kube.client import Client
from ssa_operator.kube.resource import Resource


async def keep(client: Client, resource: Resource, parent: Live, records: Records, cache: Cache) -> Live:
    """Have the parent keep these records; returns it as it is then.

    Raises ApiError (`not_found` or `conflict` where the parent is gone), and RecordsError where they don't fit.
    """
    if read(parent) == records:
        return parent
    namespace, name = parent.identity.namespace, parent.identity.name
    body = encode(written(parent, records))
    with cache.writing(namespace, name):
        kept = (await client.apply(resource, namespace, name, body, manager=MANAGER)).live
        if kept.metadata.finalizers or not kept.deleting:
            cache.written(kept)
    return kept
