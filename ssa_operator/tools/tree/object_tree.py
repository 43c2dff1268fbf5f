"""An object and everything below it, down to pods, for `ssa-operator tree`.

Promises:
- The states of a parent's children are those that the operator reported. The states of other objects are judged by the
  same rules.
- Any object can be shown, not only a parent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.identity import read_identity
from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.reconcile.status.previous_status import reported_children
from ssa_operator.rendering.folder.folder_settings import Settings
from ssa_operator.tools.connection.object_reference import FoundObject
from ssa_operator.tools.tree.listings import Listings
from ssa_operator.tools.tree.owned_objects import Owner, object_data, owned_objects
from ssa_operator.tools.tree.parent_entries import ListedParent, parent_entries
from ssa_operator.tools.tree.tree_view import conditions_of, entry


async def object_tree(
    listings: Listings, mapper: RESTMapper, found: FoundObject, folder: Settings | None, now: float
) -> dict[str, Any]:
    """The data of an object and everything below it; `folder` has the settings of its template folder, None without
    one. `now` is in seconds since the epoch.

    Raises ApiError and CommandError.
    """
    live = found.live
    if folder is None and reported_children(live) is None:
        below = await owned_objects(listings, mapper, [Owner(live.identity, live.uid, live)], now)
        own = object_data(live, now) if not found.resource.confidential else {}
        data = entry(live, {"conditions": conditions_of(live)}) | own
        return data | {"resources": below.below.get(live.uid, []), "notes": list(below.notes)}
    cluster_scope = folder is not None and folder.cluster_scope
    parent = ListedParent(live=live, resource=found.resource, cluster_scope=cluster_scope)
    (data,) = await parent_entries(listings, mapper, [parent], now, whole=True)
    owners = await _owners(listings, mapper, data["resources"])
    below = await owned_objects(listings, mapper, owners, now)
    resources = [each | {"objects": below.below.get(each.get("uid", ""), [])} for each in data["resources"]]
    return data | {"resources": resources, "notes": [*data["notes"], *below.notes]}


async def _owners(listings: Listings, mapper: RESTMapper, children: Sequence[Mapping[str, Any]]) -> list[Owner]:
    """The children as owners. Those of custom kinds are read, because their status may list what they own."""
    owners = {each["uid"]: identity for each in children if each.get("uid") and (identity := read_identity(each))}
    scopes: dict[str, Scope] = {}
    for uid, identity in owners.items():
        with contextlib.suppress(UnknownKind):
            resource = await mapper.resource(identity.group_kind)
            if not resource.built_in:
                scopes[uid] = Scope(resource, identity.namespace, name=identity.name)
    found = await listings.read(scopes.values())
    lives = {live.uid: live for listing in found.values() for live in listing.objects}
    return [Owner(identity, uid, lives.get(uid)) for uid, identity in owners.items()]


async def read_again(listings: Listings, found: FoundObject) -> FoundObject:
    """The object as it is now. Raises CommandError once it is gone, and ApiError."""
    identity = found.live.identity
    scope = Scope(found.resource, identity.namespace, name=identity.name)
    listing = (await listings.read([scope]))[scope]
    if listing.problem:
        raise CommandError(listing.problem)
    if not listing.objects:
        raise CommandError(f"{identity} was deleted")
    return replace(found, live=listing.objects[0])
