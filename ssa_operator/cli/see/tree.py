"""`ssa-operator tree`: shows a parent, its children, and the objects that they own, down to pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    Kubeconfig,
    Namespace,
    OutputOption,
    Templates,
    Watch,
    example,
)
from ssa_operator.operator.process.option_values import namespace_of
from ssa_operator.operator.process.streams import OutputFormat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    from ssa_operator.rendering.folder.folder_settings import read_resource_settings
    from ssa_operator.tools.connection.object_reference import find_object, parse_reference
    from ssa_operator.tools.terminal import live_display, printing
    from ssa_operator.tools.tree.listings import Lists, Watches
    from ssa_operator.tools.tree.object_tree import object_tree, read_again
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
                    return await object_tree(watches, mapper, await read_again(watches, found), folder, time.time())

                await live_display.show_changes(watches, read, _draw, output)

    connection.run(work())


def _draw(data: Mapping[str, Any], now: float) -> Sequence[Line]:
    from ssa_operator.tools.tree.tree_view import lines

    return list(lines(data, now))
