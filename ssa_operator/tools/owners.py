"""The owners of an object, from the one that controls it upwards.

Promises:
- An owner is found by its uid: an object that was recreated under the name of an owner owns nothing of the former one.
- An owner that is gone, or that the user may not read, ends the walk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject, OwnerReference

MAX_OWNERS = 8
"""The most owners above an object. Kubernetes' own controllers need three: CronJob, Job, Pod."""


async def owner_chain(client: Client, mapper: RESTMapper, live: LiveObject) -> AsyncIterator[LiveObject]:
    """The object and then its owners, each owned by the next one. Raises ApiError."""
    for _ in range(MAX_OWNERS):
        yield live
        reference = first_owner(live)
        owner = await _owner(client, mapper, live, reference) if reference is not None else None
        if owner is None:
            return
        live = owner


def first_owner(live: LiveObject) -> OwnerReference | None:
    """The owner that controls an object, or else its first one."""
    references = live.owner_references
    return next((each for each in references if each.controller), next(iter(references), None))


async def read(client: Client, mapper: RESTMapper, identity: Identity) -> LiveObject | None:
    """An object, None if it does not exist. Raises ApiError."""
    try:
        resource = await mapper.resource(identity.group_kind)
    except UnknownKind:
        return None
    return await client.find(resource, identity.name, identity.namespace if resource.namespaced else "")


async def _owner(client: Client, mapper: RESTMapper, live: LiveObject, reference: OwnerReference) -> LiveObject | None:
    kind = GroupKind.of(reference.api_version, reference.kind)
    try:
        found = await read(client, mapper, Identity(kind.group, kind.kind, live.identity.namespace, reference.name))
    except ApiError as error:
        if error.forbidden:
            return None
        raise
    return found if found is not None and found.uid == reference.uid else None
