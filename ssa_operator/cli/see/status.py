"""`ssa-operator status`: shows parents, their children, and the object that each waits for."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.completed_names import objects
from ssa_operator.cli.shared_options import (
    TEMPLATES,
    AllNamespaces,
    Context,
    Kubeconfig,
    ListOption,
    ShownNamespaces,
    ShownSelector,
    Templates,
    Watch,
)
from ssa_operator.operator.process.option_values import check_folders, check_selector, namespaces_of
from ssa_operator.operator.process.streams import ListFormat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ssa_operator.tools.tree.listings import Listings
    from ssa_operator.tools.tree.tree_view import Line


class Shown(StrEnum):
    """What `--only` selects; the words are those of the web view's addresses."""

    UNREADY = "unready"
    FAILED = "failed"
    WORKING = "working"
    UNKNOWN = "unknown"
    READY = "ready"
    SUSPENDED = "suspended"
    CONFLICT = "conflict"


EXAMPLE = "ssa-operator status echo/hello -n default"


def status(
    parents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND[/NAME]]...",
            autocompletion=objects,
            help="Show only these parents; KIND NAME is allowed, too. Default: all parents of all template folders.",
        ),
    ] = None,
    templates: Templates = TEMPLATES,
    namespace: ShownNamespaces = None,
    all_namespaces: AllNamespaces = False,
    selector: ShownSelector = "",
    text: Annotated[
        str,
        typer.Option(
            metavar="WORDS", help="Show only parents whose kind, name, reason or message has each of these words."
        ),
    ] = "",
    only: Annotated[
        list[Shown] | None,
        typer.Option(
            help="Show only parents in this state (repeatable). failed needs a change, working may become ready "
            "by itself, and in a conflict others change its fields."
        ),
    ] = None,
    watch: Watch = False,
    output: ListOption = ListFormat.TABLE,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show parents and their children, those that are not ready first.

    Each line has the state, the age, and what an object waits for and for how long.
    """
    import functools
    import time

    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.operator.process import connection
    from ssa_operator.rendering.folder.folder_settings import read_resource_settings
    from ssa_operator.tools import printing
    from ssa_operator.tools.command_target import cluster_target, parse_references
    from ssa_operator.tools.tree.parent_entries import list_parents, parent_entries, report_unserved

    check_folders(templates)
    check_selector(selector)
    namespaces = () if all_namespaces else namespaces_of(namespace)
    wanted = parse_references(parents or (), names=False)
    folders = read_resource_settings(templates)

    async def entries(listings: Listings, mapper: RESTMapper) -> list[dict[str, Any]]:
        found = await list_parents(listings, mapper, folders, namespaces, wanted, selector)
        shown = await parent_entries(listings, mapper, found, time.time(), namespaces=namespaces)
        return [each for each in shown if _fits(each, text.lower().split(), only or ())]

    async def work() -> None:
        async with connection.connect(cluster_target(kubeconfig, context)) as client:
            mapper, draw = RESTMapper(client), functools.partial(_draw, wide=output is ListFormat.WIDE)
            await report_unserved(mapper, folders)
            read = functools.partial(entries, mapper=mapper)
            await printing.show(client, read, draw, output.data_format, watch=watch)

    connection.run(work())


def _fits(parent: Mapping[str, Any], words: Sequence[str], only: Sequence[Shown]) -> bool:
    from ssa_operator.tools.tree.tree_view import READY, condition, group_of, has_conflict, searched_text

    searched = searched_text(parent) if words else ""
    states = {group_of(parent)}
    states |= {Shown.UNREADY} if READY not in states else set()
    states |= {Shown.SUSPENDED} if condition(parent, "Suspended") is not None else set()
    states |= {Shown.CONFLICT} if has_conflict(parent) else set()
    return all(word in searched for word in words) and states.issuperset(only)


def _draw(found: Sequence[Mapping[str, Any]], now: float, *, wide: bool) -> list[Line]:
    from ssa_operator.tools.tree.tree_view import Line, lines, totals

    if not found:
        return [Line.of_note("no parents")]
    drawn = [line for parent in found for line in lines(parent, now, wide=wide)]
    return drawn if len(found) == 1 else [*drawn, Line.of_note(totals(found))]
