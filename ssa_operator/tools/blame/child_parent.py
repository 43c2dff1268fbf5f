"""Finds the parent of an object that a user names: `blame deployment/hello` for the Deployment that an Echo renders.

Promises:
- The parent of a child is found by its owner references and by its label, in any of the watched namespaces.
- For an object that a child owns, such as a pod, the child above it is found, and the user is told.
"""

from __future__ import annotations

from msgspec import Struct

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject, OwnerReference
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools.connection.object_reference import ObjectReference, find_object
from ssa_operator.tools.plan.previews import PreviewSession

MAX_OWNERS = 8
"""The most owners above an object. Kubernetes' own controllers need three: CronJob, Job, Pod."""


class ParentOfObject(Struct, frozen=True, kw_only=True):
    """A parent that the user named, or whose child the user named."""

    parent: Parent
    child: LiveObject | None = None
    """None if the user named the parent."""


async def parent_of_object(session: PreviewSession, reference: ObjectReference, namespace: str) -> ParentOfObject:
    """The parent that an object is, or whose child it is. Raises CommandError and ApiError."""
    folders = session.preview.controllers.templates.folders
    named = await find_object(session.client, session.mapper, reference, namespace=namespace, folders=folders)
    parents = {parent.live.uid: parent for parent in session.preview.parents()}
    live = named.live
    if live.uid in parents:
        return ParentOfObject(parent=parents[live.uid])
    if named.resource.name in folders:
        session.preview.folder_of(named.resource.group_kind)
        why = session.preview.unavailable.get(named.resource.name, "it is outside of the watched namespaces")
        raise CommandError(f"{live.identity} can't be read as a parent: {why}", code=2)
    for _ in range(MAX_OWNERS):
        found = next((parents[uid] for uid in _owner_uids(live) if uid in parents), None)
        if found is not None:
            if live.uid != named.live.uid:
                streams.error(
                    f"{named.live.identity} is no child of {found.live.identity}; this is its owner, which is"
                )
            return ParentOfObject(parent=found, child=live)
        owner = await _controller(session, live)
        if owner is None:
            break
        live = owner
    raise CommandError(
        f"{named.live.identity} is neither a parent nor a child of one: no template folder is for "
        f"{named.resource.kind}, and no parent of these templates owns it; name the folder of the templates with "
        "--templates",
        code=2,
    )


def _owner_uids(live: LiveObject) -> list[str]:
    return [*(each.uid for each in live.owner_references), live.parent_uid or ""]


async def _controller(session: PreviewSession, live: LiveObject) -> LiveObject | None:
    """The object that controls another one, None without one that can be read."""
    owner: OwnerReference | None = next((each for each in live.owner_references if each.controller), None)
    if owner is None:
        return None
    resource = await session.mapper.resource(GroupKind.of(owner.api_version, owner.kind))
    try:
        return await session.client.get(resource, owner.name, live.identity.namespace if resource.namespaced else "")
    except ApiError as error:
        if error.not_found or error.forbidden:
            return None
        raise
