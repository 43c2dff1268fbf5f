"""`ssa-operator tree`: shows a parent, its children, and the objects that they own, down to pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.completed_names import objects
from ssa_operator.cli.shared_options import (
    TEMPLATES,
    AllNamespaces,
    Context,
    Kubeconfig,
    ListOption,
    Namespace,
    ShownSelector,
    Templates,
    Watch,
)
from ssa_operator.operator.process.option_values import check_folders, check_selector, first_step, namespace_of
from ssa_operator.operator.process.streams import CommandError, ListFormat

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ssa_operator.kube.api.client import Client
    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.tools.tree.listings import Listings
    from ssa_operator.tools.tree.tree_view import Line


EXAMPLE = "ssa-operator tree echo/hello --watch"


def tree(
    name: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND[/NAME]]",
            autocompletion=objects,
            help="The object; KIND NAME is allowed, too. Default: all parents, those of --namespace if it is given.",
        ),
    ] = None,
    templates: Templates = TEMPLATES,
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    selector: ShownSelector = "",
    watch: Watch = False,
    output: ListOption = ListFormat.TABLE,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show an object and everything below it, down to pods.

    Each line has the state, the age, the restarts of a pod, and what an object waits for and for how long.

    Below a parent are its children as the operator reported them. Below these are the objects that they own by owner
    references: ReplicaSets, Jobs, pods and PersistentVolumeClaims, and for a child of a custom kind also the objects
    that its own status lists.
    """
    import functools
    import time

    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.operator.process import connection
    from ssa_operator.rendering.folder.folder_settings import read_resource_settings
    from ssa_operator.tools import printing
    from ssa_operator.tools.command_target import cluster_target, find_object, parse_reference, parse_references
    from ssa_operator.tools.tree.object_tree import object_tree, parent_trees, read_again
    from ssa_operator.tools.tree.parent_entries import list_parents, report_unserved

    check_selector(selector)
    within, wanted = namespace_of(namespace), parse_references(name or (), names=False)
    named = [each for each in wanted if each.name]
    if named and (all_namespaces or selector):
        raise CommandError(f"{named[0]} is one object; -A and -l are for the trees of all parents", code=2)
    if not wanted:
        check_folders(templates)
    folders = read_resource_settings(templates)

    async def trees(listings: Listings, mapper: RESTMapper) -> list[dict[str, Any]]:
        namespaces = (within,) if within and not all_namespaces else ()
        parents = await list_parents(listings, mapper, folders, namespaces, wanted, selector)
        return await parent_trees(listings, mapper, parents, time.time())

    async def reader(client: Client, mapper: RESTMapper) -> Callable[[Listings], Awaitable[Any]]:
        """What reads the trees, or that of the one object."""
        if not named:
            await report_unserved(mapper, folders)
            return lambda listings: trees(listings, mapper)
        found = await find_object(client, mapper, parse_reference(name or ()), namespace=within, folders=folders)
        folder = folders.get(found.resource.name)

        async def read(listings: Listings) -> dict[str, Any]:
            now = await read_again(listings, found) if watch else found
            return await object_tree(listings, mapper, now, folder, time.time())

        return read

    async def work() -> None:
        async with connection.connect(cluster_target(kubeconfig, context)) as client:
            read = await reader(client, RESTMapper(client))
            draw = functools.partial(_draw, wide=output is ListFormat.WIDE)
            await printing.show(client, read, draw, output.data_format, watch=watch)

    try:
        connection.run(work())
    except CommandError as error:
        advice = first_step(templates)
        raise CommandError(f"{error}\nnote: {advice}", code=error.code) if advice and named else error from None


def _draw(data: dict[str, Any] | list[dict[str, Any]], now: float, *, wide: bool) -> Sequence[Line]:
    """The lines of one tree or of several."""
    from ssa_operator.tools.tree.tree_view import Line, lines

    trees = data if isinstance(data, list) else [data]
    return [line for each in trees for line in lines(each, now, wide=wide)] or [Line.of_note("no parents")]
