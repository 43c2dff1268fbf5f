"""`ssa-operator tree`: shows a parent, its children, and the objects that they own, down to pods.

Promises:
- The states of a parent's children are those that the operator reported. The states of other objects are judged by the
  same rules.
- Any object can be shown, not only a parent.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.output_option import OutputOption
from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    Kubeconfig,
    Namespace,
    Templates,
    Watch,
    example,
    namespace_of,
)
from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.tools.terminal.output_format import OutputFormat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.rendering.folder.folder_settings import Settings
    from ssa_operator.tools.connection.object_reference import FoundObject
    from ssa_operator.tools.tree.listings import Listings
    from ssa_operator.tools.tree.owned_objects import Owner
    from ssa_operator.tools.tree.tree_view import Line


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator tree echo/hello --watch"))(tree)


def tree(
    name: Annotated[list[str], typer.Argument(metavar="KIND/NAME", help="The object; KIND NAME is allowed, too.")],
    templates: Templates = TEMPLATES,
    namespace: Namespace = "",
    watch: Watch = False,
    output: OutputOption = OutputFormat.TABLE,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show an object and everything below it, down to pods.

    Each line has the state, the age, the restarts of a pod, and what an object waits for and for how long.

    Below a parent are its children as the operator reported them. Below these are the objects that they own by owner
    references: ReplicaSets, Jobs, pods and PersistentVolumeClaims, and for a child of a custom kind also the objects
    that its own status lists.
    """
    import time

    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.operator.process import connection
    from ssa_operator.rendering.folder.resource_settings import read_resource_settings
    from ssa_operator.tools.connection.object_reference import find_object, parse_reference
    from ssa_operator.tools.dev import live_display
    from ssa_operator.tools.terminal import printing
    from ssa_operator.tools.tree.listings import Lists, Watches
    from ssa_operator.tools.tree.tree_view import lines

    reference, within = parse_reference(name), namespace_of(namespace)
    folders = read_resource_settings(templates)

    async def work() -> None:
        async with connection.connect(connection.Target(kubeconfig=kubeconfig, context=context)) as client:
            mapper = RESTMapper(client)
            found = await find_object(client, mapper, reference, namespace=within, folders=folders)
            folder = folders.get(found.resource.name)
            if not watch:
                data = await object_tree(Lists(client), mapper, found, folder, time.time())
                printing.lines_or_data(list(lines(data, time.time())), data, output)
                return
            async with Watches(client) as watches:

                async def read() -> dict[str, Any]:
                    return await object_tree(watches, mapper, await _again(watches, found), folder, time.time())

                await live_display.show_changes(watches, read, _draw, output)

    connection.run(work())


def _draw(data: Mapping[str, Any], now: float) -> Sequence[Line]:
    from ssa_operator.tools.tree.tree_view import lines

    return list(lines(data, now))


async def _again(listings: Listings, found: FoundObject) -> FoundObject:
    """The object as it is now. Raises CommandError once it is gone."""
    from msgspec.structs import replace

    from ssa_operator.kube.api.request import Scope

    identity = found.live.identity
    scope = Scope(found.resource, identity.namespace, name=identity.name)
    listing = (await listings.read([scope]))[scope]
    if listing.problem:
        raise CommandError(listing.problem)
    if not listing.objects:
        raise CommandError(f"{identity} was deleted")
    return replace(found, live=listing.objects[0])


async def object_tree(
    listings: Listings, mapper: RESTMapper, found: FoundObject, folder: Settings | None, now: float
) -> dict[str, Any]:
    """The data of an object and everything below it; `folder` has the settings of its template folder, None without
    one. `now` is in seconds since the epoch.

    Raises ApiError and CommandError.
    """
    from ssa_operator.reconcile.status.previous_status import reported_children
    from ssa_operator.tools.tree.owned_objects import Owner, object_data, owned_objects
    from ssa_operator.tools.tree.parent_entries import ListedParent, parent_entries
    from ssa_operator.tools.tree.tree_view import conditions_of, entry

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
    from ssa_operator.kube.api.discovery import UnknownKind
    from ssa_operator.kube.api.request import Scope
    from ssa_operator.objects.identity import read_identity
    from ssa_operator.tools.tree.owned_objects import Owner

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
